from __future__ import annotations

import struct
from contextlib import suppress

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.daemon.prober_wire import (
    MAX_FRAME_BYTES,
    Backend,
    FrameReader,
    backend,
    device_state,
    driver_info,
    encode,
)
from gpumesh.errors import RejectedError
from gpumesh.health.devices import DeviceInfo, DeviceState, DriverInfo, MigInstance, Process, Reading

INSTANCES = st.builds(
    MigInstance,
    st.text(),
    st.integers(0, 99),
    st.integers(0, 9),
    utilization_sm_percent=st.none() | st.floats(0, 100),
)
READINGS = st.builds(
    Reading,
    temperature_c=st.none() | st.integers(-50, 200),
    power_w=st.none() | st.floats(0, 5000),
    clocks_event_reasons=st.none() | st.integers(0, (1 << 64) - 1),
    remap_failed=st.none() | st.booleans(),
    nvlinks=st.none() | st.lists(st.none() | st.booleans(), max_size=18).map(tuple),
    mig_instances=st.none() | st.lists(INSTANCES, max_size=7).map(tuple),
    processes=st.none()
    | st.lists(
        st.builds(Process, st.integers(1, 1 << 22), st.just("compute"), st.none() | st.integers(0, 1 << 40))
    ).map(tuple),
)
STATES = st.builds(
    DeviceState,
    index=st.integers(0, 63),
    info=st.none() | st.builds(DeviceInfo, st.integers(0, 63), st.text(), st.text(), st.text()),
    reading=st.none() | READINGS,
    error=st.text(),
    error_code=st.none() | st.integers(0, 999),
    is_lost=st.booleans(),
    xids=st.lists(st.integers(0, 999), max_size=3).map(tuple),
)


def frames(data: bytes, *, chunk_bytes: int = 1 << 20) -> list[list[object]]:
    reader = FrameReader()
    return [
        frame
        for start in range(0, len(data), chunk_bytes)
        for frame in reader.feed(data[start : start + chunk_bytes])
    ]


@given(STATES)
def test_a_card_comes_out_as_it_went_in(state: DeviceState) -> None:
    ((kind, number, table),) = frames(encode("device", 7, state))
    assert (kind, number) == ("device", 7)
    assert isinstance(table, dict)
    assert device_state(table) == state


def test_absent_and_zero_stay_apart() -> None:
    state = DeviceState(0, None, Reading(fan_percent=0, temperature_c=None, processes=()))
    ((_, table),) = frames(encode("device", state))
    assert isinstance(table, dict)
    assert device_state(table) == state


def test_the_driver_and_the_backend_come_out_as_they_went_in() -> None:
    wanted = Backend("simulated", host="a", profiles=("h100", "h200"), faults="/tmp/x")
    info = DriverInfo(driver_version="550.54.14", library_version=None, cuda_version="12.4")
    ((_, first), (_, second)) = frames(encode("configure", wanted) + encode("driver", info))
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert backend(first) == wanted
    assert driver_info(second) == info


def test_frames_are_found_in_any_chunks() -> None:
    data = encode("count", 1, 8) + encode("done", 1)
    assert frames(data, chunk_bytes=1) == frames(data) == [["count", 1, 8], ["done", 1]]


def test_an_oversized_frame_is_refused_by_its_length_alone() -> None:
    with pytest.raises(RejectedError, match="too_large"):
        frames(struct.pack(">I", MAX_FRAME_BYTES + 1))
    with pytest.raises(RejectedError, match="too_large"):
        encode("device", "x" * MAX_FRAME_BYTES)


@pytest.mark.parametrize(
    "body", [b"\xc1", b"", msgpack.packb({"a": 1}), msgpack.packb([]), msgpack.packb([1])]
)
def test_a_body_that_is_no_frame_is_refused(body: bytes) -> None:
    with pytest.raises(RejectedError, match="malformed"):
        frames(struct.pack(">I", len(body)) + body)


@given(st.binary(max_size=200))
def test_hostile_bytes_end_in_frames_or_a_refusal(data: bytes) -> None:
    with suppress(RejectedError):
        for frame in frames(data):
            assert isinstance(frame[0], str)


@pytest.mark.parametrize("table", [{"colour": 3}, {"index": 0, "info": {"x": 1}}, {"index": 0, "reading": 5}])
def test_a_card_that_is_none_is_refused(table: dict[str, object]) -> None:
    with pytest.raises(RejectedError, match="malformed"):
        device_state(table)
