"""What must hold in every world, whatever befalls it; each class watches one thing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpumesh.model import Event, HostState, Phase, Reachability
from gpumesh.sim.streams import MAX_ENDS
from gpumesh.sim.truth import Ending, Life
from gpumesh.sim.watch import Call, Watch
from gpumesh.swim.ports import MemberChanged, MemberView, SwimEvent

if TYPE_CHECKING:
    from gpumesh.sim.host import SimHost
    from gpumesh.sim.world import World


class NothingFalls(Watch):
    """At no observer does a member's epoch fall, nor its incarnation within an epoch."""

    def __init__(self) -> None:
        self._highest: dict[tuple[int, int, str], tuple[int, int]] = {}

    def handle_change(self, world: World, host: SimHost, change: SwimEvent) -> None:
        """Hold a change against what this observer has shown before."""
        if isinstance(change, MemberChanged):
            self._compare(world, host, change.host_id, (change.epoch, change.incarnation))

    def handle_rows(self, world: World, host: SimHost, rows: Sequence[MemberView]) -> None:
        """Hold a whole table against what this observer has shown before."""
        for row in rows:
            self._compare(world, host, row.host_id, (row.epoch, row.incarnation))

    def _compare(self, world: World, host: SimHost, subject: str, shown: tuple[int, int]) -> None:
        key = (host.number, host.identity.epoch, subject)
        before = self._highest.get(key)
        if before is None or shown >= before:
            self._highest[key] = shown
            return
        world.report(
            "nothing_falls",
            f"{world.name_of(subject)} went from epoch {before[0]}, incarnation {before[1]} "
            f"to epoch {shown[0]}, incarnation {shown[1]}",
            host,
        )


class NoResurrection(Watch):
    """A run that left never lives again; one that crashed does not once the fleet has had time to know.

    That holds for hosts that knew it as for those that only now hear of it.
    """

    KNOWN_AFTER_S = 60.0

    def handle_change(self, world: World, host: SimHost, change: SwimEvent) -> None:
        """Look whether somebody dead is held for living."""
        if not isinstance(change, MemberChanged):
            return
        has_left = change.before is Reachability.LEFT and not change.is_new_epoch
        if has_left and change.after is not Reachability.LEFT:
            name = world.name_of(change.host_id)
            world.report("no_resurrection", f"{name} had left, and is shown {change.after}", host)
            return
        life = world.truth.life(change.host_id, change.epoch)
        if life is None:
            world.report("no_invention", f"{change.host_id} never ran as epoch {change.epoch}", host)
            return
        if life.ended_at is None or change.after is not Reachability.ALIVE:
            return
        since = max(life.ended_at, world.now - self.KNOWN_AFTER_S)
        if world.now - life.ended_at > self.KNOWN_AFTER_S and not world.truth.was_partitioned(since):
            name = world.name_of(change.host_id)
            world.report(
                "no_resurrection",
                f"epoch {change.epoch} of {name} ended {world.now - life.ended_at:.1f} s ago, and is shown "
                f"alive after {change.before or 'not being known'}: {change.reason}",
                host,
            )


class OwnRowAlive(Watch):
    """A host that has not said goodbye holds itself alive, in its present epoch, always."""

    def handle_change(self, world: World, host: SimHost, change: SwimEvent) -> None:
        """Look whether a host believes its own death."""
        if (
            isinstance(change, MemberChanged)
            and change.host_id == host.host_id
            and change.after is not Reachability.ALIVE
            and world.is_living(host)
        ):
            world.report("own_row_alive", f"holds itself {change.after}: {change.reason}", host)

    def handle_rows(self, world: World, host: SimHost, rows: Sequence[MemberView]) -> None:
        """Look at its own row."""
        own = [row for row in rows if row.host_id == host.host_id]
        if not world.is_living(host):
            return
        if len(own) != 1:
            world.report("own_row_alive", f"holds {len(own)} rows of itself", host)
        elif own[0].reachability is not Reachability.ALIVE or own[0].epoch != host.identity.epoch:
            world.report("own_row_alive", f"holds itself {own[0].reachability}, epoch {own[0].epoch}", host)


class NoFalseFailure(Watch):
    """No host that runs, is healthy and was not cut off from the observer is declared failed.

    What is excused: a subject that is itself impaired (stopped, starved, on a bad link of its own), or
    was until a little ago, and, during and shortly after a partition, what one side says of the other.
    """

    def handle_change(self, world: World, host: SimHost, change: SwimEvent) -> None:
        """Look whether a healthy host was declared failed."""
        if is_false_failure(world, host, change):
            assert isinstance(change, MemberChanged)
            name = world.name_of(change.host_id)
            world.report("no_false_failure", f"{name} is healthy, and was failed: {change.reason}", host)


class StatesAreTrue(Watch):
    """What people are shown follows the truth, too: no lease or verdict makes a healthy host ``failed``."""

    TOLD_WITHIN_S = 1.0

    def __init__(self) -> None:
        self._left: set[tuple[int, int, str, int]] = set()
        self._renewed_at: dict[tuple[int, str], float] = {}

    def handle_change(self, world: World, host: SimHost, change: SwimEvent) -> None:
        """Note when this observer learnt of a new run."""
        if isinstance(change, MemberChanged) and change.is_new_epoch:
            self._renewed_at[(host.number, change.host_id)] = world.now

    def handle_event(self, world: World, host: SimHost, event: Event) -> None:
        """Look whether a healthy host is shown failed, or one that was shown to have left."""
        renewed_at = self._renewed_at.get((host.number, event.host_id), -math.inf)
        # Judged and told a moment later, a state may still be that of the run before.
        if event.kind != "host.state" or world.now - renewed_at < self.TOLD_WITHIN_S:
            return
        assert host.node is not None
        # The run that this observer knows: of a newer one it may not have heard yet.
        row = next((row for row in host.node.members() if row.host_id == event.host_id), None)
        life = world.truth.life(event.host_id, row.epoch) if row is not None else None
        if life is None:
            return
        key = (host.number, host.identity.epoch, life.host_id, life.epoch)
        if event.fields["to"] == HostState.LEFT:
            self._left.add(key)
        elif event.fields["to"] != HostState.FAILED:
            return
        elif key in self._left:
            world.report("states_are_true", f"{event.host} had left, and is shown failed", host)
        elif life.ended_at is None and not _is_excused(world, host, life):
            world.report("states_are_true", f"{event.host} is healthy, shown failed: {event.reason}", host)


