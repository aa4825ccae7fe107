"""Who is who for people: names that two hosts share, rebuilt hosts, hosts that say too much of themselves."""

from __future__ import annotations

from gpumesh.model import Event, HostState, Request
from gpumesh.placement.rule import place
from tests.mesh.conftest import Host, World


def rename(host: Host, name: str, world: World) -> None:
    """Let the host say that people call it so."""
    facts = host.mesh.view(world.now).me.facts
    assert facts is not None
    world.act(host, lambda mesh: mesh.set_facts(type(facts)(name, facts.boot_id), world.now))


def test_memberlist_157_a_rebuilt_host_with_the_old_name_and_a_new_identity_is_taken_at_once(
    world: World, fleet: list[Host]
) -> None:
    *others, old = fleet
    world.cut_power(old)
    rebuilt = world.start(9)
    rename(rebuilt, "host-3", world)
    took_s = world.run_until(lambda: all(world.state(host, rebuilt) is not None for host in others), 10.0)
    assert took_s < 3.0, "the old name is no obstacle, nor need the old identity be failed first"
    world.run_until(lambda: all(world.state(host, old) is HostState.FAILED for host in others), 30.0)
    world.run_until(lambda: world.all_see(rebuilt, HostState.READY), 60.0)
    names = {host.host_id: host.name for host in world.view(others[0]).hosts}
    assert names[old.host_id] == names[rebuilt.host_id] == "host-3"


def test_two_hosts_of_one_name_are_two_hosts_everywhere(world: World, fleet: list[Host]) -> None:
    rename(fleet[2], "host-3", world)
    world.run(10.0)
    for observer in fleet:
        twins = [host for host in world.view(observer).hosts if host.name == "host-3"]
        assert {host.host_id for host in twins} == {fleet[2].host_id, fleet[3].host_id}
        assert {host.state for host in twins} == {HostState.READY}
    ranked = [
        [candidate.host_id for candidate in place(Request(key="k"), world.view(host)).ranking]
        for host in fleet
    ]
    assert all(one == ranked[0] for one in ranked)
    assert len(ranked[0]) == len(fleet)


def test_memberlist_191_a_host_with_too_much_to_say_of_itself_starts_joins_and_is_placed(
    world: World,
) -> None:
    labels = {f"label-{number:03d}": "x" * 200 for number in range(500)}
    hosts = [world.start(0), world.start(1, labels=labels)]
    world.run_until(lambda: all(world.all_see(host, HostState.READY) for host in hosts), 60.0)
    assert hosts[1].mesh.counters["record_labels_cut_total"] > 0
    seen = world.seen(hosts[0], hosts[1])
    assert seen is not None
    assert seen.facts is not None
    assert 0 < len(seen.facts.labels) < len(labels)
    assert "label-000" in seen.facts.labels, "what is left out is the end, not all"


def conflicts_here(host: Host) -> list[Event]:
    told = [event for event in host.events if event.kind == "host.conflict"]
    return [event for event in told if event.fields["is_here"]]


def test_two_daemons_with_one_identity_are_told_as_an_event_on_both(world: World, fleet: list[Host]) -> None:
    original = fleet[3]
    copy = world.start(9, copied_id=original.host_id, epoch=2)
    world.run_until(lambda: bool(conflicts_here(original) and conflicts_here(copy)), 60.0)
    for host, other in ((original, copy), (copy, original)):
        [event] = conflicts_here(host)
        assert (event.host_id, event.fields["shared"]) == (original.host_id, "identity")
        assert event.fields["address"] == str(other.address)
        assert "identity.json" in event.reason


def test_two_hosts_at_one_address_are_told_as_an_event_on_both_and_on_others(
    world: World, fleet: list[Host]
) -> None:
    original = fleet[3]
    copy = world.start(9, copied_address=original.address)
    world.run_until(lambda: bool(conflicts_here(original) and conflicts_here(copy)), 60.0)
    for host, other in ((original, copy), (copy, original)):
        [event] = conflicts_here(host)
        assert (event.host_id, event.fields["shared"]) == (other.host_id, "address")
        assert event.fields["address"] == str(original.address)
    world.run(10.0)
    assert all(world.state(host, original) is HostState.READY for host in fleet[:3])
    assert all(world.state(host, copy) is HostState.FAILED for host in fleet[:3])
    told = [event for host in fleet[:3] for event in host.events if event.kind == "host.conflict"]
    assert told
    assert not any(event.fields["is_here"] for event in told)
