"""The kernel's lines about NVIDIA cards, as drivers of several ages write them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.health.xid_lines import KernelLine, LineReader, XidSighting, place_of

PLACE = "00000000:01:00"


def read(texts: Iterable[str]) -> list[XidSighting]:
    reader = LineReader()
    sightings = [reader.handle_line(KernelLine(at, text)) for at, text in enumerate(texts)]
    return [sighting for sighting in sightings if sighting is not None]


@pytest.mark.parametrize(
    ("text", "place", "xid", "pid", "process"),
    [
        (
            "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            PLACE,
            79,
            None,
            None,
        ),
        (
            "NVRM: Xid (PCI:0000:01:00): 31, pid=2280636, name=train.py, Ch 0000000c, intr 00000000.",
            PLACE,
            31,
            2280636,
            "train.py",
        ),
        ("NVRM: Xid (0000:03:00): 13, 0003 00000000 0000b1c0", "00000000:03:00", 13, None, None),
        ("NVRM: Xid (PCI:0000:b3:00.0): 119, pid=77", "00000000:B3:00", 119, 77, None),
        ("NVRM: Xid (PCI:0000:05:00 GPU-I:05): 43, pid=9, name=a", "00000000:05:00", 43, 9, "a"),
        ("NVRM: Xid (PCI:0008:01:00): 48, pid=1", "00000008:01:00", 48, 1, None),
    ],
)
def test_an_xid_is_read_with_its_card_and_its_process(
    text: str, place: str, xid: int, pid: int | None, process: str | None
) -> None:
    assert read([text]) == [XidSighting(place, xid, 0, is_kernel=True, pid=pid, process=process)]


def test_xid_154_tells_what_the_driver_asks_for_now() -> None:
    changed = (
        "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)"
    )
    taken_back = (
        "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x1 (PF FLR) to 0x0 (None)"
    )
    assert [sighting.asked for sighting in read([changed, taken_back])] == [2, 0]


@pytest.mark.parametrize(
    "texts",
    [
        ["NVRM: GPU 0000:01:00.0: GPU has fallen off the bus."],
        ["NVRM: GPU at PCI:0000:01:00: GPU-5b0ab4e0-7a31-11ee-b962-0242ac120002 has fallen off the bus"],
        ["NVRM: The NVIDIA GPU 0000:01:00.0 NVRM: (PCI ID: 10de:26b5) NVRM: has NVRM: fallen off the bus"],
        [
            "NVRM: The NVIDIA GPU 0000:01:00.0",
            "NVRM: (PCI ID: 10de:26b5) installed in this system has",
            "NVRM: fallen off the bus and is not responding to commands.",
        ],
    ],
)
def test_nvsentinel_155_a_card_off_the_bus_without_an_xid_is_seen(texts: list[str]) -> None:
    (sighting,) = read(texts)
    assert (sighting.place, sighting.xid) == (PLACE, None)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.161.07  Sat Feb 17 22:55:48 UTC 2024",
        "NVRM: GPU at PCI:0000:01:00: GPU-5b0ab4e0-7a31-11ee-b962-0242ac120002",
        "NVRM: Xid (PCI:0000:66:00): abc, pid=2280636",
        "NVRM: Xid (somewhere): 79, pid=1",
        "NVRM: fallen off the bus and is not responding to commands.",
        "NVRM: The NVIDIA GPU 0000:01:00.0",
    ],
)
def test_a_line_that_names_no_card_or_no_trouble_says_nothing(text: str) -> None:
    assert read([text]) == []


def test_a_sentence_that_never_ends_is_not_joined_to_another_one() -> None:
    begun = "NVRM: The NVIDIA GPU 0000:01:00.0"
    other = "NVRM: loading NVIDIA UNIX Open Kernel Module"
    assert read([begun, other, other, other, "NVRM: fallen off the bus and is not responding"]) == []


@given(st.lists(st.text(max_size=80)))
def test_no_line_breaks_the_reader(texts: list[str]) -> None:
    read(f"NVRM: Xid (PCI:{text}" for text in texts)
    read(f"NVRM: {text} fallen off the bus" for text in texts)


def test_a_place_is_the_address_without_the_function_in_the_drivers_form() -> None:
    assert place_of("00000000:b3:00.0") == "00000000:B3:00"
    assert place_of("0000:01:00.1") == PLACE
    assert place_of("somewhere") is None
