"""A card that was unhealthy proves itself before it takes new work, as a host does (``lease.cooldown``).

Hysteresis decides when its findings go; from then on it is degraded for the cooldown, beside cards that
were well all the while. A host's only card needs none of its own: the host's cooldown holds for it.
"""

from __future__ import annotations

from gpumesh.health.rules import subject_of
from gpumesh.model import Finding, Gpu, Severity, Verdict

CHECK = "cooldown"


class Cooling:
    """Which cards were unhealthy, and until when those that recovered cool down, by UUID."""

    def __init__(self, cooldown_s: float) -> None:
        self._cooldown_s = cooldown_s
        self._ill: set[str] = set()
        self._began: dict[str, tuple[float, float]] = {}
        """Boot clock and Unix seconds of the recovery."""

    def handle_card(self, gpu: Gpu, now: float, unix: float) -> Finding | None:
        """Take in what is concluded of a card; return the finding that stands while it cools down.

        A critical finding that is silenced has not gone.
        """
        uuid = gpu.uuid
        if any(finding.severity is Severity.CRITICAL for finding in gpu.findings):
            self._ill.add(uuid)
            self._began.pop(uuid, None)
        elif gpu.verdict is not Verdict.UNKNOWN and uuid in self._ill:
            self._ill.discard(uuid)
            self._began[uuid] = (now, unix)
        began = self._began.get(uuid)
        if began is None:
            return None
        if now - began[0] >= self._cooldown_s:
            del self._began[uuid]
            return None
        reason = f"it was unhealthy, and takes no new work for {self._cooldown_s:g} s after its recovery"
        return Finding(
            CHECK,
            subject_of(uuid),
            Severity.WARNING,
            reason,
            evidence={"code": "recovered", "cooldown_s": self._cooldown_s},
            since=began[1],
        )

    def keep(self, uuids: set[str]) -> None:
        """Forget cards that are no more; this bounds the tables."""
        self._ill &= uuids
        self._began = {uuid: began for uuid, began in self._began.items() if uuid in uuids}
