from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumesh.model import (
    Address,
    Admission,
    Finding,
    Gpu,
    HealthReport,
    HostFacts,
    HostState,
    HostView,
    Phase,
    Reachability,
    Rejection,
    Request,
    Severity,
    Verdict,
    View,
)
from gpumesh.placement.rule import NUM_CHOICES, place

GIB = 1 << 30


def gpu(uuid_: str, **changes: Any) -> Gpu:
    values: dict[str, Any] = {
        "index": 0,
        "model": "NVIDIA GeForce RTX 4090",
        "memory_bytes": 24 * GIB,
        "memory_free_bytes": 23 * GIB,
        "capability": "8.9",
        "is_busy": False,
        "verdict": Verdict.HEALTHY,
    }
    return Gpu(uuid_, **{**values, **changes})


def host(number: int, *gpus: Gpu, num_gpus: int = 2, **changes: Any) -> HostView:
    cards = gpus or tuple(gpu(f"GPU-{number}-{index}") for index in range(num_gpus))
    values: dict[str, Any] = {
        "address": Address("10.0.0.1", 7977),
        "epoch": 1,
        "incarnation": 1,
        "reachability": Reachability.ALIVE,
        "state": HostState.READY,
        "reason": "",
        "state_since": 0.0,
        "evidence_age_s": 1.0,
        "facts": HostFacts(f"host-{number}", "boot", labels={"room": str(number % 3)}),
        "phase": Phase.SETTLED,
        "health": HealthReport(Verdict.HEALTHY, gpus=cards, driver_version="550.54.14", cuda_version="12.4"),
    }
    return HostView(str(uuid.UUID(int=number + 1)), **{**values, **changes})


def view(*hosts: HostView, **changes: Any) -> View:
    ordered = tuple(sorted(hosts, key=lambda item: item.host_id))
    return View(**{"self_id": ordered[0].host_id, "at": 0.0, "fleet": "f", "hosts": ordered, **changes})


def rejection(request: Request, *hosts: HostView) -> Rejection:
    decision = place(request, view(*hosts))
    assert decision.chosen is None
    return decision.rejections[0]


