"""Everything in the engine that can grow: how much it holds now, and what it may hold at most.

Each is held to its limit when something is put in; docs/membership.md says what empties it, and ``/metrics``
shows both numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gpumesh.swim.context import MAX_EVENTS, Context
from gpumesh.swim.parameters import DOUBTS_FACTOR
from gpumesh.swim.post import MAX_WAITING, Post
from gpumesh.swim.probe import Probing
from gpumesh.swim.relay import Relaying
from gpumesh.swim.sync import Streams

OWN_TIMERS: Final = 16
"""Timers that are no suspicion's, probe's, errand's or stream's."""
ACTIONS_A_STREAM: Final = 256
"""What one stream has to say in its two turns: pages of the table and of the records, a summary, an end."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The parts of one engine in which something is kept."""

    context: Context
    post: Post
    probing: Probing
    relaying: Relaying
    streams: Streams

    def sizes(self) -> Mapping[str, int]:
        """Return how much each store holds now."""
        context, table = self.context, self.context.table
        return {
            "members": len(table),
            "members_live": table.num_live,
            "members_failed": table.num_failed,
            "members_left": len(table) - table.num_live - table.num_failed,
            "broadcasts": len(context.broadcasts),
            "probes": self.probing.num_pending,
            "probes_late": self.probing.num_unanswered,
            "order": self.probing.num_ordered,
            "newcomers": len(context.newcomers),
            "errands": len(self.relaying),
            "doubts": len(context.doubts),
            "streams": len(self.streams),
            "stream_pings": len(context.stream_pings),
            "stream_actions": len(self.streams.actions),
            "syncs_wanted": len(context.wanted_syncs),
            "timers": len(context.agenda),
            "events": len(context.events),
            "outbox": len(self.post.outbox),
            "sessions": context.sealer.num_sessions,
        }

    def limits(self) -> Mapping[str, int]:
        """Return how much each store may hold."""
        parameters = self.context.parameters
        members, pending, streams = parameters.num_members, parameters.num_pending, parameters.num_streams
        return {
            "members": members,
            "members_live": members,
            "members_failed": members,
            "members_left": members,
            "broadcasts": parameters.num_broadcasts,
            "probes": pending,
            "probes_late": pending,
            "order": 2 * members,
            "newcomers": members,
            "errands": pending,
            "doubts": pending * DOUBTS_FACTOR,
            "streams": streams,
            "stream_pings": pending,
            "stream_actions": streams * ACTIONS_A_STREAM,
            "syncs_wanted": streams,
            "timers": members + 2 * pending + streams + OWN_TIMERS,
            "events": MAX_EVENTS,
            "outbox": MAX_WAITING,
            "sessions": self.context.sealer.max_sessions,
        }
