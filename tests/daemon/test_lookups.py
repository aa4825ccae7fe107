"""Seeds that resolve, do not, or make their resolver hang."""

import asyncio
import threading
from typing import Any

import pytest

from gpumesh.daemon.lookups import MAX_UNDER_WAY, Lookups
from gpumesh.model import Address


async def test_addresses_are_taken_as_they_are_and_what_does_not_resolve_is_said() -> None:
    found, failed = await Lookups().resolve(["127.0.0.1:1234", "[::1]:0", "no-such-host.invalid:7977"], 7977)
    assert Address("127.0.0.1", 1234) in found
    assert Address("::1", 7977) in found
    assert list(failed) == ["no-such-host.invalid:7977"]
    assert "resolve" in failed["no-such-host.invalid:7977"]


async def test_consul_22753_each_call_resolves_anew() -> None:
    hosts: list[str | None] = ["10.0.0.1", "10.0.0.2", None, "10.0.0.3"]

    def ask(_host: str, port: int, **_: Any) -> list[Any]:
        host = hosts.pop(0)
        if host is None:
            raise OSError("no such name now")
        return [(None, None, 0, "", (host, port))]

    lookups = Lookups(30, ask)
    answers = [await lookups.resolve(["seed.example:0"], 7977) for _ in range(4)]
    found = [[at.host for at in taken] for taken, _ in answers]
    assert found == [["10.0.0.1"], ["10.0.0.2"], [], ["10.0.0.3"]]
    assert [len(failed) for _, failed in answers] == [0, 0, 1, 0]


@pytest.mark.parametrize("seeds", [[], ["127.0.0.1:1"] * 5])
async def test_seeds_named_twice_are_tried_once(seeds: list[str]) -> None:
    found, failed = await Lookups().resolve(seeds, 7977)
    assert len(found) == len(set(seeds))
    assert not failed


@pytest.mark.parametrize("name", ["a" * 70 + ".example", "a..b.example", "\u2603" * 60])
async def test_a_name_that_cannot_be_one_is_said_to_be(name: str) -> None:
    found, failed = await Lookups().resolve([f"{name}:7977"], 7977)
    assert found == []
    assert "does not resolve" in failed[f"{name}:7977"]


async def test_a_resolver_that_hangs_is_asked_once_and_its_late_answer_is_taken() -> None:
    go_on, num_asked = threading.Event(), 0

    def ask(_host: str, port: int, **_: Any) -> list[Any]:
        nonlocal num_asked
        num_asked += 1
        go_on.wait(30)
        return [(None, None, 0, "", ("10.0.0.7", port))]

    lookups = Lookups(0.02, ask)
    for _ in range(3):
        found, failed = await lookups.resolve(["seed.example:0"], 7977)
        assert (found, list(failed)) == ([], ["seed.example:0"])
    assert num_asked == 1
    go_on.set()
    late = Lookups(30, ask)
    late._under_way = lookups._under_way
    assert await late.resolve(["seed.example:0"], 7977) == ([Address("10.0.0.7", 7977)], {})


async def test_names_beyond_the_bound_wait_and_those_of_an_earlier_configuration_are_let_go() -> None:
    go_on = threading.Event()

    def ask(_host: str, port: int, **_: Any) -> list[Any]:
        go_on.wait(30)
        return [(None, None, 0, "", ("10.0.0.7", port))]

    lookups = Lookups(0.02, ask)
    names = [f"seed-{number}.example:1" for number in range(MAX_UNDER_WAY + 5)]
    _, failed = await lookups.resolve(names, 7977)
    assert len(lookups) == MAX_UNDER_WAY
    assert len(failed) == len(names)
    assert "waits" in failed[names[-1]]
    go_on.set()
    await asyncio.wait(lookups._under_way.values(), timeout=30)
    found, failed = await lookups.resolve(["other.example:2"], 7977)
    assert len(lookups) <= 1
    assert found == [Address("10.0.0.7", 2)] or failed
