"""Without the key nothing changes: the attacked host has something to lose, and a change would be seen."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumesh.model import Reachability
from gpumesh.swim.statement import Statement, Vouch
from gpumesh.swim.wire import Gossip, Sender, encode_body, encode_head, encode_statement
from tests.fuzz import words
from tests.fuzz.outsider import Outsider, state
from tests.fuzz.scene import FRIEND, LIVING, STANDINGS, Scene, sealer


def say(scene: Scene, statement: Statement | Vouch) -> None:
    head = encode_head(Sender(LIVING[1], 1, 0, 1), b"", Gossip())
    sealed = sealer(50).seal(encode_body(head, [encode_statement(statement)], []))
    scene.engine.handle_datagram(sealed, words.ADDRESSES[5], scene.now)


def test_host_under_attack_knows_members_in_every_standing_and_their_records() -> None:
    scene = Scene()
    held = {row.host_id: row.reachability for row in scene.engine.members()}
    assert held == {words.IDS[0]: Reachability.ALIVE, **STANDINGS}
    assert set(scene.engine._records.hosts()) == held.keys()
    rows = {row.host_id: row for row in scene.engine._swim._context.table}
    assert all(rows[host_id].session for host_id in LIVING)
    assert rows[words.IDS[2]].suspicion is not None
    assert scene.taken
    assert scene.sent


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=900))
def test_whatever_an_outsider_tries_changes_no_member_and_no_record(data: bytes) -> None:
    Outsider(Scene(), data).run()


@pytest.mark.parametrize("attempt", range(7))
def test_each_kind_of_attempt_changes_nothing(attempt: int) -> None:
    for start in range(12):
        drawn = bytes((start + 31 * step) % 256 for step in range(80))
        Outsider(Scene(), bytes([0, 0, 0, attempt]) + drawn).run()


@pytest.mark.parametrize(
    "said",
    [
        Statement(Reachability.FAILED, FRIEND, 1, 0, accuser=LIVING[1]),
        Statement(Reachability.SUSPECT, words.IDS[2], 1, 0, accuser=LIVING[1]),
        Statement(Reachability.ALIVE, words.IDS[3], 1, 1, words.ADDRESSES[3]),
        Statement(Reachability.ALIVE, FRIEND, 2, 0, words.ADDRESSES[1]),
        Statement(Reachability.SUSPECT, words.IDS[0], 1, 0, accuser=LIVING[1]),
        Vouch(words.IDS[2], 1, 0, LIVING[1]),
    ],
    ids=["an accusation", "a second accuser", "a return", "an epoch", "its own accusation", "a vouch"],
)
def test_the_same_said_with_the_key_is_seen_to_change_something(said: Statement | Vouch) -> None:
    scene = Scene()
    before = state(scene)
    say(scene, said)
    assert state(scene)[:5] != before[:5]


@pytest.mark.parametrize("change", [lambda scene: scene.taken[0], lambda scene: scene.taken[-1]])
def test_what_was_recorded_is_refused_as_a_replay(change: Callable[[Scene], bytes]) -> None:
    scene = Scene()
    before = state(scene)
    scene.engine.handle_datagram(change(scene), words.ADDRESSES[1], scene.now)
    assert state(scene) == before
    assert scene.engine.counters["drops/replay"] == 1
