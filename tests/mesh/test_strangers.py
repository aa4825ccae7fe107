from __future__ import annotations

from gpumesh.mesh.strangers import PATIENCE_S, Strangers


def test_record_without_a_member_is_dropped_after_a_while() -> None:
    strangers = Strangers()
    assert strangers.overdue(["a", "b"], {"b"}, 100.0) == []
    assert strangers.overdue(["a", "b"], {"b"}, 101.0 + PATIENCE_S) == ["a"]
    assert len(strangers) == 0


def test_stranger_that_became_a_member_starts_anew() -> None:
    strangers = Strangers()
    strangers.overdue(["a"], set(), 100.0)
    strangers.overdue(["a"], {"a"}, 150.0)
    assert strangers.overdue(["a"], set(), 101.0 + PATIENCE_S) == []
