"""Xids as the driver tells them: one event set a card, emptied at each look without ever waiting.

A set that holds several cards answers "GPU is lost" for all of them once one is gone; with a set for each,
no card silences another.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from gpumesh.errors import DriverError
from gpumesh.health.nvml_card import Card, Session

MAX_EVENTS: Final = 256
"""Events taken of one card in one look; more of them wait for the next."""
_XID: Final = 0x8
"""NVML's nvmlEventTypeXidCriticalError."""
_NO_WAIT_MS: Final = 0
_TIMED_OUT: Final = 10


class EventWatch:
    """The event sets of one driver session, by the UUID of the card that each watches."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sets: dict[str, Any] = {}
        self._refused: set[str] = set()

    def begin(self, card: Card, uuid: str) -> None:
        """Watch this card, if it is not watched and did not refuse before. Never raises."""
        if uuid in self._sets or uuid in self._refused:
            return
        call, index = self._session.call, card.index
        events = None
        try:
            supported = int(call("nvmlDeviceGetSupportedEventTypes", index, card.handle))
            if supported & _XID:
                events = call("nvmlEventSetCreate", index)
                call("nvmlDeviceRegisterEvents", index, card.handle, _XID, events)
                self._sets[uuid] = events
                return
        except DriverError:
            if events is not None:
                self._free(events, index)
        # The kernel's log tells the same; a card that will not say is not asked at every look.
        self._refused.add(uuid)

    def take(self, uuid: str, index: int) -> tuple[int, ...]:
        """Return the Xids told since the last look, oldest first; drains. Never raises."""
        events, xids = self._sets.get(uuid), []
        if events is None:
            return ()
        for _ in range(MAX_EVENTS):
            try:
                data = self._session.call("nvmlEventSetWait_v2", index, events, _NO_WAIT_MS)
            except DriverError as error:
                if error.code != _TIMED_OUT:
                    # Lost or broken: watched anew once the card answers.
                    self._free(self._sets.pop(uuid), index)
                break
            if data.eventType & _XID:
                xids.append(int(data.eventData))
        return tuple(xids)

    def close(self) -> None:
        """Free every set. Never raises."""
        for events in self._sets.values():
            self._free(events, 0)
        self._sets.clear()

    def _free(self, events: Any, index: int) -> None:
        with suppress(DriverError):
            self._session.call("nvmlEventSetFree", index, events)
