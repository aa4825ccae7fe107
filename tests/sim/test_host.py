from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumesh.sim.gpus import report_of
from gpumesh.sim.host import LINGER_S, RECEIVE_BUFFER_BYTES
from gpumesh.sim.status import Status
from gpumesh.sim.world import GPUS_A_HOST

if TYPE_CHECKING:
    from tests.sim.conftest import MakeWorld


def test_timer_runs_at_the_deadline_of_the_hosts_own_clock(make_world: MakeWorld) -> None:
    world = make_world()
    host = world.hosts[0]
    host.clock.set_rate(world.now, 2.0)
    deadline = host.now + 3.0
    world.node(0).deadline = deadline
    world.send(0, 1)
    world.run_for(1.49)
    assert world.node(0).seen("timer") == []
    world.run_for(0.02)
    [(now,)] = world.node(0).seen("timer")
    assert now == pytest.approx(deadline, abs=1e-6)
    assert now >= deadline


def test_stopped_daemon_sees_all_that_waited_before_its_timer_runs(make_world: MakeWorld) -> None:
    world = make_world()
    node = world.node(1)
    node.deadline = world.hosts[1].now + 1.0
    world.send(1, 0)
    world.stall(world.hosts[1], 5.0)
    for _ in range(3):
        world.send(0, 1)
        world.run_for(1.5)
    assert node.seen("datagram") == node.seen("timer") == []
    world.run_for(1.0)
    order = [call[0] for call in node.calls if call[0] in {"datagram", "timer"}]
    assert order == ["datagram", "datagram", "datagram", "timer"]
    instants = {call[-1] for call in node.calls if call[0] in {"datagram", "timer"}}
    assert max(instants) - min(instants) < 1e-6


def test_receive_buffer_of_a_stopped_daemon_is_bounded(make_world: MakeWorld) -> None:
    world = make_world()
    world.stall(world.hosts[1], 5.0)
    for _ in range(2000):
        world.send(0, 1, bytes(1400))
    world.run_for(6.0)
    kept = len(world.node(1).seen("datagram"))
    assert RECEIVE_BUFFER_BYTES // 2400 < kept < RECEIVE_BUFFER_BYTES // 1400


def test_sleeping_host_gets_nothing_and_its_clock_shows_the_time_that_passed(make_world: MakeWorld) -> None:
    world = make_world()
    host = world.hosts[1]
    before = host.now
    world.node(1).deadline = before + 1.0
    world.send(1, 0)
    world.suspend(host, 100.0)
    world.send(0, 1)
    world.run_for(101.0)
    assert world.node(1).seen("datagram") == []
    [(woken,)] = world.node(1).seen("timer")
    assert woken - before == pytest.approx(100.0, rel=1e-3)


def test_starved_host_reads_late_and_in_order_while_timers_run_on_time(make_world: MakeWorld) -> None:
    world = make_world()
    sent_at = world.hosts[1].now
    world.node(1).deadline = sent_at + 0.1
    world.send(1, 0)
    world.hosts[1].ingress_delay_s = (0.5, 2.5)
    for number in range(20):
        world.send(0, 1, bytes([number]))
    world.run_for(3.0)
    data = [data[0] for data, *_ in world.node(1).seen("datagram")]
    assert data == list(range(20))
    assert all(now - sent_at >= 0.5 for *_, now in world.node(1).seen("datagram"))
    assert world.node(1).seen("timer")[0][0] - sent_at == pytest.approx(0.1, abs=1e-3)


def test_restart_is_a_new_engine_with_the_next_epoch_and_its_remembered_peers(make_world: MakeWorld) -> None:
    world = make_world(4)
    world.node(3).rows.extend(world.node(2).rows)
    world.crash(world.hosts[3])
    world.restart(world.hosts[3])
    node = world.node(3)
    assert node.identity.epoch == 2
    assert not node.identity.is_first_run
    addresses, _ = node.seen("seed")[0]
    assert world.hosts[2].address in addresses
    assert node.seen("health")[0][0] == report_of("h003", GPUS_A_HOST)


def test_host_that_lost_what_it_kept_has_its_seeds_alone(make_world: MakeWorld) -> None:
    world = make_world(5)
    world.node(4).rows.extend(world.node(3).rows)
    world.crash(world.hosts[4])
    world.hosts[4].lose_peers()
    world.restart(world.hosts[4])
    addresses, _ = world.node(4).seen("seed")[0]
    assert addresses == tuple(host.address for host in world.hosts[:3])


def test_reboot_changes_the_boot_id_and_restart_keeps_it(make_world: MakeWorld) -> None:
    world = make_world()
    boot_id = world.hosts[0].identity.boot_id
    world.restart(world.hosts[0])
    assert world.hosts[0].identity.boot_id == boot_id
    world.restart(world.hosts[0], reboot=True)
    assert world.hosts[0].identity.boot_id != boot_id
    assert world.hosts[0].now < 100.0


def test_what_was_under_way_to_an_earlier_run_does_not_reach_the_next(make_world: MakeWorld) -> None:
    world = make_world()
    world.hosts[1].ingress_delay_s = (1.0, 1.0)
    world.send(0, 1)
    world.run_for(0.5)
    world.restart(world.hosts[1])
    world.run_for(2.0)
    assert world.node(1).seen("datagram") == []


def test_leaving_host_answers_a_little_longer_and_exits(make_world: MakeWorld) -> None:
    world = make_world()
    node = world.node(1)
    world.leave(world.hosts[1])
    assert node.seen("leave")
    world.send(0, 1)
    world.run_for(LINGER_S / 2)
    assert node.seen("datagram")
    world.run_for(LINGER_S)
    assert world.hosts[1].status is Status.DOWN


def test_hungry_node_is_given_its_seeds(make_world: MakeWorld) -> None:
    world = make_world(4)
    node = world.node(3)
    world.run_for(5.0)
    assert len(node.seen("seed")) == 1
    node.hungry = True
    world.run_for(5.0)
    assert len(node.seen("seed")) == 6
    assert node.seen("seed")[-1][0] == tuple(host.address for host in world.hosts[:3])


def test_timer_that_leaves_its_deadline_behind_is_reported(make_world: MakeWorld) -> None:
    world = make_world()
    world.node(0).is_stuck = True
    world.node(0).deadline = world.hosts[0].now
    world.send(0, 1)
    world.run_for(0.1)
    assert world.violations[0].invariant == "timer_spins"
    assert world.violations[0].observer == "h000"