class SamePlacement(Watch):
    """Where views agree, every host gives the same placement for the same key."""

    KEYS = ("render", "train", "batch")

    def handle_agreement(self, world: World, rounds_s: float) -> None:
        """Ask everybody; whoever suspects itself of being the one cut off does not answer."""
        del rounds_s
        for key in self.KEYS:
            answers: dict[frozenset[tuple[str, HostState, Phase]], tuple[str, ...]] = {}
            for host in world.running:
                assert host.node is not None
                known = host.node.knowledge(host.now)
                # Cooldowns are each observer's own; only whoever shows the same must agree.
                shown = frozenset((host_id, item.state, item.phase) for host_id, item in known.items())
                answer = host.node.ranking(key, host.now)
                if answer is not None and answers.setdefault(shown, answer) != answer:
                    world.report(
                        "same_placement",
                        f"{key}: {_names(world, answer)} here, {_names(world, answers[shown])} elsewhere",
                        host,
                    )


def _names(world: World, answer: tuple[str, ...]) -> str:
    return " ".join(world.name_of(host_id) for host_id in answer) or "nowhere"


def is_false_failure(world: World, host: SimHost, change: SwimEvent) -> bool:
    """Whether a change declares a healthy running host failed, without excuse."""
    if not isinstance(change, MemberChanged) or change.after is not Reachability.FAILED:
        return False
    life = world.truth.life(change.host_id, change.epoch)
    if life is None or life.ended_at is not None:
        return False
    return not _is_excused(world, host, life)


def _is_excused(world: World, host: SimHost, life: Life) -> bool:
    truth, now = world.truth, world.now
    heard_since = now - truth.GRACE_S
    if truth.is_impaired(host.number, now):
        # It may only now read what was said, and right, while it was stopped itself.
        heard_since = min(heard_since, (truth.impaired_since(host.number) or 0.0) - truth.GRACE_S)
    return (
        truth.was_impaired(life.number, heard_since)
        or truth.were_separated(host.number, life.number, heard_since)
        # Just after a heal the other side's word, which was right there, still travels here.
        or truth.was_partitioned(heard_since)
    )


class GoodbyeIsNoFailure(Watch):
    """A host that said goodbye is never shown failed where nothing can have kept its word from arriving."""

    def handle_change(self, world: World, host: SimHost, change: SwimEvent) -> None:
        """Look whether a host that left is called failed."""
        if not isinstance(change, MemberChanged) or change.after is not Reachability.FAILED:
            return
        life = world.truth.life(change.host_id, change.epoch)
        if life is None or life.ending is not Ending.LEFT or life.ended_at is None:
            return
        name = world.name_of(change.host_id)
        if change.before is Reachability.LEFT:
            world.report("goodbye_is_no_failure", f"{name} had left here, and was then failed", host)
            return
        is_excused = (
            world.conditions.link.loss > 0.0
            or bool(world.conditions.loss_in or world.conditions.loss_out or world.conditions.link_loss)
            or world.truth.is_impaired(host.number, world.now)
            or world.truth.is_impaired(life.number, life.ended_at)
            or world.truth.was_partitioned(life.ended_at - 1.0)
        )
        if not is_excused:
            world.report("goodbye_is_no_failure", f"{name} left, and was failed: {change.reason}", host)


class Bounded(Watch):
    """No queue or table of an engine outgrows the bound that it names; no host hoards streams."""

    def handle_turn(self, world: World, host: SimHost) -> None:
        """Look at all queues of one host."""
        assert host.node is not None
        for name, (size, bound) in host.node.queues().items():
            if size > bound:
                world.report("bounded", f"{name} holds {size}, more than {bound}", host)

    def handle_rows(self, world: World, host: SimHost, rows: Sequence[MemberView]) -> None:
        """Look at the streams and the table of one host."""
        if world.streams.num_open(host.number) >= MAX_ENDS:
            world.report("bounded", f"holds {MAX_ENDS} streams open", host)
        if len({row.host_id for row in rows}) != len(rows):
            world.report("bounded", "its member table holds a host twice", host)


class Prompt(Watch):
    """No call into an engine does more than its bound, which grows with what came in and whom it knows."""

    def handle_call(self, world: World, host: SimHost, call: Call) -> None:
        """Hold one call against its bound."""
        if call.num_steps > call.bound:
            detail = f"{call.name} took {call.num_steps} steps, more than {call.bound}"
            world.report("prompt", detail, host)


def all_invariants() -> list[Watch]:
    """Return a fresh watch for each invariant."""
    return [
        NothingFalls(),
        NoResurrection(),
        OwnRowAlive(),
        NoFalseFailure(),
        StatesAreTrue(),
        GoodbyeIsNoFailure(),
        SamePlacement(),
        Bounded(),
        Prompt(),
    ]
