from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpumesh.config import Config, GossipConfig, LeaseConfig
from gpumesh.model import Admission, HealthReport, HostFacts, HostState, Phase, Request, Verdict
from gpumesh.placement.rule import place

if TYPE_CHECKING:
    from tests.mesh.conftest import Host, World

NUM_KEYS = 20
NAMES = {f"host-{number}" for number in range(9)}


def lost_card(host: Host) -> HealthReport:
    from tests.mesh.conftest import without_gpu  # noqa: PLC0415 - conftest is no module under pytest

    assert host.health is not None
    return without_gpu(host.health, host.health.gpus[0].uuid)


def record_counters(host: Host) -> dict[str, int]:
    return {name: count for name, count in host.mesh.counters.items() if name.startswith("record_")}


def placements(world: World, host: Host) -> list[tuple[str, tuple[str, ...]]]:
    decisions = [place(Request(f"job-{number}"), world.view(host)) for number in range(NUM_KEYS)]
    return [(item.chosen.host_id, item.chosen.gpus) for item in decisions if item.chosen is not None]


def test_all_hosts_become_ready_and_see_each_others_gpus(world: World) -> None:
    hosts = [world.start(number, labels={"room": str(number)}) for number in range(4)]
    world.run_until(lambda: all(world.all_see(host, HostState.READY) for host in hosts), 15.0)
    for observer in hosts:
        for other in hosts:
            seen = world.seen(observer, other)
            assert seen is not None
            assert seen.health == other.health
            assert seen.facts is not None
            assert seen.facts.labels == {"room": str(other.number)}
            assert seen.name == f"host-{other.number}"


def test_every_host_gives_the_same_placement(world: World, fleet: list[Host]) -> None:
    answers = [placements(world, host) for host in fleet]
    assert len(answers[0]) == NUM_KEYS
    assert all(answer == answers[0] for answer in answers)
    assert len({host_id for host_id, _ in answers[0]}) > 1


def test_power_cut_is_failed_within_thirty_seconds_and_avoided(world: World, fleet: list[Host]) -> None:
    victim = fleet[2]
    world.cut_power(victim)
    world.run_until(lambda: world.all_see(victim, HostState.FAILED), 30.0)
    for host in world.up():
        assert victim.host_id not in {host_id for host_id, _ in placements(world, host)}
        assert "host.failed" in host.kinds_about(victim)
        assert {event.host for event in host.events if event.kind == "host.state"} <= NAMES
        assert "host.left" not in host.kinds_about(victim)
        decision = place(Request("job"), world.view(host))
        assert [item.code for item in decision.rejections] == ["state"]


def test_goodbye_is_left_within_three_seconds_and_never_failed(world: World, fleet: list[Host]) -> None:
    leaver = fleet[1]
    world.act(leaver, lambda mesh: mesh.leave(world.now))
    world.run(0.5)
    world.cut_power(leaver)
    world.run_until(lambda: world.all_see(leaver, HostState.LEFT), 3.0)
    world.run(60.0)
    for host in world.up():
        assert world.state(host, leaver) is HostState.LEFT
        assert "host.left" in host.kinds_about(leaver)
        assert "host.failed" not in host.kinds_about(leaver)


def test_restart_cools_down_and_then_is_ready(world: World, fleet: list[Host]) -> None:
    before = fleet[3]
    world.cut_power(before)
    world.run_until(lambda: world.all_see(before, HostState.FAILED), 30.0)
    again = world.restart(before)
    world.run_until(lambda: world.all_see(again, HostState.COOLDOWN), 15.0)
    seen = world.seen(fleet[0], again)
    assert seen is not None
    assert seen.epoch == 2
    assert "started again" in seen.reason
    took_s = world.run_until(lambda: world.all_see(again, HostState.READY), 70.0)
    assert took_s > 40.0
    assert "host.joined" in fleet[0].kinds_about(again)


def test_first_run_owes_no_cooldown(world: World, fleet: list[Host]) -> None:
    assert not any(event.fields.get("to") == "cooldown" for host in fleet for event in host.events), (
        "nobody cooled down"
    )


