from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpumesh.model import Address, Event, HostState, Phase, Reachability
from gpumesh.sim.invariants import (
    Bounded,
    GoodbyeIsNoFailure,
    NoFalseFailure,
    NoResurrection,
    NothingFalls,
    OwnRowAlive,
    Prompt,
    SamePlacement,
    StatesAreTrue,
    all_invariants,
)
from gpumesh.sim.node import Known
from gpumesh.sim.plan import Plan, run_plan
from gpumesh.sim.scenarios import SCENARIOS
from gpumesh.swim.belief import Belief
from gpumesh.swim.ports import MemberChanged
from gpumesh.swim.statement import Statement
from tests.sim.replay import again

if TYPE_CHECKING:
    from tests.sim.conftest import FakeWorld, MakeWorld

ALIVE, SUSPECT, FAILED, LEFT = Reachability


def change(
    world: FakeWorld,
    number: int,
    after: Reachability,
    before: Reachability | None = None,
    *,
    epoch: int = 1,
    incarnation: int = 0,
) -> MemberChanged:
    host = world.hosts[number]
    return MemberChanged(host.host_id, host.address, epoch, incarnation, before, after, "said the test")


def broken(world: FakeWorld) -> list[str]:
    return [violation.invariant for violation in world.violations]


def test_falling_incarnation_and_epoch_are_reported(make_world: MakeWorld) -> None:
    world = make_world(watches=[NothingFalls()])
    world.say(0, change(world, 1, ALIVE, incarnation=3), change(world, 1, SUSPECT, incarnation=3))
    world.say(0, change(world, 1, ALIVE, epoch=2, incarnation=0))
    assert broken(world) == []
    world.say(0, change(world, 1, ALIVE, epoch=1, incarnation=9))
    assert broken(world) == ["nothing_falls"]
    world.say(1, change(world, 1, ALIVE, epoch=1))
    assert len(broken(world)) == 1


def test_falling_row_is_reported_at_the_next_call_of_its_host(make_world: MakeWorld) -> None:
    world = make_world(watches=[NothingFalls()])
    node = world.node(0)
    [row] = node.rows
    node.rows = [row._replace(incarnation=4)]
    world.run_for(2.0)
    node.rows = [row._replace(incarnation=3)]
    world.say(0)
    assert broken(world) == ["nothing_falls"]


def test_one_who_left_never_lives_again(make_world: MakeWorld) -> None:
    world = make_world(watches=[NoResurrection()])
    world.say(0, change(world, 1, ALIVE, LEFT, incarnation=1))
    assert broken(world) == ["no_resurrection"]


def test_one_who_left_may_return_in_a_new_epoch(make_world: MakeWorld) -> None:
    world = make_world(watches=[NoResurrection()])
    world.restart(world.hosts[1])
    world.say(0, replace(change(world, 1, ALIVE, LEFT, epoch=2), is_new_epoch=True))
    assert broken(world) == []


def test_long_dead_run_shown_alive_is_a_resurrection(make_world: MakeWorld) -> None:
    world = make_world(watches=[NoResurrection()])
    world.crash(world.hosts[1])
    world.run_for(1.0)
    world.say(0, change(world, 1, ALIVE, SUSPECT))
    assert broken(world) == []
    world.run_for(NoResurrection.KNOWN_AFTER_S)
    world.say(0, change(world, 1, ALIVE, FAILED))
    assert broken(world) == ["no_resurrection"]


def test_run_that_never_was_is_an_invention(make_world: MakeWorld) -> None:
    world = make_world(watches=[NoResurrection()])
    world.say(0, change(world, 1, SUSPECT, ALIVE, epoch=7))
    assert broken(world) == ["no_invention"]


def test_newcomer_that_takes_a_long_dead_run_for_alive_is_reported(make_world: MakeWorld) -> None:
    world = make_world(3, watches=[NoResurrection()])
    world.crash(world.hosts[1])
    world.say(0, change(world, 1, ALIVE))
    assert broken(world) == []
    world.run_for(NoResurrection.KNOWN_AFTER_S + 1.0)
    world.say(0, change(world, 1, ALIVE))
    world.say(2, replace(change(world, 1, ALIVE, FAILED), is_new_epoch=True))
    assert broken(world) == ["no_resurrection"] * 2
    assert "alive after not being known" in world.violations[0].detail


