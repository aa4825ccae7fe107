"""The table: medians of each make, gpumesh's ratio to each peer, and whether the bound is met."""

import json
from collections.abc import Sequence

from tests.bench.row import OWN, Row

VERDICTS = {True: "met", False: "MISSED", None: "not measured"}


def ratios(row: Row) -> dict[str, float]:
    """Return gpumesh's value over that of each peer, where both are known and the peer's is not zero."""
    own = row.values.get(OWN)
    if own is None:
        return {}
    return {name: own / value for name, value in row.values.items() if name != OWN and value}


def table(rows: Sequence[Row]) -> str:
    """Return the rows for people."""
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    peers = [name for name in names if name != OWN]
    head = ["", *names, *(f"/ {name}" for name in peers), "bound"]
    lines = [head]
    for row in rows:
        shown = [_number(row.values.get(name)) for name in names]
        over = ratios(row)
        title = f"{row.measure} [{row.unit}]" if row.unit else row.measure
        verdict = f"{row.bound}: {VERDICTS[row.bound.is_met(row.values)]}" if row.bound else ""
        lines.append([title, *shown, *(_number(over.get(name)) for name in peers), verdict])
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            [
                line[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:-1], strict=True)),
                line[-1],
            ]
        ).rstrip()
        for line in lines
    )


def document(rows: Sequence[Row], **about: object) -> str:
    """Return the rows as JSON."""
    return json.dumps({**about, "rows": [_as_json(row) for row in rows]}, indent=1)


def _as_json(row: Row) -> dict[str, object]:
    told: dict[str, object] = {
        "measure": row.measure,
        "unit": row.unit,
        "median": row.values,
        "ratio": ratios(row),
        "single": row.detail,
    }
    if row.bound:
        told["bound"] = {"says": str(row.bound), "is_met": row.bound.is_met(row.values)}
    return told


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    value = float(value)  # counts come as int, which has no is_integer before Python 3.12
    return f"{value:.0f}" if value.is_integer() or value >= 1000 else f"{value:.3g}"
