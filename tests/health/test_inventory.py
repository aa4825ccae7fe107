from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.health.inventory import MAX_CARDS, Inventory, KnownCard
from tests.health.builders import Course, answered, geforce, h100, uuid


def stored(**changes: Any) -> dict[str, Any]:
    card: dict[str, Any] = {
        "uuid": uuid(0),
        "model": "NVIDIA H100",
        "pci_bus_id": "00000000:01:00.0",
        "index": 0,
        "memory_bytes": None,
        "capability": None,
        "first_seen": 1.0,
    }
    return {"version": 1, "cards": [card | changes]}


def test_an_inventory_comes_back_as_it_was_kept() -> None:
    course = Course()
    course.look(answered([geforce(0), h100(1)]))
    kept = course.health.inventory
    assert Inventory.from_json(json.loads(json.dumps(kept.to_json()))) == kept
    assert [card.model for card in kept.cards] == ["NVIDIA GeForce RTX 4080 SUPER", "NVIDIA H100 80GB HBM3"]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (None, "no list of cards"),
        ([], "no list of cards"),
        ({"cards": [], "version": 2}, "version 2 instead of 1"),
        ({"cards": {}, "version": 1}, "no list of cards"),
        ({"cards": [7], "version": 1}, "card 0 is not a table"),
        (stored(uuid="../../etc"), "uuid is not a GPU's UUID"),
        (stored(uuid=None), "uuid"),
        (stored(model=5), "model = '5'"),
        (stored(index=True), "index"),
        (stored(index=-1), "index"),
        (stored(memory_bytes=1e9), "memory_bytes"),
        (stored(capability=["8"]), "capability"),
        (stored(pci_bus_id="0" * 500), "pci_bus_id"),
        (stored(index=10**400), "index"),
    ],
)
def test_a_damaged_document_gives_an_empty_inventory_that_says_why(document: object, problem: str) -> None:
    inventory = Inventory.from_json(document)
    assert inventory.cards == ()
    assert inventory.problem
    assert problem in inventory.problem


def test_one_uuid_twice_is_damage() -> None:
    document = stored()
    document["cards"] *= 2
    assert "twice" in Inventory.from_json(document).problem


def test_a_card_too_many_is_damage() -> None:
    document = stored()
    document["cards"] *= MAX_CARDS + 1
    assert "more than" in Inventory.from_json(document).problem


@pytest.mark.parametrize("first_seen", [float("nan"), float("inf"), -5, True, "yesterday", 1e300])
def test_an_absurd_first_seen_costs_only_itself(first_seen: object) -> None:
    inventory = Inventory.from_json(stored(first_seen=first_seen))
    assert inventory.problem == ""
    assert inventory.cards[0].first_seen == 0.0


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(_JSON | st.builds(lambda cards: {"version": 1, "cards": cards}, st.lists(_JSON, max_size=3)))
def test_no_json_makes_it_raise(document: Any) -> None:
    inventory = Inventory.from_json(document)
    assert inventory.problem or document == {"version": 1, "cards": []}


def test_the_table_is_bounded() -> None:
    many = [KnownCard(uuid(n), "x", f"{n:08X}:00:00.0", n) for n in range(MAX_CARDS + 10)]
    assert len(Inventory().with_cards(many).cards) == MAX_CARDS


def test_a_card_taken_out_for_good_is_no_longer_missed() -> None:
    course = Course()
    course.look(answered([geforce(0), geforce(1)]))
    told = Course(inventory=course.health.inventory.without(uuid(1)))
    assert [gpu.uuid for gpu in told.look(answered([geforce(0)])).gpus] == [uuid(0)]


def test_a_driver_that_forgets_a_cards_memory_does_not_erase_it() -> None:
    course = Course()
    course.look(answered([geforce(0)]))
    report = course.look(answered([geforce(0, memory_total_bytes=None, capability=None)]))
    assert report.gpus[0].memory_bytes == 16376 << 20
    assert report.gpus[0].capability == "8.9"
