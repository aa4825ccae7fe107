"""What cards said when they were read last, for as long as they are let sleep.

A card that is not woken has no reading, and its last one, with its age, is the best that can be shown. It is
kept beside the reading and never in its place: metrics and checks see nothing of it. A card that fails or is
lost has none, for what it said before it failed tells nothing of it (gpu-monitoring-tools#188).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gpumesh.health.devices import DeviceState, Probe, Reading

MAX_CARDS: Final = 64


class LastReadings:
    """Remembers each card's newest reading by UUID."""

    def __init__(self) -> None:
        self._readings: dict[str, tuple[Reading, float]] = {}

    def handle_probe(self, probe: Probe, unix: float) -> Probe:
        """Take a look in, made at Unix second ``unix``; return it with what resting cards said last."""
        if not any(state.info for state in probe.devices):
            return probe
        return replace(probe, devices=tuple(self._take(state, unix) for state in probe.devices))

    def _take(self, state: DeviceState, unix: float) -> DeviceState:
        if state.info is None:
            return state
        uuid = state.info.uuid
        if state.is_resting:
            reading, read_unix = self._readings.get(uuid, (None, None))
            return replace(state, last_reading=reading, last_read_unix=read_unix)
        self._readings.pop(uuid, None)
        if state.reading is not None:
            self._readings[uuid] = (state.reading, unix)
            while len(self._readings) > MAX_CARDS:
                del self._readings[next(iter(self._readings))]
        return state
