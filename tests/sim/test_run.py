from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.cli.main import main as fleet_main
from gpumesh.sim.engines import PROFILES
from gpumesh.sim.plan import Plan, run_plans
from gpumesh.sim.rules import RULES
from gpumesh.sim.run import add_arguments, main, plans_of
from gpumesh.sim.scenarios import SCENARIOS

ROOT = Path(__file__).parents[2]
NUMBERS = st.one_of(st.floats(allow_nan=False), st.integers(-(10**9), 10**9))


@st.composite
def any_plan(draw: st.DrawFn) -> Plan:
    name = draw(st.sampled_from(sorted(SCENARIOS)))
    settings = draw(st.dictionaries(st.sampled_from(sorted(SCENARIOS[name].settings)), NUMBERS))
    plan = Plan(
        name,
        draw(st.integers(0, 2**63)),
        draw(st.one_of(st.just(SCENARIOS[name].num_hosts), st.integers(2, 10_000))),
        draw(st.sampled_from(["mesh", "swim"])),
        draw(st.sampled_from(PROFILES)),
        settings,
    )
    if plan.engine == "mesh":
        return plan
    parameters = {
        "suspicion_mult": st.floats(1.0, 1e9),
        "stall_s": st.floats(1e-9, 1e9),
        "num_streams": st.integers(4, 4096),
    }
    chosen = draw(st.sets(st.sampled_from(sorted(parameters))))
    rules = draw(st.sampled_from(sorted(RULES)))
    return replace(plan, rules=rules, parameters={name: draw(parameters[name]) for name in sorted(chosen)})


def plans(words: list[str]) -> list[Plan]:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return plans_of(parser.parse_args(words))


def plan_of(command: str) -> Plan:
    words = shlex.split(command)
    assert words[:2] == ["gpumesh", "sim"]
    [plan] = plans(words[2:])
    return plan


@given(any_plan())
def test_replay_command_of_any_plan_asks_for_that_very_plan(plan: Plan) -> None:
    assert plan_of(plan.command) == plan


@pytest.mark.parametrize("value", [1234567.0, 0.33333333, 1e-300, 5e22, float("inf")])
def test_replay_command_holds_each_number_to_its_last_digit(value: float) -> None:
    plan = Plan("partition_long", 1, 4, settings={"most_s": value})
    assert plan_of(plan.command) == plan


def test_replay_command_names_only_what_differs() -> None:
    assert Plan("crash", 7, 8).command == "gpumesh sim --scenario crash --seed 7"
    plan = Plan("stall", 7, 12, "swim", "wan", {"share": 0.5}, {"num_indirect": 5})
    assert plan.command == (
        "gpumesh sim --scenario stall --seed 7 --hosts 12 --engine swim --profile wan "
        "--set share=0.5 --parameter num_indirect=5"
    )


def test_several_values_of_a_setting_run_each_seed_with_each() -> None:
    words = ["--scenario", "starved", "--seeds", "2", "--set", "loss=0.01,0.05", "--set", "share=0.1,0.2"]
    found = [(plan.seed, plan.settings["loss"], plan.settings["share"]) for plan in plans(words)]
    assert found == [(seed, loss, share) for seed in (1, 2) for loss in (0.01, 0.05) for share in (0.1, 0.2)]


def test_make_sim_long_runs_each_scenario_that_tests_and_keeps_a_fleet_apart_for_a_day() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nsim-long:")[2].partition("\n\n")[0]
    commands = [line.partition("-m gpumesh.sim ")[2] for line in recipe.splitlines()[1:]]
    asked = [plan for line in commands for plan in plans(shlex.split(line.replace("$$(nproc)", "2")))]
    assert {plan.scenario for plan in asked} == {
        name for name, scenario in SCENARIOS.items() if not scenario.is_experiment
    }
    days = [plan for plan in asked if plan.settings.get("least_s") == 86_400.0]
    assert {(plan.scenario, plan.engine) for plan in days} == {("partition_long", "mesh")}


