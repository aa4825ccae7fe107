"""docs/health.md, made from the checks themselves: ``python -m gpumesh.health.describe`` prints it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

from gpumesh.config import HealthConfig
from gpumesh.health.checks import CHECKS
from gpumesh.health.rules import Check, Rule, about

_DEFAULTS: Final = HealthConfig()
_INTRO: Final = f"""\
# Health checks

<!-- Made from gpumesh/health/checks/ by `make golden-update`; edit there. -->

Every look at the cards goes through the checks below. What a check sees becomes a finding once it has been
seen for the time in the column *stands after* without a break (*at once* for hard facts), and goes once it
has been away for the time in *goes after*, and for at least {_DEFAULTS.clean_looks} looks in a row. A value
that a card cannot give is not judged; a card that could not be read keeps its findings and is `unknown`,
never `healthy`.

| severity | makes its subject |
|---|---|
| critical | `unhealthy`: takes no work |
| warning | `degraded`: takes work only from requests that allow it |
| info | nothing: it is told |

Numbers are the defaults; the keys in the column *settings* are the site's to change, in `[health]` of the
configuration (docs/gpumesh.toml), and `clean_looks` and `recover_after` for every finding at once. An
operator can silence a check, or one finding of it, for a time: `gpumesh silence pcie/width --for 2h
--reason ...`; it is shown then and does not count.

A finding about a card stands on the card (`gpu/<uuid>`) and leaves the others in service; one about the
driver or the host stands on `host`. A card whose last critical finding went, beside other cards, is
`degraded` (`cooldown/recovered`) for `lease.cooldown` more; a host's only card waits for the host's own
cooldown.
"""

_HEAD: Final = (
    "finding",
    "seen when",
    "severity",
    "stands after",
    "goes after",
    "settings",
    "action",
    "source",
)
_UNITS: Final = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def describe() -> str:
    """Return the page that documents every check: threshold, severity, hysteresis, action and source."""
    return "\n".join([_INTRO, *(_check(check) for check in CHECKS)])


def _check(check: Check) -> str:
    head = [_joined(_HEAD), "|---" * len(_HEAD) + "|"]
    rows = [_row(rule) for rule in check.rules]
    advice = [f"- `{rule.code}`: {rule.advice}." for rule in check.rules if rule.advice]
    told = ["", "What to do:", "", *advice] if advice else []
    return "\n".join([f"## `{check.name}`", "", about(check).replace("``", "`"), "", *head, *rows, *told, ""])


def threshold_of(rule: Rule) -> str:
    """Return when a rule's finding is seen, with the defaults in place."""
    return rule.threshold.format_map({key: _default(key) for key in rule.settings})


def _row(rule: Rule) -> str:
    clear_s, stand_s = rule.goes_after_s(_DEFAULTS), rule.stands_after_s(_DEFAULTS)
    clear = _length(clear_s) if clear_s else f"{_DEFAULTS.clean_looks} looks"
    stand = _length(stand_s) if stand_s else "at once"
    settings = ", ".join(f"`{key}`" for key in rule.settings)
    cells = (
        f"`{rule.code}`",
        threshold_of(rule),
        rule.severity,
        stand,
        clear,
        settings,
        rule.action,
        rule.source,
    )
    return _joined(str(cell).replace("|", "\\|") for cell in cells)


def _joined(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _default(key: str) -> str:
    """Return a default as people read it: numbers as they are, durations with their unit."""
    setting = HealthConfig.setting(key)
    is_length = setting.shown.startswith('"')
    return _length(_DEFAULTS.value(key)) if is_length else setting.shown


def _length(seconds: float) -> str:
    size, unit = next((size, unit) for size, unit in _UNITS if seconds >= size and seconds % size == 0)
    return f"{seconds / size:g} {unit}"


if __name__ == "__main__":
    sys.stdout.write(describe())
