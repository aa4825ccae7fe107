"""The fuzzed targets in CI: random bytes, the seeds, what was once found, and what each input may take."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumesh.errors import RejectedError
from gpumesh.records import codec
from gpumesh.swim import frames, wire
from tests.fuzz.__main__ import NAMES, main
from tests.fuzz.targets import TARGETS

FOUND = Path(__file__).parent / "found"
BASE_BYTES = 256 * 1024
BYTES_A_BYTE = 128
"""A byte of msgpack makes a tuple at most."""
DATAGRAM_BYTES = 3 << 20
"""The plain decoder makes room for 255 items at each of a thousand levels; a datagram does not take more."""
DECODERS: dict[str, Callable[[bytes], object]] = {
    "datagram": wire.decode,
    "frame": frames.decode,
    "update": codec.decode_update,
    "page": codec.decode_page,
    "summary": codec.decode_summary,
    "digest": codec.decode_digest,
}
GREEDY = (
    b"\xdd\xff\xff\xff\xff",
    b"\xdc\xff\xff" + b"\x90" * 1000,
    b"\xc6\xff\xff\xff\xff" + bytes(100),
    b"\xdf\x7f\xff\xff\xff",
    b"\x91" * 1400,
    b"\x9f" * 200,
    b"\xdc\x00\xff" * 1_000,
    b"\xdc\x03\x20" * 1_000,
    b"\x93\x02" + b"\xdc\x03\x20" * 1_000,
    b"\xdc\x09\xff" * 1_000,
    b"\x93" + b"\xc4\x10" + bytes(16) + b"\xc4\x10" + bytes(16) + b"\xdc\x3f\xff" * 1_000,
    b"\xdc\x00\x80" * 1_000,
)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=60)
@given(data=st.binary(max_size=600))
def test_no_bytes_break_what_must_hold(name: str, data: bytes) -> None:
    TARGETS[name].feed(data)


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_hold_and_so_do_they_with_a_byte_changed(name: str) -> None:
    for seed in TARGETS[name].seeds():
        TARGETS[name].feed(seed)
        for place in range(0, len(seed), 7):
            changed = bytearray(seed)
            changed[place] ^= 0x55
            TARGETS[name].feed(bytes(changed))


def test_what_was_once_found_holds() -> None:
    for path in sorted(FOUND.glob("*-*")):
        TARGETS[path.name.partition("-")[0]].feed(path.read_bytes())


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("data", GREEDY, ids=range(len(GREEDY)))
def test_headers_that_claim_much_have_little_allocated(name: str, data: bytes) -> None:
    verify_allocation(name, data)


@pytest.mark.parametrize("name", DECODERS)
@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=1400))
def test_no_input_has_more_allocated_than_its_length_warrants(name: str, data: bytes) -> None:
    verify_allocation(name, data)


def verify_allocation(name: str, data: bytes) -> None:
    tracemalloc.start()
    try:
        DECODERS[name](data)
    except RejectedError:
        pass
    finally:
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    base = DATAGRAM_BYTES if name == "datagram" else BASE_BYTES
    assert peak_bytes <= base + BYTES_A_BYTE * len(data)


def test_every_target_can_be_asked_for_by_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert set(NAMES) == TARGETS.keys()
    assert main(["weather"]) == 2
    assert "no target 'weather'" in capsys.readouterr().err
    (tmp_path / "input").write_bytes(b"noise")
    assert main(["datagram", "--replay", str(tmp_path / "input")]) == 0
