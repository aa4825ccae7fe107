from __future__ import annotations

import pytest

from gpumesh.health.clock_reasons import HardwareCause, hardware_cause


@pytest.mark.parametrize(
    ("reasons", "cause"),
    [
        (0x08, HardwareCause.UNEXPLAINED),
        (0x48, HardwareCause.THERMAL),
        (0x88, HardwareCause.POWER_BRAKE),
        (0xC8, HardwareCause.THERMAL),
        (0x40, HardwareCause.THERMAL),
        (0x01 | 0x02 | 0x04 | 0x10 | 0x20 | 0x100, None),
        (0, None),
    ],
)
def test_a_slowdown_has_the_one_cause_that_says_most(reasons: int, cause: HardwareCause | None) -> None:
    assert hardware_cause(reasons) is cause