def test_lost_gpu_degrades_everywhere_within_ten_seconds_and_the_rest_stays_placeable(
    world: World, fleet: list[Host]
) -> None:
    host = fleet[1]
    report = lost_card(host)
    world.set_health(host, report)
    world.run_until(lambda: world.all_see(host, HostState.DEGRADED), 10.0)
    gone, left = (gpu.uuid for gpu in report.gpus)
    for observer in fleet:
        seen = world.seen(observer, host)
        assert seen is not None
        assert "1 of 2 GPUs not healthy" in seen.reason
        assert "fell off the bus" in seen.reason
        alone = replace(world.view(observer), hosts=(seen,))
        chosen = place(Request("job"), alone).chosen
        assert chosen is not None
        assert chosen.gpus == (left,)
        assert place(Request("job", num_gpus=2), alone).chosen is None
        assert place(Request("job", allow_degraded=False), alone).chosen is None
        lost = [event for event in observer.events if event.kind == "gpu.lost"]
        assert [event.subject for event in lost] == [f"gpu/{gone}"]


def test_the_host_whose_wall_clock_is_wrong_is_the_one_that_knows(world: World, fleet: list[Host]) -> None:
    wrong, *right = fleet
    wrong.mesh.unix_offset += 10.0
    world.run(20.0)
    found = [host.mesh.clock_offset(world.now) for host in (wrong, *right)]
    assert [round(one.offset_s, 1) for one in found if one] == [-10.0, *(0.0 for _ in right)]
    wrong.mesh.unix_offset -= 10.0  # a time service sets it right
    assert wrong.mesh.clock_offset(world.now) is None
    world.run(5.0)
    now_found = wrong.mesh.clock_offset(world.now)
    assert now_found is not None
    assert abs(now_found.offset_s) < 0.1


def test_recovery_from_unhealthy_cools_down(world: World, fleet: list[Host]) -> None:
    host = fleet[0]
    good = host.health
    assert good is not None
    world.set_health(host, replace(good, verdict=Verdict.UNHEALTHY))
    world.run_until(lambda: world.all_see(host, HostState.UNHEALTHY), 10.0)
    world.set_health(host, good)
    world.run_until(lambda: world.all_see(host, HostState.COOLDOWN), 10.0)
    world.run_until(lambda: world.all_see(host, HostState.READY), 70.0)


def test_cordon_reaches_all_with_its_reason_and_ends(world: World, fleet: list[Host]) -> None:
    host = fleet[2]
    world.act(host, lambda mesh: mesh.set_admission(Admission.CORDONED, "fan replacement", world.now))
    world.run_until(lambda: world.all_see(host, HostState.CORDONED), 10.0)
    seen = world.seen(fleet[0], host)
    assert seen is not None
    assert seen.reason == "fan replacement"
    world.act(host, lambda mesh: mesh.set_admission(Admission.OPEN, "", world.now))
    world.run_until(lambda: world.all_see(host, HostState.READY), 10.0)


def test_host_cut_off_calls_itself_isolated_and_cools_down_after(world: World, fleet: list[Host]) -> None:
    lonely = fleet[3]
    world.cut_off = {lonely.address}
    world.run_until(lambda: world.state(lonely, lonely) is HostState.ISOLATED, 20.0)
    assert place(Request("job"), world.view(lonely)).chosen is None
    others = fleet[:3]
    world.run_until(lambda: all(world.state(host, lonely) is HostState.FAILED for host in others), 30.0)
    world.cut_off = set()
    world.run_until(lambda: world.all_see(lonely, HostState.COOLDOWN), 30.0)
    world.run_until(lambda: world.all_see(lonely, HostState.READY), 80.0)
    assert not any(
        event.kind == "host.state" and event.fields["from"] == "failed" and event.fields["to"] == "ready"
        for host in others
        for event in host.events
    ), "nobody may take it for ready between failed and its cooldown"


def test_host_alone_without_seeds_is_not_isolated(world: World) -> None:
    host = world.start(0, seeds=())
    world.run(120.0)
    assert world.state(host, host) is HostState.READY


def test_host_that_is_its_own_only_seed_is_not_isolated(world: World) -> None:
    host = world.start(0, seeds=(0,))
    world.run(120.0)
    assert world.state(host, host) is HostState.READY


def test_host_whose_seeds_never_answer_is_isolated(world: World) -> None:
    config = Config(gossip=GossipConfig(seeds=("10.0.0.1:7977",)))
    host = world.start(5, seeds=(0,), config=config)
    world.run(10.0)
    assert world.state(host, host) is HostState.JOINING
    world.run(10.0)
    assert world.state(host, host) is HostState.ISOLATED


def test_host_whose_peers_all_said_goodbye_is_not_isolated(world: World) -> None:
    hosts = [world.start(number) for number in range(2)]
    world.run_until(lambda: all(world.all_see(host, HostState.READY) for host in hosts), 15.0)
    world.act(hosts[0], lambda mesh: mesh.leave(world.now))
    world.run(2.0)
    world.cut_power(hosts[0])
    world.run(120.0)
    assert world.state(hosts[1], hosts[1]) is HostState.READY


