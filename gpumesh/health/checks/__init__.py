"""The checks, one a file; this registry is what the engine runs and what docs/health.md is made from."""

from __future__ import annotations

from typing import Final

from gpumesh.health.checks import (
    answer,
    baseline,
    clocks,
    driver,
    ecc,
    fabric,
    fan,
    inventory,
    leak,
    leftover,
    mig,
    nvlink,
    pace,
    pcie,
    persistence,
    recovery,
    remap,
    replays,
    retired,
    slow,
    stuck,
    temperature,
    xid,
)
from gpumesh.health.rules import Check

CHECKS: Final[tuple[Check, ...]] = (
    driver.CHECK,
    inventory.CHECK,
    answer.CHECK,
    temperature.CHECK,
    clocks.CHECK,
    fan.CHECK,
    ecc.CHECK,
    remap.CHECK,
    retired.CHECK,
    recovery.CHECK,
    xid.CHECK,
    pcie.CHECK,
    replays.CHECK,
    nvlink.CHECK,
    slow.CHECK,
    stuck.CHECK,
    leak.CHECK,
    leftover.CHECK,
    mig.CHECK,
    fabric.CHECK,
    persistence.CHECK,
    pace.CHECK,
    baseline.CHECK,
)