def test_failing_seed_prints_its_violation_and_one_command_that_fails_alike(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Nobody can form a fleet in no time at all: the scenario must say so.
    arguments = ["--scenario", "join", "--seed", "3", "--engine", "swim", "--set", "limit_s=0"]
    assert main(arguments) == 1
    first = capsys.readouterr().out
    [command] = [line.partition("again: ")[2] for line in first.splitlines() if "again: " in line]
    assert command == "gpumesh sim --scenario join --seed 3 --engine swim --set limit_s=0"
    assert main(command.split()[2:]) == 1
    assert capsys.readouterr().out == first


def test_json_holds_plan_violations_and_measures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "crash", "--engine", "swim", "--hosts", "4", "--seeds", "2", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["plan"]["seed"] for line in lines] == [1, 2]
    assert all(line["is_fine"] and line["measures"]["all_detected_s"] for line in lines)


def test_trace_tells_what_happens(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "crash", "--engine", "swim", "--hosts", "3", "--trace"]) == 0
    told = capsys.readouterr().out
    assert "starts (epoch 1)" in told
    assert "-> failed" in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--scenario", "earthquake"], "no scenario 'earthquake'"),
        (["--scenario", "crash", "--set", "colour=1"], "no setting 'colour'"),
        (["--scenario", "crash", "--set", "share=many"], "write NAME=NUMBER"),
        (["--scenario", "crash", "--parameter", "luck=1"], "no parameter 'luck'"),
        (["--scenario", "crash", "--parameter", "probe_timeout_s=9"], "probe_timeout_s"),
        (["--scenario", "crash", "--hosts", "1"], "--hosts at least 2"),
        (["--scenario", "crash", "--rules", "swim"], "add --engine swim"),
        (["--scenario", "crash", "--parameter", "num_indirect=5"], "add --engine swim"),
    ],
)
def test_wrong_question_is_answered_with_what_is_wrong(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


def test_command_line_of_the_fleet_runs_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert fleet_main(["sim", "--scenario", "join", "--engine", "swim", "--hosts", "3"]) == 0
    assert "join: 1 of 1 seeds held, 3 hosts" in capsys.readouterr().out


@pytest.mark.parametrize("engine", ["swim", "mesh"])
def test_same_plan_gives_the_same_run_whatever_ran_before_and_under_any_hash_seed(engine: str) -> None:
    command = [sys.executable, "-m", "gpumesh.sim", "--scenario", "storm", "--set", "duration_s=60", "--json"]
    lines = set()
    # A run before it in the same process leaves objects elsewhere in memory.
    for hash_seed, first, count in (("1", 5, 1), ("2", 5, 1), ("3", 3, 3)):
        process = subprocess.run(
            [*command, "--engine", engine, "--seed", str(first), "--seeds", str(count)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.stderr == ""
        lines.add(process.stdout.splitlines()[-1])
    assert len(lines) == 1


def test_rules_of_others_are_measured_and_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--scenario", "late_reads", "--engine", "swim", "--rules", "swim", "--seeds", "4", "--json"]
    assert main(arguments) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sum(line["measures"]["num_false"] for line in lines) > 0, "SWIM fails healthy hosts here"
    assert all("--rules swim" in line["command"] for line in lines)


def test_several_processes_give_what_one_gives() -> None:
    plans = [Plan("crash", seed, 4, "swim") for seed in (4, 5)]
    assert list(run_plans(plans, 2)) == list(run_plans(plans, 1))


def test_engine_that_raises_fails_its_seed_with_what_it_raised(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def trip(_self: object, _now: float) -> None:
        raise KeyError("tripped over a beat")

    monkeypatch.setattr("gpumesh.swim.engine.Swim.beat", trip)
    assert main(["--scenario", "join", "--seed", "4", "--engine", "swim"]) == 1
    printed = capsys.readouterr().out
    assert "engine_raised" in printed
    assert "tripped over a beat" in printed
    assert "again: gpumesh sim --scenario join --seed 4 --engine swim" in printed