def test_mass_failure_puts_the_brake_on_and_lets_go_after_a_while(world: World, fleet: list[Host]) -> None:
    survivor = fleet[0]
    for victim in fleet[1:]:
        world.cut_power(victim)
    world.run_until(lambda: world.view(survivor).mass_failure, 30.0)
    decision = place(Request("job"), world.view(survivor))
    assert decision.chosen is None
    world.run(200.0)
    assert not world.view(survivor).mass_failure


def test_view_stands_until_something_changes(world: World, fleet: list[Host]) -> None:
    first = world.view(fleet[0])
    assert fleet[0].mesh.view(world.now) is first
    world.act(fleet[0], lambda mesh: mesh.set_admission(Admission.DRAINING, "", world.now))
    assert fleet[0].mesh.view(world.now) is not first
    assert first.me.state is HostState.READY, "a view is never patched"
    assert world.view(fleet[0]).me.state is HostState.DRAINING


def test_view_without_health_is_joining(world: World) -> None:
    hosts = [world.start(0), world.start(1, has_health=False)]
    world.run(20.0)
    assert world.state(hosts[0], hosts[1]) is HostState.JOINING
    seen = world.seen(hosts[0], hosts[1])
    assert seen is not None
    assert seen.phase is Phase.JOINING


def test_shorter_cooldown_by_configuration(world: World) -> None:
    config = Config(lease=LeaseConfig(cooldown_s=2.0))
    world.start(0, config=config)
    host = world.start(1, config=config, is_first_run=False)
    world.run_until(lambda: world.all_see(host, HostState.READY), 10.0)


def test_big_record_arrives_by_stream(world: World) -> None:
    labels = {f"label-{number}": "x" * 60 for number in range(40)}
    hosts = [world.start(0), world.start(1, labels=labels)]
    world.run_until(
        lambda: (
            (seen := world.seen(hosts[0], hosts[1])) is not None
            and seen.facts is not None
            and seen.facts.labels == labels
        ),
        15.0,
    )


def test_quiet_fleet_stays_quiet(world: World, fleet: list[Host]) -> None:
    world.run(30.0)
    before = [len(host.events) for host in fleet]
    counts = [record_counters(host) for host in fleet]
    world.run(300.0)
    assert [len(host.events) for host in fleet] == before
    assert [record_counters(host) for host in fleet] == counts, "no update, no sync, no drop"
    assert all(host.mesh.counters.get("sleeps_total", 0) == 0 for host in fleet)
    assert all(world.all_see(host, HostState.READY) for host in fleet)


def test_hostile_datagrams_change_nothing(world: World, fleet: list[Host]) -> None:
    target = fleet[0]
    for size in range(0, 1500, 7):
        target.mesh.handle_datagram(bytes(size % 251 for _ in range(size)), fleet[1].address, world.now)
    assert all(world.all_see(host, HostState.READY) for host in fleet)


def test_a_third_of_lost_datagrams_fails_no_healthy_host(world: World, fleet: list[Host]) -> None:
    world.loss = 0.3
    world.run(120.0)
    kinds = {event.kind for host in fleet for event in host.events}
    assert "host.failed" not in kinds
    world.loss = 0.0
    world.run_until(lambda: all(world.all_see(host, HostState.READY) for host in fleet), 30.0)


def test_host_whose_timers_hang_is_taken_out_although_it_answers(world: World, fleet: list[Host]) -> None:
    victim = fleet[3]
    victim.is_hung = True
    others = fleet[:3]
    world.run_until(lambda: all(world.state(host, victim) is HostState.SUSPECT for host in others), 40.0)
    seen = world.seen(others[0], victim)
    assert seen is not None
    assert "heartbeat has stood still" in seen.reason
    world.run_until(lambda: all(world.state(host, victim) is HostState.FAILED for host in others), 30.0)
    victim.is_hung = False
    world.run_until(lambda: world.state(others[0], victim) is not HostState.FAILED, 20.0)
    assert world.state(others[0], victim) is HostState.COOLDOWN
    world.run_until(lambda: world.all_see(victim, HostState.READY), 90.0)


