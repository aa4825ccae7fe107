"""``gpumesh check``: this host's health in one line and an exit code, in the words of whoever asks."""

from __future__ import annotations

import argparse

from gpumesh.cli.checkformats import FORMATS, Checked, overall_verdict
from gpumesh.cli.findings import counts, findings_of
from gpumesh.cli.health import HealthSeen, add_no_daemon, see_health
from gpumesh.cli.session import Session
from gpumesh.errors import GpumeshError


def configure_check(parser: argparse.ArgumentParser) -> None:
    """Add whose words to speak."""
    parser.add_argument(
        "--format",
        choices=sorted(FORMATS),
        help="slurm for HealthCheckProgram, nagios for Nagios and Icinga, npd for Kubernetes' "
        "node-problem-detector; plain (the default) and json",
    )
    parser.add_argument(
        "--fail-on",
        choices=("degraded", "unhealthy"),
        help="from which verdict on the check fails (default: unhealthy with slurm and npd, else degraded); "
        "unknown always fails",
    )
    add_no_daemon(parser)


def run_check(args: argparse.Namespace, session: Session) -> int:
    """Say in one line whether this host and all its GPUs are healthy."""
    name = args.format or ("json" if session.is_json else "plain")
    form = FORMATS[name]
    try:
        checked = _checked(see_health(session, no_daemon=args.no_daemon))
    except GpumeshError as error:
        if form.code_untold is None:
            raise
        # A monitoring system reads the first line of the output and this code, and nothing else.
        session.terminal.write(form.untold(str(error)))
        return form.code_untold
    session.terminal.write(form.line(checked, session.terminal))
    return form.code(checked.verdict, args.fail_on or form.fails_on)


def _checked(seen: HealthSeen) -> Checked:
    document = seen.document
    telling = [item for item in findings_of(document) if counts(item)]
    why = telling[0]["reason"] if telling else document["reason"]
    return Checked(document, overall_verdict(document), tuple(telling), why, seen.by)
