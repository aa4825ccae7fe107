"""One suspicion: who accuses, since when, and when the verdict falls (Lifeguard, LHA-Suspicion).

A suspicion starts long and shrinks with each independent accuser: one starved accuser waits, several healthy
ones are quick. A suspicion at a higher incarnation is another suspicion and gets a timer of its own; carrying
the old deadline over would fail a member that had just refuted.
"""

from __future__ import annotations

from gpumesh.swim.parameters import suspicion_timeout


class Suspicion:
    """The accusers of one member at one incarnation, and the deadline they make."""

    __slots__ = (
        "accusers",
        "first_at",
        "is_own",
        "is_refused",
        "is_told",
        "last_look_at",
        "longest_s",
        "num_wanted",
        "shortest_s",
        "started_at",
    )

    def __init__(self, accuser: str, now: float, bounds: tuple[float, float], num_wanted: int) -> None:
        self.accusers = {accuser}
        self.started_at = self.first_at = now
        self.shortest_s, self.longest_s = bounds
        self.num_wanted = num_wanted
        self.is_own = False
        """This host itself probed the member without success."""
        self.is_told = False
        """This host has told others so: not while it hears nobody."""
        self.is_refused = False
        """This host's own probe was refused by the member's kernel."""
        self.last_look_at = float("-inf")
        """Until when a lone accuser's last look at the member lasts."""

    @property
    def deadline_at(self) -> float:
        """When the member is failed, unless it refutes or more accusers bring that forward."""
        timeout_s = suspicion_timeout(
            self.shortest_s, self.longest_s, len(self.accusers) - 1, self.num_wanted
        )
        return max(self.started_at + timeout_s, self.last_look_at)

    @property
    def is_confirmed(self) -> bool:
        """As many independent accusers agree as were asked for."""
        return len(self.accusers) > self.num_wanted

    def confirm(self, accuser: str) -> bool:
        """Add an accuser; return whether it is a new one that still shortens the suspicion."""
        if accuser in self.accusers or len(self.accusers) > self.num_wanted:
            return False
        self.accusers.add(accuser)
        return True

    def postpone(self, gap_s: float) -> None:
        """Move the suspicion by the time this process stood still."""
        self.started_at += gap_s
        self.first_at += gap_s

    def restart(self, now: float) -> None:
        """Begin the wait anew: somebody vouched for the member, or nobody at all is heard."""
        self.started_at = now
        self.last_look_at = float("-inf")

    def refuse(self, shortest_s: float) -> None:
        """Take that the member's kernel refuses: nobody is there who could refute, so waiting is shorter."""
        self.is_refused = True
        self.shortest_s = min(self.shortest_s, shortest_s)