def test_sleeper_accuses_nobody_and_cools_down(world: World, fleet: list[Host]) -> None:
    sleeper = fleet[2]
    others = [host for host in fleet if host is not sleeper]
    sleeper.is_asleep = True
    world.run(3600.0)
    assert all(world.state(host, sleeper) is HostState.FAILED for host in others)
    num_events = len(sleeper.events)
    sleeper.is_asleep = False
    assert not world.view(sleeper).mass_failure, "asked before any timer ran"
    world.run_until(lambda: all(world.state(host, sleeper) is HostState.COOLDOWN for host in fleet), 60.0)
    told = sleeper.events[num_events:]
    assert not any(event.kind == "host.failed" for event in told)
    assert not any(event.fields.get("to") == "failed" for event in told)
    assert not world.view(sleeper).mass_failure
    world.run_until(lambda: world.all_see(sleeper, HostState.READY), 80.0)


def test_events_carry_names_and_reasons(world: World, fleet: list[Host]) -> None:
    joined = [event for host in fleet for event in host.events if event.kind == "host.joined"]
    assert len(joined) == len(fleet) * (len(fleet) - 1)
    assert {event.host for event in joined} == {f"host-{number}" for number in range(4)}
    assert all(event.reason for host in fleet for event in host.events)


def test_changed_labels_reach_the_fleet(world: World, fleet: list[Host]) -> None:
    facts = HostFacts("host-1", "boot-1", labels={"room": "9"})
    world.act(fleet[1], lambda mesh: mesh.set_facts(facts, world.now))
    world.run_until(lambda: all(world.view(host).hosts[1].facts == facts for host in fleet), 10.0)


def test_counters_and_sizes_have_names_for_metrics(fleet: list[Host]) -> None:
    counters = fleet[0].mesh.counters
    assert counters["record_applied_total"] > 0
    assert counters["size_records_hosts"] == 4
    assert all(name.count("/") <= 1 for name in counters)


def test_two_halves_come_together_by_themselves_with_a_cooldown(world: World, fleet: list[Host]) -> None:
    world.split = {fleet[0].address, fleet[1].address}
    world.run(120.0)
    assert world.state(fleet[0], fleet[2]) is HostState.FAILED
    assert world.state(fleet[3], fleet[1]) is HostState.FAILED
    world.split = set()
    world.run_until(lambda: all(world.all_see(host, HostState.COOLDOWN) for host in fleet), 30.0)
    world.run_until(lambda: all(world.all_see(host, HostState.READY) for host in fleet), 90.0)
    answers = [placements(world, host) for host in fleet]
    assert all(answer == answers[0] for answer in answers)


def test_twenty_hosts_that_start_together_are_ready_within_fifteen_seconds(world: World) -> None:
    hosts = [world.start(number, seeds=(0, 1)) for number in range(20)]
    world.run_until(
        lambda: (
            all(seen.state is HostState.READY for host in hosts for seen in world.view(host).hosts)
            and all(len(world.view(host).hosts) == len(hosts) for host in hosts)
        ),
        15.0,
    )


def test_reasons_name_hosts_and_fields_keep_ids(world: World, fleet: list[Host]) -> None:
    victim = fleet[2]
    world.cut_power(victim)
    world.run_until(lambda: world.all_see(victim, HostState.FAILED), 30.0)
    others = [host for host in fleet if host is not victim]
    ids = {host.host_id for host in fleet}
    events = [event for host in others for event in host.events if event.host_id == victim.host_id]
    failed = [event for event in events if event.kind in {"host.suspected", "host.failed"}]
    assert failed
    for event in failed:
        assert any(f"host-{host.number}" in event.reason for host in others), event.reason
        assert set(str(event.fields["accusers"]).split(",")) <= ids
    seen = world.seen(others[0], victim)
    assert seen is not None
    for reason in [seen.reason, *(event.reason for event in events)]:
        assert not any(host_id[:8] in reason for host_id in ids), reason


def test_a_host_that_lost_its_state_is_taken_as_a_later_run(world: World, fleet: list[Host]) -> None:
    old = fleet[3]
    for _ in range(3):
        old = world.restart(old)
        world.run(1.0)
    world.run_until(lambda: world.all_see(old, HostState.READY), 90.0)
    world.cut_power(old)
    world.run(40.0)
    reborn = world.start(3, epoch=1, is_first_run=True)
    world.run_until(lambda: world.all_see(reborn, HostState.COOLDOWN), 5.0)
    assert reborn.mesh.epoch == 5
    world.run_until(lambda: world.all_see(reborn, HostState.READY), 70.0)
    for host in fleet[:3]:
        seen = world.seen(host, reborn)
        assert seen is not None
        assert (seen.epoch, seen.health) == (5, reborn.health)