@pytest.mark.parametrize("is_new_epoch", [False, True])
def test_newcomer_that_is_told_of_a_run_that_never_was_is_reported(
    make_world: MakeWorld, is_new_epoch: bool
) -> None:
    world = make_world(watches=[NoResurrection()])
    before = FAILED if is_new_epoch else None
    world.say(0, replace(change(world, 1, ALIVE, before, epoch=7), is_new_epoch=is_new_epoch))
    assert broken(world) == ["no_invention"]


@pytest.mark.parametrize(("scenario", "seed"), [("churn", 1), ("seed_gone", 3)])
def test_engine_that_meets_the_dead_as_living_is_noticed(
    monkeypatch: pytest.MonkeyPatch, scenario: str, seed: int
) -> None:
    meet = Belief._meet

    def meet_alive(self: Belief, statement: Statement, now: float, **known: Any) -> None:
        if statement.kind is FAILED:
            statement = replace(statement, kind=ALIVE)
        meet(self, statement, now, **known)

    monkeypatch.setattr(Belief, "_meet", meet_alive)
    result = run_plan(Plan(scenario, seed, SCENARIOS[scenario].num_hosts))
    assert "no_resurrection" in {violation.invariant for violation in result.violations}, again(result)


def test_host_that_holds_itself_suspect_is_reported(make_world: MakeWorld) -> None:
    world = make_world(watches=[OwnRowAlive()])
    world.say(0, change(world, 0, SUSPECT, ALIVE))
    assert broken(world) == ["own_row_alive"]
    world.node(1).rows = []
    world.run_for(1.5)
    assert broken(world) == ["own_row_alive"] * 2


def test_healthy_host_must_not_be_failed(make_world: MakeWorld) -> None:
    world = make_world(3, watches=[NoFalseFailure()])
    world.crash(world.hosts[2])
    world.say(0, change(world, 2, FAILED, SUSPECT))
    assert broken(world) == []
    world.say(0, change(world, 1, FAILED, SUSPECT))
    assert broken(world) == ["no_false_failure"]


def test_impaired_and_separated_hosts_may_be_failed(make_world: MakeWorld) -> None:
    world = make_world(4, watches=[NoFalseFailure()])
    world.stall(world.hosts[1], 20.0)
    world.say(0, change(world, 1, FAILED, SUSPECT))
    world.partition([world.hosts[:2], world.hosts[2:]])
    world.say(0, change(world, 2, FAILED, SUSPECT))
    world.run_for(20.0)
    world.heal()
    world.say(0, change(world, 2, FAILED, SUSPECT))
    assert broken(world) == []
    world.run_for(world.truth.GRACE_S + 6.0)
    world.say(0, change(world, 1, FAILED, SUSPECT), change(world, 2, FAILED, SUSPECT))
    assert broken(world) == ["no_false_failure"] * 2


def shown(world: FakeWorld, number: int, before: HostState, after: HostState) -> Event:
    fields = {"from": before.value, "to": after.value}
    return Event("host.state", 0.0, world.hosts[number].host_id, "h", "host", "said the test", fields)


def test_state_shown_to_people_must_be_true(make_world: MakeWorld) -> None:
    world = make_world(3, watches=[StatesAreTrue()])
    world.node(0).rows = [row for number in range(3) for row in world.node(number).rows]
    world.crash(world.hosts[2])
    world.node(0).events.append(shown(world, 2, HostState.READY, HostState.FAILED))
    world.say(0)
    assert broken(world) == []
    world.node(0).events.append(shown(world, 1, HostState.READY, HostState.FAILED))
    world.say(0)
    assert broken(world) == ["states_are_true"]


def test_state_told_just_after_a_new_run_may_be_that_of_the_run_before(make_world: MakeWorld) -> None:
    world = make_world(watches=[StatesAreTrue()])
    world.node(0).rows = [row for number in range(2) for row in world.node(number).rows]
    world.restart(world.hosts[1])
    world.node(0).rows[1] = world.node(0).rows[1]._replace(epoch=2)
    told = shown(world, 1, HostState.SUSPECT, HostState.FAILED)
    world.node(0).events.append(told)
    world.say(0, replace(change(world, 1, ALIVE, FAILED, epoch=2), is_new_epoch=True))
    assert broken(world) == []
    world.run_for(StatesAreTrue.TOLD_WITHIN_S)
    world.node(0).events.append(told)
    world.say(0)
    assert broken(world) == ["states_are_true"]


