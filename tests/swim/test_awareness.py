from __future__ import annotations

from gpumesh.swim.awareness import Awareness


def test_score_stays_within_its_levels() -> None:
    awareness = Awareness(8)
    awareness.add(-3)
    assert awareness.score == 0
    awareness.add(100)
    assert awareness.score == 7


def test_durations_stretch_by_score_plus_one() -> None:
    awareness = Awareness(8)
    assert awareness.scale(0.5) == 0.5
    awareness.add(2)
    assert awareness.scale(0.5) == 1.5


def test_one_level_switches_awareness_off() -> None:
    awareness = Awareness(1)
    awareness.add(5)
    assert awareness.scale(1.0) == 1.0