HOSTS = st.lists(
    st.builds(
        lambda number, num_gpus, state, busy, memory: host(
            number,
            *(
                gpu(f"GPU-{number}-{index}", is_busy=busy and index == 0, memory_free_bytes=memory * GIB)
                for index in range(num_gpus)
            ),
            state=state,
            reason="so it is",
        ),
        st.integers(0, 200),
        st.integers(1, 8),
        st.sampled_from([HostState.READY] * 3 + list(HostState)),
        st.booleans(),
        st.integers(0, 80),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda item: item.host_id,
)
REQUESTS = st.builds(
    Request,
    key=st.text(max_size=12),
    num_gpus=st.integers(1, 4),
    memory_bytes=st.integers(0, 60).map(lambda size: size * GIB),
    allow_degraded=st.booleans(),
)


@given(HOSTS, REQUESTS, st.randoms(use_true_random=False))
def test_same_answer_whatever_the_order_of_hosts_and_gpus(
    hosts: list[HostView], request: Request, random: Random
) -> None:
    expected = place(request, view(*hosts))
    shuffled = []
    for item in hosts:
        assert item.health is not None
        cards = list(item.health.gpus)
        random.shuffle(cards)
        shuffled.append(replace(item, health=replace(item.health, gpus=tuple(cards))))
    random.shuffle(shuffled)
    found = place(request, replace(view(*hosts), hosts=tuple(shuffled)))
    assert found.ranking == expected.ranking
    assert found.chosen == expected.chosen
    assert [item.code for item in found.rejections] == [item.code for item in expected.rejections]


@given(HOSTS, REQUESTS)
def test_each_host_is_ranked_or_rejected_with_a_reason(hosts: list[HostView], request: Request) -> None:
    decision = place(request, view(*hosts))
    ranked = {item.host_id for item in decision.ranking}
    rejected = {item.host_id for item in decision.rejections}
    assert ranked.isdisjoint(rejected)
    assert ranked | rejected == {item.host_id for item in hosts}
    assert all(item.reason and item.code for item in decision.rejections)
    assert (decision.chosen is None) is bool(decision.reason)


@given(HOSTS, REQUESTS)
def test_only_fit_gpus_of_hosts_that_take_work_are_chosen(hosts: list[HostView], request: Request) -> None:
    by_id = {item.host_id: item for item in hosts}
    for candidate in place(request, view(*hosts)).ranking:
        chosen = by_id[candidate.host_id]
        allowed = {HostState.READY, HostState.DEGRADED} if request.allow_degraded else {HostState.READY}
        assert chosen.state in allowed
        assert chosen.health is not None
        cards = {card.uuid: card for card in chosen.health.gpus}
        assert len(set(candidate.gpus)) == request.num_gpus
        for name in candidate.gpus:
            assert cards[name].is_busy is False
            assert (cards[name].memory_free_bytes or 0) >= request.memory_bytes


@settings(max_examples=60)
@given(HOSTS, REQUESTS)
def test_removing_a_host_changes_nothing_among_the_others(hosts: list[HostView], request: Request) -> None:
    """The first in rendezvous order stays first unless it goes itself: minimal disruption."""

    def order(members: list[HostView]) -> list[str]:
        ranking = place(request, view(*members)).ranking
        return [item.host_id for item in sorted(ranking, key=lambda item: item.rank)]

    before = order(hosts)
    for gone in hosts:
        rest = [item for item in hosts if item is not gone]
        if rest:
            assert order(rest) == [host_id for host_id in before if host_id != gone.host_id]


def test_host_beyond_the_first_four_never_matters() -> None:
    hosts = [host(number) for number in range(12)]
    request = Request("job")
    before = place(request, view(*hosts))
    far = {item.host_id for item in before.ranking if item.rank >= NUM_CHOICES}
    for gone in far:
        after = place(request, view(*(item for item in hosts if item.host_id != gone)))
        assert after.chosen == before.chosen


def test_choice_is_balanced_by_free_gpus() -> None:
    # All hosts fit equally tightly for the first rank: rank 0 of the order is what is weighed.
    sizes = [1, 2, 3, 4, 8, 12]
    fleet = view(*(host(number, num_gpus=size) for number, size in enumerate(sizes)))
    firsts: Counter[str] = Counter()
    num_keys = 3000
    for number in range(num_keys):
        ranking = place(Request(f"job-{number}"), fleet).ranking
        firsts[next(item.host_id for item in ranking if item.rank == 0)] += 1
    for number, size in enumerate(sizes):
        expected = num_keys * size / sum(sizes)
        # Five standard deviations of a binomial: fixed keys, so it holds always or never.
        assert abs(firsts[str(uuid.UUID(int=number + 1))] - expected) < 5 * expected**0.5


def test_tightest_fit_among_the_first_four_wins() -> None:
    hosts = [host(0, num_gpus=8), host(1, num_gpus=2), host(2, num_gpus=4)]
    for key in ("a", "b", "c", "d", "e"):
        decision = place(Request(key, num_gpus=2), view(*hosts))
        assert decision.chosen is not None
        assert decision.chosen.name == "host-1"
        assert decision.ranking[0] is decision.chosen
        assert [item.name for item in decision.ranking] == ["host-1", "host-2", "host-0"]


def test_smallest_sufficient_gpu_is_taken_and_ties_go_by_uuid() -> None:
    cards = (
        gpu("GPU-d", memory_free_bytes=70 * GIB, memory_bytes=80 * GIB),
        gpu("GPU-c", memory_free_bytes=20 * GIB),
        gpu("GPU-b", memory_free_bytes=20 * GIB),
        gpu("GPU-a", memory_free_bytes=6 * GIB, memory_bytes=8 * GIB),
    )
    one = place(Request("k", memory_bytes=10 * GIB), view(host(0, *cards))).chosen
    assert one is not None
    assert one.gpus == ("GPU-b",)
    two = place(Request("k", num_gpus=3, memory_bytes=10 * GIB), view(host(0, *cards))).chosen
    assert two is not None
    assert two.gpus == ("GPU-b", "GPU-c", "GPU-d")


def test_gang_stays_on_one_host() -> None:
    hosts = [host(number, num_gpus=4) for number in range(5)]
    assert place(Request("k", num_gpus=8), view(*hosts)).chosen is None
    decision = place(Request("k", num_gpus=8), view(*hosts, host(9, num_gpus=8)))
    assert decision.chosen is not None
    assert decision.chosen.name == "host-9"


@pytest.mark.parametrize(
    ("request_", "changes", "code", "words"),
    [
        (Request("k"), {"state": HostState.FAILED, "reason": "silent for 31 s"}, "state", "silent for 31 s"),
        (Request("k"), {"state": HostState.JOINING, "reason": "new"}, "state", "joining"),
        (Request("k", labels={"room": "7"}), {}, "label", "room is '0', '7' needed"),
        (Request("k", labels={"tier": "gold"}), {}, "label", "tier is not set"),
        (Request("k", labels={"tier": "gold"}), {"facts": None}, "label", "tier is not set"),
        (Request("k", driver="550.100"), {}, "driver", "driver is 550.54.14, 550.100"),
        (Request("k", cuda="12.5"), {}, "cuda", "CUDA is 12.4, 12.5"),
        (Request("k", anti_affinity=("host-0",)), {}, "anti-affinity", "host-0"),
        (Request("k", anti_affinity=(str(uuid.UUID(int=1)),)), {}, "anti-affinity", "not to use"),
        (Request("k", num_gpus=3), {}, "gpus", "has 2 GPUs, 3 needed"),
        (Request("k", model="h100"), {}, "model", "RTX 4090, h100 needed"),
        (Request("k", capability="9.0"), {}, "capability", "8.9, 9.0 needed"),
        (Request("k", memory_bytes=40 * GIB), {}, "memory", "has 24.0 GiB, 40.0 GiB needed"),
        (Request("k"), {"health": None}, "gpus", "has 0 GPUs"),
        (
            Request("k"),
            {"state": HostState.DEGRADED, "admission": Admission.OCCUPIED, "admission_reason": "a game runs"},
            "state",
            "a game runs",
        ),
        (Request("k"), {"state": HostState.DEGRADED, "phase": Phase.COOLDOWN}, "state", "cooldown"),
    ],
)
def test_rejection_names_the_cause_with_its_numbers(
    request_: Request, changes: dict[str, Any], code: str, words: str
) -> None:
    found = rejection(request_, host(0, **changes))
    assert found.code == code
    assert words in found.reason


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"is_busy": True}, "busy", "is busy"),
        ({"is_busy": None}, "busy", "cannot say"),
        ({"memory_free_bytes": 2 * GIB}, "memory", "2.0 GiB free, 10.0 GiB needed"),
        ({"memory_free_bytes": None}, "memory", "unknown"),
        ({"memory_bytes": None}, "memory", "unknown"),
        ({"capability": None}, "capability", "unknown"),
        ({"verdict": Verdict.UNKNOWN}, "verdict", "is unknown"),
        ({"verdict": Verdict.DEGRADED}, "verdict", "is degraded"),
        ({"index": None}, "verdict", "is gone"),
        (
            {
                "verdict": Verdict.UNHEALTHY,
                "findings": (Finding("x", "gpu/GPU-0", Severity.CRITICAL, "uncorrectable ECC"),),
            },
            "verdict",
            "uncorrectable ECC",
        ),
    ],
)
def test_gpu_that_is_not_known_to_fit_is_not_used(changes: dict[str, Any], code: str, words: str) -> None:
    request = Request("k", memory_bytes=10 * GIB, capability="8.0")
    found = rejection(request, host(0, gpu("GPU-0", **changes)))
    assert found.code == code
    assert words in found.reason
    assert "GPU-0" in found.reason