def test_goodbye_once_shown_must_not_turn_into_failure(make_world: MakeWorld) -> None:
    world = make_world(watches=[StatesAreTrue()])
    world.node(0).rows = [row for number in range(2) for row in world.node(number).rows]
    world.leave(world.hosts[1])
    world.node(0).events.append(shown(world, 1, HostState.READY, HostState.FAILED))
    world.say(0)
    assert broken(world) == []
    world.node(0).events.append(shown(world, 1, HostState.READY, HostState.LEFT))
    world.node(0).events.append(shown(world, 1, HostState.LEFT, HostState.FAILED))
    world.say(0)
    assert broken(world) == ["states_are_true"]


def test_hosts_that_show_the_same_states_must_place_alike(make_world: MakeWorld) -> None:
    world = make_world(watches=[SamePlacement()])
    rows = [row for number in (0, 1) for row in world.node(number).rows]
    for number in (0, 1):
        world.node(number).rows = list(rows)
        world.node(number).known = {
            host.host_id: Known(HostState.READY, Phase.SETTLED, {}) for host in world.hosts
        }
        world.node(number).order = ("a", "b")
    assert world.run_until_agreed(0.0) == 0.0
    assert broken(world) == []
    world.node(1).order = ("b", "a")
    world.run_until_agreed(0.0)
    assert broken(world) == ["same_placement"] * len(SamePlacement.KEYS)
    world.node(1).order = None
    world.run_until_agreed(0.0)
    assert len(broken(world)) == len(SamePlacement.KEYS)


def test_agreement_holds_the_shown_state_against_the_truth(make_world: MakeWorld) -> None:
    world = make_world()
    rows = [row for number in (0, 1) for row in world.node(number).rows]
    for number in (0, 1):
        world.node(number).rows = list(rows)
    world.node(0).known = {world.hosts[1].host_id: Known(HostState.SUSPECT, Phase.SETTLED, {})}
    assert "h001 is alive, and is shown suspect" in why(world)


def test_stopped_observer_may_read_old_word_of_one_that_was_impaired_meanwhile(make_world: MakeWorld) -> None:
    world = make_world(3, watches=[NoFalseFailure()])
    world.stall(world.hosts[1], 1.0)
    world.stall(world.hosts[0], 60.0)
    world.run_for(60.5)
    world.say(0, change(world, 1, FAILED, SUSPECT))
    assert broken(world) == []
    world.say(0, change(world, 2, FAILED, SUSPECT))
    assert broken(world) == ["no_false_failure"]


def test_goodbye_must_not_be_shown_as_failure(make_world: MakeWorld) -> None:
    world = make_world(watches=[GoodbyeIsNoFailure()])
    world.leave(world.hosts[1])
    world.say(0, change(world, 1, FAILED, SUSPECT))
    assert broken(world) == ["goodbye_is_no_failure"]


def test_goodbye_lost_on_the_way_is_excused_but_one_heard_is_not(make_world: MakeWorld) -> None:
    world = make_world(watches=[GoodbyeIsNoFailure()])
    world.conditions.loss_out[1] = 0.5
    world.leave(world.hosts[1])
    world.say(0, change(world, 1, FAILED, SUSPECT))
    assert broken(world) == []
    world.say(0, change(world, 1, FAILED, LEFT))
    assert broken(world) == ["goodbye_is_no_failure"]


def test_queue_over_its_bound_and_doubled_row_are_reported(make_world: MakeWorld) -> None:
    world = make_world(watches=[Bounded()])
    world.node(0).sizes = {"broadcasts": (5, 5)}
    world.run_for(1.5)
    assert broken(world) == []
    world.node(0).sizes = {"broadcasts": (6, 5)}
    world.node(1).rows *= 2
    world.run_for(1.0)
    assert broken(world) == ["bounded"] * 2


