from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.config.keyring import FleetKey, Keyring
from gpumesh.errors import ReflectedError, RejectedError
from gpumesh.swim.seal import TAG_BYTES, FleetSealer

NOISE_REASONS = {"malformed", "version", "unkeyed", "unknown_key", "bad_label", "bad_tag"}
KEY, OTHER = FleetKey(b"k" * 32), FleetKey(b"o" * 32)


def sealer(number: int, *keys: FleetKey, fleet: str = "fleet", num_sessions: int = 16) -> FleetSealer:
    return FleetSealer(Keyring(keys) if keys else None, fleet, bytes([number] * 16), num_sessions)


def reason(receiver: FleetSealer, data: bytes) -> str:
    with pytest.raises(RejectedError) as caught:
        receiver.open(data)
    return caught.value.reason


@pytest.mark.parametrize("keys", [(), (KEY,)])
def test_what_one_host_seals_another_opens(keys: tuple[FleetKey, ...]) -> None:
    one, two = sealer(1, *keys), sealer(2, *keys)
    data = one.seal(b"body")
    assert len(data) == len(b"body") + one.overhead_bytes
    opened = two.open(data)
    assert (opened.body, opened.session) == (b"body", bytes([1] * 16))


@pytest.mark.parametrize("keys", [(), (KEY,)])
def test_a_replay_is_refused(keys: tuple[FleetKey, ...]) -> None:
    one, two = sealer(1, *keys), sealer(2, *keys)
    first, second = one.seal(b"1"), one.seal(b"2")
    two.open(second)
    two.open(first)
    assert reason(two, first) == "replay"
    assert reason(two, second) == "replay"


def test_a_datagram_sent_back_to_its_sender_is_refused() -> None:
    one = sealer(1, KEY)
    assert reason(one, one.seal(b"body")) == "reflected"


def test_who_has_no_key_cannot_make_what_a_host_sent_come_back_to_it() -> None:
    one = sealer(1, KEY)
    header = one.seal(b"")[:-TAG_BYTES]
    assert reason(one, header + bytes(40)) == "bad_tag"
    with pytest.raises(ReflectedError) as caught:
        one.open(one.seal(b"body"))
    assert caught.value.body == b"body"


def test_an_unknown_key_is_named() -> None:
    receiver = sealer(2, KEY)
    assert reason(receiver, sealer(1, OTHER).seal(b"body")) == "unknown_key"
    assert receiver.unknown_key_id == OTHER.key_id.hex()


def test_keyed_and_unkeyed_hosts_refuse_each_other() -> None:
    assert reason(sealer(2, KEY), sealer(1).seal(b"a body long enough to be read")) == "unkeyed"
    unkeyed = sealer(2)
    assert reason(unkeyed, sealer(1, KEY).seal(b"body")) == "unknown_key"
    assert unkeyed.unknown_key_id == KEY.key_id.hex()


@pytest.mark.parametrize("keys", [(), (KEY,)])
def test_consul_843_another_fleet_is_refused_by_its_label(keys: tuple[FleetKey, ...]) -> None:
    assert reason(sealer(2, *keys), sealer(1, *keys, fleet="other").seal(b"body")) == "bad_label"


def test_the_label_is_authenticated_and_not_just_compared() -> None:
    one, two = sealer(1, KEY, fleet="other"), sealer(2, KEY)
    data = bytearray(one.seal(b"body"))
    data[7:11] = sealer(3, KEY).seal(b"")[7:11]
    assert reason(two, bytes(data)) == "bad_tag"


@given(st.integers(0, 34 + 4 + 16), st.integers(1, 255))
def test_no_changed_byte_is_accepted_and_none_spoils_the_true_datagram(place: int, flip: int) -> None:
    one, two = sealer(1, KEY), sealer(2, KEY)
    data = one.seal(b"body")
    changed = bytearray(data)
    changed[place % len(data)] ^= flip
    with pytest.raises(RejectedError):
        two.open(bytes(changed))
    assert two.open(data).body == b"body"


def test_bodies_and_nonces_never_repeat() -> None:
    one = sealer(1, KEY)
    assert len({one.seal(b"same") for _ in range(100)}) == 100


def test_serf_579_overlapping_keys_rotate_without_losing_anybody() -> None:
    old, new = sealer(1, KEY), sealer(2, OTHER, KEY)
    assert new.open(old.seal(b"from the old")).body == b"from the old"
    assert reason(old, new.seal(b"too early")) == "unknown_key"
    old.rekey(Keyring((KEY, OTHER)))
    assert old.open(new.seal(b"now")).body == b"now"
    old.rekey(Keyring((OTHER,)))
    assert new.open(old.seal(b"with the new")).body == b"with the new"
    new.rekey(Keyring((OTHER,)))
    assert new.open(old.seal(b"old key gone")).body == b"old key gone"
    assert old.key_ids == (OTHER.key_id.hex(),)


def test_rotation_keeps_the_replay_windows_of_keys_that_stay() -> None:
    one, two = sealer(1, KEY), sealer(2, KEY)
    data = one.seal(b"body")
    two.open(data)
    two.rekey(Keyring((OTHER, KEY)))
    assert reason(two, data) == "replay"


def test_sessions_are_bounded() -> None:
    receiver = sealer(200, KEY, num_sessions=4)
    for number in range(1, 20):
        receiver.open(sealer(number, KEY).seal(b"body"))
    assert receiver.num_sessions == 4


def test_forged_sessions_leave_nothing_behind() -> None:
    receiver = sealer(200, KEY)
    for number in range(1, 20):
        data = bytearray(sealer(number, KEY).seal(b"body"))
        data[-1] ^= 1
        assert reason(receiver, bytes(data)) == "bad_tag"
    assert receiver.num_sessions == 0


@given(st.binary(max_size=200))
def test_noise_is_rejected(data: bytes) -> None:
    for receiver in (sealer(2, KEY), sealer(2)):
        assert reason(receiver, data) in NOISE_REASONS


def test_a_session_id_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        FleetSealer(None, "fleet", b"short")
