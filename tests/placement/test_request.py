from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.errors import RequestError
from gpumesh.model import Request
from gpumesh.placement.request import FIELDS, MAX_MEMORY_BYTES, parse_memory, parse_request


def test_everything_is_read() -> None:
    request = parse_request(
        [
            ("key", "train-42"),
            ("gpus", "4"),
            ("memory", "20GiB"),
            ("model", "h100"),
            ("capability", "8.0"),
            ("driver", "535.154.05"),
            ("cuda", "12.2"),
            ("label", "room=2,tier=gold"),
            ("label", "rack=a=b"),
            ("anti-affinity", "host-1,host-2"),
            ("anti_affinity", "host-3"),
            ("allow-degraded", "false"),
        ]
    )
    assert request == Request(
        "train-42",
        4,
        20 << 30,
        "h100",
        "8.0",
        "535.154.05",
        "12.2",
        {"room": "2", "tier": "gold", "rack": "a=b"},
        ("host-1", "host-2", "host-3"),
        allow_degraded=False,
    )


def test_only_the_key_is_needed() -> None:
    assert parse_request([("key", "k")]) == Request("k")


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("20GiB", 20 << 30),
        ("16384MiB", 16 << 30),
        ("16G", 16 * 10**9),
        ("16 gb", 16 * 10**9),
        ("1.5Gi", 3 << 29),
        ("0.5TiB", 1 << 39),
        ("7b", 7),
        ("0.000001GB", 1000),
    ],
)
def test_sizes_are_exact(text: str, size_bytes: int) -> None:
    assert parse_memory(text) == size_bytes


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ([], "key"),
        ([("key", "")], "key"),
        ([("key", "x" * 300)], "key"),
        ([("key", "a\x1bb")], "key"),
        ([("key", "k"), ("key", "k")], "key"),
        ([("key", "k"), ("gpus", "0")], "gpus"),
        ([("key", "k"), ("gpus", "65")], "gpus"),
        ([("key", "k"), ("gpus", "-1")], "gpus"),
        ([("key", "k"), ("gpus", "٣")], "gpus"),
        ([("key", "k"), ("gpus", "1.5")], "gpus"),
        ([("key", "k"), ("memory", "20")], "memory"),
        ([("key", "k"), ("memory", "20 bananas")], "memory"),
        ([("key", "k"), ("memory", "-1GiB")], "memory"),
        ([("key", "k"), ("memory", "9999999TiB")], "memory"),
        ([("key", "k"), ("driver", "new")], "driver"),
        ([("key", "k"), ("cuda", "12.")], "cuda"),
        ([("key", "k"), ("capability", "8.9 ")], "capability"),
        ([("key", "k"), ("label", "room")], "label"),
        ([("key", "k"), ("label", "=2")], "label"),
        ([("key", "k"), ("label", "room=1,room=2")], "label"),
        ([("key", "k"), ("allow_degraded", "maybe")], "allow_degraded"),
        ([("key", "k"), ("model", "x" * 300)], "model"),
        ([("key", "k"), *[("label", f"l{number}=1") for number in range(65)]], "label"),
        ([("key", "k"), ("anti_affinity", ",".join("h" * 65))], "anti_affinity"),
        ([("key", "k"), ("memry", "20GiB")], "memry: unknown parameter; did you mean memory"),
    ],
)
def test_wrong_field_is_refused_by_name(parameters: list[tuple[str, str]], field: str) -> None:
    with pytest.raises(RequestError, match=f"^{field}"):
        parse_request(parameters)


@given(st.lists(st.tuples(st.sampled_from(FIELDS) | st.text(max_size=9), st.text(max_size=30)), max_size=9))
def test_any_parameters_are_a_request_or_an_error_in_words(parameters: list[tuple[str, str]]) -> None:
    try:
        request = parse_request(parameters)
    except RequestError as error:
        assert str(error)  # noqa: PT017 - any other exception fails the test
    else:
        assert 0 <= request.memory_bytes <= MAX_MEMORY_BYTES
