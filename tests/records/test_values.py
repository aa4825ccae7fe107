from __future__ import annotations

import math
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.errors import RejectedError
from gpumesh.records.bounds import MAX_DEPTH, MAX_ITEMS, MAX_TEXT, MAX_VALUE_BYTES
from gpumesh.records.values import check_value, decode_value, encode_value, is_entry_name

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(-1e15, 1e15)
    | st.text(max_size=40).filter(lambda text: text.isprintable())
)
PLAIN = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def reason_of(value: Any) -> str:
    with pytest.raises(RejectedError) as caught:
        check_value(value)
    return caught.value.reason


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 1e300, 2**63, -(2**63)])
def test_consul_3023_a_number_that_is_none_or_absurd_is_refused(number: float) -> None:
    assert reason_of({"temperature": [number]}) == "value_out_of_range"
    with pytest.raises(RejectedError, match="value_out_of_range"):
        encode_value({"temperature": [number]})
    with pytest.raises(RejectedError, match="value_out_of_range"):
        decode_value(msgpack.packb({"temperature": [number]}))


def test_depth_text_count_type_and_keys_are_bounded() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    assert reason_of(deep) == "value_too_deep"
    assert reason_of("x" * (MAX_TEXT + 1)) == "value_text_too_long"
    assert reason_of([0] * (MAX_ITEMS + 1)) == "value_too_many"
    assert reason_of([[0] * 100] * 11) == "value_too_many"
    assert reason_of(b"raw") == "value_type"
    assert reason_of({1: 2}) == "value_key"


def test_value_too_large_is_refused_both_ways() -> None:
    big = ["x" * 2000] * 5
    with pytest.raises(RejectedError, match="value_too_large"):
        encode_value(big)
    with pytest.raises(RejectedError, match="value_too_large"):
        decode_value(msgpack.packb(big))


@given(PLAIN)
def test_plain_value_survives_the_wire(value: Any) -> None:
    try:
        data = encode_value(value)
    except RejectedError:
        return
    assert len(data) <= MAX_VALUE_BYTES
    assert decode_value(data) == value


@given(st.binary(max_size=300))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    try:
        value = decode_value(data)
    except RejectedError as error:
        assert error.reason  # noqa: PT017 - either outcome is fine, any other exception is not
    else:
        check_value(value)


@pytest.mark.parametrize("name", ["host", "health", "gpu/GPU-4a2b9e0c-11d2-9c33-8a1f-0123456789ab", "gpu/0"])
def test_entry_names_in_use_are_accepted(name: str) -> None:
    assert is_entry_name(name)


@pytest.mark.parametrize(
    "name", ["", "Host", "gpu/", "gpu/../x/y", "a/b/c", "gpu/" + "x" * 200, "x\n", None, 7]
)
def test_other_names_are_refused(name: object) -> None:
    assert not is_entry_name(name)
