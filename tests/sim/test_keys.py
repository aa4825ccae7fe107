"""Keyed fleets in the simulator, and the rotation of their key."""

from __future__ import annotations

import pytest

from gpumesh.config.keyring import FleetKey, Keyring
from gpumesh.errors import RejectedError
from gpumesh.sim import rotation
from gpumesh.sim.keys import KeyBook
from gpumesh.sim.plan import Plan, Result, run_plan
from tests.sim.replay import again

ONE, TWO = FleetKey(b"1" * 32), FleetKey(b"2" * 32)


def test_a_ring_is_kept_across_restarts_and_taken_up_at_once_by_a_daemon_that_runs() -> None:
    book = KeyBook("fleet", Keyring((ONE,)))
    running = book.sealer("a", bytes(16))
    assert list(running.key_ids) == [ONE.key_id.hex()]
    book.give("a", Keyring((TWO, ONE)))
    both = [TWO.key_id.hex(), ONE.key_id.hex()]
    assert list(running.key_ids) == list(book.sealer("a", bytes([1] * 16)).key_ids) == both
    assert book.sealer("b", bytes(16)).key_ids == (ONE.key_id.hex(),)


def test_a_host_says_which_key_it_lacks() -> None:
    book = KeyBook("fleet", Keyring((ONE,)))
    behind, ahead = book.sealer("a", bytes(16)), book.sealer("b", bytes([1] * 16))
    assert book.lacked_by("a") is None
    book.give("b", Keyring((TWO,)))
    with pytest.raises(RejectedError, match="unknown_key"):
        behind.open(ahead.seal(b"body"))
    assert book.lacked_by("a") == TWO.key_id.hex()


def test_without_a_first_ring_the_fleet_is_unkeyed() -> None:
    assert KeyBook("fleet").sealer("a", bytes(16)).key_ids == ()


def run(seed: int, told: list[str] | None = None) -> Result:
    return run_plan(Plan("rotation", seed, 6), narrate=None if told is None else told.append)


@pytest.mark.parametrize(("seed", "is_locked_out"), [(1, True), (2, False)])
def test_consul_719_a_host_that_was_off_during_a_rotation_is_back_once_it_has_the_key(
    seed: int, is_locked_out: bool
) -> None:
    told: list[str] = []
    result = run(seed, told)
    assert result.is_fine, again(result)
    back = next(number for number, line in enumerate(told) if "starts again" in line)
    removed = [line for line in told[:back] if line.endswith(f"has keys {rotation.NEW.key_id.hex()} now")]
    was_gone = len(removed) == 5
    assert was_gone is is_locked_out, f"the old key was gone before it came back\n{again(result)}"


def test_a_fleet_that_goes_on_to_accept_a_removed_key_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "REMOVED", rotation.USED)
    result = run(1)
    assert "rotation" in {violation.invariant for violation in result.violations}, again(result)
