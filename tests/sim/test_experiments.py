"""A sample of Lifeguard's experiments, of starvation and of crashes; ``make sim-lifeguard`` runs the grid."""

from __future__ import annotations

import secrets
import statistics

import pytest

from gpumesh.sim.experiments import (
    BLOCKED_S,
    DETECTABLE_S,
    FREE_S,
    INTERVAL,
    MEMBERS,
    THRESHOLD,
    Outcome,
    Trial,
    main,
    run_trial,
    table,
    trials,
)
from gpumesh.sim.plan import Plan, run_plan
from gpumesh.sim.rules import RULES
from tests.sim.replay import again

HOSTS = 32
POINTS = ((4, 16.384, 0.016), (4, 8.192, 0.001))
PAPERS_FIRST_S = 12.4
"""Median seconds to the first detection of SWIM with alpha 5 at 128 members (Lifeguard, section V)."""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = {}
    for rules in RULES:
        found[rules] = [
            run_trial(Trial(rules, INTERVAL, members, blocked_s, free_s, 1, HOSTS, 60.0))
            for members, blocked_s, free_s in POINTS
        ]
        found[rules].append(run_trial(Trial(rules, THRESHOLD, 2, 32.768, 0.0, 1, HOSTS)))
    return found


def num_false(outcomes: list[Outcome]) -> int:
    return sum(outcome.num_false for outcome in outcomes if outcome.trial.is_interval)


def commands(outcomes: list[Outcome]) -> str:
    return "\n".join(f"again: {outcome.trial.command}" for outcome in outcomes)


def first_s(outcomes: list[Outcome]) -> float:
    return statistics.median(value for outcome in outcomes for value in outcome.first_s)


def test_blocked_members_make_plain_swim_fail_healthy_ones(outcomes: dict[str, list[Outcome]]) -> None:
    assert num_false(outcomes["swim"]) > 20, commands(outcomes["swim"])


def test_blocked_members_make_this_fleet_fail_no_healthy_one(outcomes: dict[str, list[Outcome]]) -> None:
    assert num_false(outcomes["gpumesh"]) == 0, commands(outcomes["gpumesh"])


@pytest.mark.parametrize(("members", "blocked_s", "free_s"), POINTS)
def test_members_whose_network_alone_blocks_fail_no_healthy_one(
    members: int, blocked_s: float, free_s: float
) -> None:
    outcome = run_trial(Trial("gpumesh", INTERVAL, members, blocked_s, free_s, 1, HOSTS, 60.0, "network"))
    assert outcome.num_false == 0, commands([outcome])


def test_lifeguard_detects_as_fast_as_swim(outcomes: dict[str, list[Outcome]]) -> None:
    both = [*outcomes["lifeguard"], *outcomes["swim"]]
    assert first_s(outcomes["lifeguard"]) == pytest.approx(first_s(outcomes["swim"]), rel=0.3), commands(both)


@pytest.mark.timeout(600)
def test_random_point_of_the_papers_grid_at_its_size_makes_this_fleet_fail_no_healthy_one() -> None:
    point = secrets.choice(MEMBERS), secrets.choice(BLOCKED_S), secrets.choice(FREE_S)
    seed = secrets.randbelow(2**31)
    own, swim = (run_trial(Trial(rules, INTERVAL, *point, seed)) for rules in ("gpumesh", "swim"))
    assert own.trial.num_hosts == 128
    assert own.num_false == 0, commands([own])
    # Most where members wake for tens of milliseconds every two seconds, and the more the more of them there
    # are: each time they refute, and are accused anew (docs/membership.md has the figures).
    assert own.num_datagrams <= (2 + point[0] / 2) * swim.num_datagrams, commands([own, swim])


@pytest.mark.timeout(600)
def test_first_detection_at_the_papers_size_is_the_papers_with_swim_and_54_percent_of_it_here() -> None:
    own, swim = (
        run_trial(Trial(rules, THRESHOLD, 16, DETECTABLE_S, 0.0, 1)) for rules in ("gpumesh", "swim")
    )
    assert len(own.first_s) == len(swim.first_s) == 16, commands([own, swim])
    assert first_s([swim]) == pytest.approx(PAPERS_FIRST_S, rel=0.15), commands([swim])
    assert first_s([own]) <= 0.54 * first_s([swim]), commands([own, swim])


def test_grid_is_the_papers_and_each_rule_runs_the_same_trials() -> None:
    whole = trials(0, 1)
    assert len([trial for trial in whole if trial.is_interval]) == 3 * 432
    by_rules = [
        [
            (trial.num_members, trial.blocked_s, trial.free_s, trial.seed)
            for trial in whole
            if trial.rules == rules
        ]
        for rules in RULES
    ]
    assert by_rules[0] == by_rules[1] == by_rules[2]
    assert len({trial.seed for trial in trials(5, 1) if trial.rules == "swim"}) == 5


def test_table_holds_a_line_for_each_set_of_rules(outcomes: dict[str, list[Outcome]]) -> None:
    lines = table([outcome for rules in RULES for outcome in outcomes[rules]])
    assert [line.split()[0] for line in lines] == ["rules", "swim", "lifeguard", "gpumesh"]


def test_command_prints_each_trial_and_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--sample", "1", "--hosts", "6", "--duration", "5", "--rules", "gpumesh"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "gpumesh interval C=" in printed
    assert "FP a run" in printed


def test_trial_prints_the_one_command_that_runs_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    trial = Trial("gpumesh", INTERVAL, 1, 0.128, 1 / 3, 7, 6, 5.0, "network")
    words = trial.command.split()
    assert words[:3] == ["python", "-m", "gpumesh.sim.experiments"]
    assert main(words[3:]) == 0
    first = capsys.readouterr().out
    assert f"again: {trial.command}" in first
    assert main(words[3:]) == 0
    assert capsys.readouterr().out == first


def test_point_that_cannot_be_read_is_answered_with_how_to_write_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--point", "sometimes:1:2:3"])
    assert "write interval:C:D:I" in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(1, 7))
def test_hosts_that_read_late_make_nobody_fail_a_healthy_one(seed: int) -> None:
    result = run_plan(Plan("late_reads", seed, 8, "swim"))
    assert result.measures.num_false == 0, again(result)


@pytest.mark.parametrize("rules", list(RULES))
def test_starved_hosts_make_plain_swim_alone_fail_the_living(rules: str) -> None:
    # memberlist's shortest suspicion for ten hosts, 4 s, where others' rules judge.
    parameters = {} if rules == "gpumesh" else {"suspicion_mult": 4 / 1.5}
    plans = [
        Plan("starved", seed, 10, "swim", settings={"share": 0.2}, parameters=parameters, rules=rules)
        for seed in range(1, 3)
    ]
    results = list(map(run_plan, plans))
    failed = [
        result for result in results if result.measures.num_false + result.measures.num_impaired_failed > 0
    ]
    assert bool(failed) is (rules == "swim"), "\n".join(map(again, failed or results))


@pytest.mark.parametrize(("power", "most_s"), [(0.0, 3.5), (1.0, 6.0)])
def test_crash_is_known_to_all_of_32_hosts_in_half_of_what_the_peers_take(
    power: float, most_s: float
) -> None:
    settings = {"share": 0.001, "power": power, "quiet_s": 30.0}
    results = [run_plan(Plan("crash", seed, HOSTS, "swim", "lan", settings)) for seed in range(1, 8)]
    known = [value for result in results for value in result.measures.all_detected_s]
    replays = "\n".join(map(again, results))
    assert len(known) == len(results), replays
    assert statistics.median(known) <= most_s, replays