def test_queue_over_its_bound_for_one_call_only_is_reported(make_world: MakeWorld) -> None:
    world = make_world(watches=[Bounded()])
    world.node(0).sizes = {"broadcasts": (6, 5)}
    world.say(0)
    world.node(0).sizes = {}
    world.run_for(5.0)
    assert broken(world) == ["bounded"]


@pytest.mark.parametrize(("num_steps", "names"), [(400, []), (20_000, ["prompt"])])
def test_call_that_does_more_than_its_input_warrants_is_reported(
    make_world: MakeWorld, num_steps: int, names: list[str]
) -> None:
    world = make_world(watches=[Prompt()], metered_share=1)
    world.node(1).num_steps = num_steps
    world.send(0, 1, bytes(10))
    world.run_for(1.0)
    assert broken(world) == names
    assert all("handle_datagram took" in violation.detail for violation in world.violations)


@pytest.mark.parametrize("number", range(len(all_invariants())))
def test_quiet_world_breaks_nothing(make_world: MakeWorld, number: int) -> None:
    world = make_world(watches=[all_invariants()[number]])
    world.say(0, change(world, 1, ALIVE))
    world.run_for(10.0)
    assert broken(world) == []


def test_agreement_is_reported_with_what_differs(make_world: MakeWorld) -> None:
    world = make_world()
    assert world.run_until_agreed(1.0) is None
    assert broken(world) == ["agreement"]
    assert "h001 is alive, and is not known here" in world.violations[0].detail


def test_agreement_holds_reachability_epoch_and_knowledge_against_the_truth(make_world: MakeWorld) -> None:
    world = make_world()
    both = [row for number in (0, 1) for row in world.node(number).rows]
    for number in (0, 1):
        world.node(number).rows = list(both)
    assert world.run_until_agreed(1.0) == 0.0
    world.node(0).rows[1] = both[1]._replace(reachability=SUSPECT)
    assert "is held suspect" in why(world)
    world.node(0).rows[1] = both[1]._replace(epoch=2)
    assert "is held for epoch 2" in why(world)
    world.node(0).rows[1] = both[1]._replace(address=Address("10.9.9.9", 7977))
    assert "is held to be at 10.9.9.9:7977" in why(world)
    world.node(0).rows[1] = both[1]
    world.node(1).known = {world.hosts[1].host_id: Known(HostState.READY, Phase.SETTLED, {"gpus": 2})}
    assert "h001 says gpus = 2, and is shown with None" in why(world)


def test_agreement_wants_left_for_a_goodbye_and_failed_for_a_crash(make_world: MakeWorld) -> None:
    world = make_world(3)
    rows = [row for number in range(3) for row in world.node(number).rows]
    world.leave(world.hosts[1])
    world.crash(world.hosts[2])
    world.node(0).rows = [
        rows[0],
        rows[1]._replace(reachability=FAILED),
        rows[2]._replace(reachability=FAILED),
    ]
    assert "h001 has left, and is held failed" in why(world)
    world.node(0).rows[1] = rows[1]._replace(reachability=LEFT)
    assert world.disagreement() is None
    world.node(0).rows[2] = rows[2]._replace(reachability=LEFT)
    assert "h002 has crashed, and is held left" in why(world)


def test_news_that_nobody_stops_telling_is_no_rest(make_world: MakeWorld) -> None:
    world = make_world()
    rows = [row for number in (0, 1) for row in world.node(number).rows]
    for number in (0, 1):
        world.node(number).rows = list(rows)
    world.node(0).sizes = {"swim/broadcasts": (0, 9), "swim/timers": (4, 9)}
    world.rest(30.0)
    assert broken(world) == []
    world.node(0).sizes = {"swim/broadcasts": (1, 9)}
    world.rest(30.0)
    assert broken(world) == ["rest"]


def test_ghosts_are_no_agreement(make_world: MakeWorld) -> None:
    world = make_world()
    both = [row for number in (0, 1) for row in world.node(number).rows]
    ghost = both[0]._replace(host_id="ghost", address=Address("10.1.1.1", 1))
    world.node(0).rows = [*both, ghost]
    world.node(1).rows = list(both)
    assert "do not exist" in why(world)


def why(world: FakeWorld) -> str:
    disagreement = world.disagreement()
    assert disagreement is not None
    return disagreement[1]