def test_degraded_host_lends_only_its_healthy_gpus_and_only_to_those_who_allow_it() -> None:
    sick = host(
        0,
        gpu("GPU-bad", verdict=Verdict.UNHEALTHY),
        gpu("GPU-good"),
        state=HostState.DEGRADED,
        reason="1 of 2 GPUs not healthy",
    )
    chosen = place(Request("k"), view(sick)).chosen
    assert chosen is not None
    assert chosen.gpus == ("GPU-good",)
    found = rejection(Request("k", allow_degraded=False), sick)
    assert (found.code, "whole hosts" in found.reason) == ("state", True)


def test_brake_on_mass_failure_places_nothing_and_says_so() -> None:
    decision = place(Request("k"), view(host(0), host(1), mass_failure=True))
    assert decision.chosen is None
    assert decision.ranking == ()
    assert {item.code for item in decision.rejections} == {"brake"}
    assert "cut off" in decision.reason


def test_nowhere_is_explained_by_counts() -> None:
    hosts = [host(0), host(1), host(2, state=HostState.FAILED, reason="silent")]
    decision = place(Request("k", memory_bytes=70 * GIB), view(*hosts))
    assert decision.reason == "no host fits; of 3 hosts refused: 2 by memory, 1 by state"


def test_request_and_key_are_all_that_the_observer_adds() -> None:
    hosts = [host(number) for number in range(6)]
    mine = place(Request("k"), view(*hosts))
    aged = [replace(item, evidence_age_s=9.0, is_self=item is hosts[3], state_since=5.0) for item in hosts]
    assert place(Request("k"), view(*aged, at=77.0, self_id=hosts[3].host_id)).ranking == mine.ranking
