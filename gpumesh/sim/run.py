"""``gpumesh sim``: run scenarios over many seeds, say what held and what was measured."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import groupby, product

from gpumesh.errors import ConfigError, RequestError
from gpumesh.sim.engines import ENGINES, PROFILES, parameters_for
from gpumesh.sim.measures import summary_lines
from gpumesh.sim.plan import Plan, Result, run_plan, run_plans
from gpumesh.sim.rules import OWN, RULES
from gpumesh.sim.scenarios import SCENARIOS

MAX_SHOWN = 5
"""Violations shown of one seed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``gpumesh sim``; ``--json`` is among those that all commands have."""
    parser.add_argument(
        "--scenario", default="all", metavar="NAME", help=f"all, or one of {', '.join(SCENARIOS)}"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first seed (default 1)")
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="K", help="how many seeds, counted up from it"
    )
    parser.add_argument("--hosts", type=int, default=0, metavar="N", help="hosts (default: the scenario's)")
    parser.add_argument(
        "--engine", choices=ENGINES, default="mesh", help="the whole mesh, or bare membership"
    )
    parser.add_argument("--profile", choices=PROFILES, default="lan", help="timing of failure detection")
    parser.add_argument(
        "--rules", choices=RULES, default=OWN, help="how hosts judge: as here, or as SWIM or Lifeguard would"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE[,VALUE...]",
        help="override a number of the scenario; with several values each seed is run with each",
    )
    parser.add_argument(
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="override a parameter of the membership protocol",
    )
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="seeds to run at a time")
    parser.add_argument("--trace", action="store_true", help="tell everything that happens (one seed)")


def run(args: argparse.Namespace) -> int:
    """Run what was asked for; 0: all invariants held, 1: one did not, 2: the question was wrong."""
    try:
        plans = plans_of(args)
    except (RequestError, ConfigError) as error:
        sys.stderr.write(f"gpumesh sim: {error}\n")
        return 2
    if args.trace:
        results: Iterable[Result] = (run_plan(plan, narrate=_print) for plan in plans)
    else:
        results = run_plans(plans, args.processes)
    if args.json:
        return _print_json(results)
    is_fine = True
    for name, runs in groupby(results, key=lambda result: result.plan.scenario):
        group = []
        for result in runs:
            group.append(result)
            if not result.is_fine:
                is_fine = False
                _print_failure(result)
        _print_group(name, group)
    return 0 if is_fine else 1


def plans_of(args: argparse.Namespace) -> list[Plan]:
    """Return the plans that the arguments ask for. Errors: RequestError names what is wrong."""
    tests = [name for name, scenario in SCENARIOS.items() if not (scenario.is_experiment or scenario.is_long)]
    names = tests if args.scenario == "all" else [args.scenario]
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise RequestError(f"no scenario {unknown[0]!r}; there are: all, {', '.join(SCENARIOS)}")
    if args.seeds < 1 or args.hosts < 0 or args.hosts == 1:
        raise RequestError("--seeds must be at least 1 and --hosts at least 2")
    parameters = dict(_number("--parameter", text) for text in args.parameter)
    parameters_for(args.profile, {**RULES[args.rules], **parameters})
    if args.engine != "swim" and (parameters or args.rules != OWN):
        raise RequestError("--parameter and --rules are for bare membership: add --engine swim")
    cells = _cells(args.set, names)
    return [
        Plan(
            name,
            seed,
            args.hosts or SCENARIOS[name].num_hosts,
            args.engine,
            args.profile,
            settings,
            parameters,
            args.rules,
        )
        for name in names
        for seed in range(args.seed, args.seed + args.seeds)
        for settings in cells
    ]


def _cells(texts: Sequence[str], names: Sequence[str]) -> list[dict[str, float]]:
    """Return each combination of the settings' values."""
    values: dict[str, list[float]] = {}
    for text in texts:
        key, _, choices = text.partition("=")
        values[key] = [_number("--set", f"{key}={choice}")[1] for choice in choices.split(",")]
        for name in names:
            if key not in SCENARIOS[name].settings:
                known = ", ".join(SCENARIOS[name].settings) or "none"
                raise RequestError(f"--set {text}: scenario {name} has no setting {key!r}; it has: {known}")
    return [dict(zip(values, cell, strict=True)) for cell in product(*values.values())]


def _number(option: str, text: str) -> tuple[str, float]:
    key, _, value = text.partition("=")
    try:
        return key, float(value)
    except ValueError:
        raise RequestError(f"{option} {text}: write NAME=NUMBER, such as limit_s=30") from None


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _print_failure(result: Result) -> None:
    _print(f"FAILED {result.plan.scenario}, seed {result.plan.seed}: {result.num_violations} violations")
    for violation in result.violations[:MAX_SHOWN]:
        _print(f"  {violation}")
    _print(f"  again: {result.plan.command}")


def _print_group(name: str, group: Sequence[Result]) -> None:
    num_failed = sum(not result.is_fine for result in group)
    plan = group[0].plan
    _print(
        f"{name}: {len(group) - num_failed} of {len(group)} seeds held, {plan.num_hosts} hosts, "
        f"engine {plan.engine}, profile {plan.profile}, rules {plan.rules}"
    )
    for line in summary_lines(result.measures for result in group):
        _print(f"  {line}")


def _print_json(results: Iterable[Result]) -> int:
    is_fine = True
    for result in results:
        is_fine = is_fine and result.is_fine
        _print(json.dumps({**asdict(result), "is_fine": result.is_fine, "command": result.plan.command}))
    return 0 if is_fine else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``python -m gpumesh.sim``."""
    parser = argparse.ArgumentParser(
        prog="gpumesh sim", description="Run the fleet's own engines in virtual time, many seeds a scenario."
    )
    add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object a run")
    return run(parser.parse_args(arguments))
