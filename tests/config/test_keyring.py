from __future__ import annotations

import base64
import hashlib

import pytest

from gpumesh.config.keyring import FleetKey, Keyring, new_key
from gpumesh.errors import FleetKeyError
from gpumesh.swim.hkdf import derive


def test_a_new_key_is_thirty_two_bytes_and_never_the_same() -> None:
    keys = {new_key() for _ in range(10)}
    assert len(keys) == 10
    assert {len(base64.b64decode(key)) for key in keys} == {32}


def test_the_first_key_sends_and_all_are_accepted() -> None:
    one, two = new_key(), new_key()
    ring = Keyring.parse(f"# fleet\n{one}  # since May\n\n{two}\n")
    assert [key.text for key in ring.keys] == [one, two]
    assert Keyring.parse(ring.text()) == ring


def test_the_key_id_is_the_start_of_the_digest() -> None:
    key = FleetKey(b"k" * 32)
    assert key.key_id == hashlib.sha256(b"k" * 32).digest()[:4]
    assert Keyring((key,)).key_ids == (key.key_id.hex(),)


def test_a_key_never_shows_in_its_repr() -> None:
    text = new_key()
    assert text not in repr(Keyring.parse(text))
    assert str(base64.b64decode(text)) not in repr(Keyring.parse(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "gpumesh init"),
        ("# only a comment\n", "gpumesh init"),
        ("not base64!\n", "line 1"),
        ("\nAAAA\n", "line 2 .* 3 bytes"),
        (f"{FleetKey(bytes(32)).text}\n{FleetKey(bytes(32)).text}\n", "twice"),
        ("".join(new_key() + "\n" for _ in range(17)), "1 to 16 keys"),
    ],
)
def test_a_bad_key_file_says_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(FleetKeyError, match=words):
        Keyring.parse(text)


def test_derivation_is_hkdf_sha256_of_rfc_5869() -> None:
    """Test case 1 of the RFC's appendix, first block."""
    secret, salt, info = bytes([0x0B] * 22), bytes(range(13)), bytes(range(0xF0, 0xFA))
    expected = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
    assert derive(secret, salt, info).hex() == expected
    with pytest.raises(ValueError, match="32"):
        derive(secret, salt, info, 33)


def test_a_rotation_adds_uses_and_removes_and_changes_nothing_by_mistake() -> None:
    old, new = (FleetKey(bytes([number]) * 32) for number in (1, 2))
    ring = Keyring((old,)).with_key(new)
    assert ring.with_key(new) is ring
    assert ring.keys == (old, new)
    with pytest.raises(FleetKeyError, match="one used to send"):
        ring.without(old.key_id.hex())
    ring = ring.sending_with(new.key_id.hex().upper())
    assert ring.keys == (new, old)
    assert ring.without(old.key_id.hex()).keys == (new,)
    with pytest.raises(FleetKeyError, match=new.key_id.hex()):
        ring.find("00000000")
