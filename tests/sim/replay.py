"""What a failing simulation says: the one command that runs it again, and what broke."""

from __future__ import annotations

from gpumesh.sim.plan import Result


def again(result: Result) -> str:
    """Return the lines for a failed assertion about a run."""
    return "\n".join([f"again: {result.plan.command}", *map(str, result.violations)])
