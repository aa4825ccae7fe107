"""Answers that come late, or a second time by another way: evidence all the same, for a while."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpumesh.swim.probe import Probe

LATE_S: Final = 60.0
"""How late an answer may be and still be evidence: no host's queue holds datagrams for longer."""


class LateAnswers:
    """Questions that ended in silence, or were answered elsewhere than at the address; bounded."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._probes: OrderedDict[int, Probe] = OrderedDict()
        """By number of the question, of which one asked by a detour has two."""

    def __len__(self) -> int:
        return len(self._probes)

    def expect(self, probe: Probe) -> None:
        """Keep a probe of a known member; beyond the limit the oldest gives way."""
        self._probes[probe.seq] = probe
        if probe.detour_seq is not None and not probe.is_detoured:
            self._probes[probe.detour_seq] = probe
        while len(self._probes) > self._limit:
            self._probes.popitem(last=False)

    def take(self, seq: int, subject: str) -> Probe | None:
        """Return the probe that the answer of ``subject`` belongs to, None if there is none; at most once."""
        probe = self._probes.get(seq)
        if probe is None or probe.host_id != subject:
            return None
        probe.is_detoured = seq == probe.detour_seq
        return self._probes.pop(seq)

    def reap(self, now: float) -> None:
        """Forget questions to which not even a late answer can still come."""
        while self._probes and next(iter(self._probes.values())).ends_at < now - LATE_S:
            self._probes.popitem(last=False)
