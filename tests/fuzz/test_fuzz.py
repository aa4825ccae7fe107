"""The fuzzed targets in CI: random bytes, the seeds, and what was once found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.__main__ import NAMES, main
from tests.fuzz.targets import TARGETS

FOUND = Path(__file__).parent / "found"


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


def test_every_target_can_be_asked_for_by_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert set(NAMES) == TARGETS.keys()
    assert main(["weather"]) == 2
    assert "no target 'weather'" in capsys.readouterr().err
    (tmp_path / "input").write_bytes(b"noise")
    assert main(["datagram", "--replay", str(tmp_path / "input")]) == 0


@pytest.mark.parametrize("name", [[], ["datagram"]])
def test_without_atheris_nothing_passes_for_fuzzed(
    name: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "atheris", None)
    assert main(name) == 1
    said = capsys.readouterr().err
    assert "nothing was fuzzed" in said
    assert "pip install 'atheris>=2.3'" in said
