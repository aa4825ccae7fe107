"""One daemon of a small fleet under a flood of rubbish datagrams: does it probe on, and is anybody failed?"""

import socket
import time
from pathlib import Path

from tests.bench.fleet import Fleet, running
from tests.bench.makes import Gpumesh, Place
from tests.bench.row import OWN, Bound, Row
from tests.bench.scrape import scrape

NUM_HOSTS = 4
FLOOD_S = 15.0
RUBBISH = b"gm\x01L" + bytes(200)
"""Begins as a datagram of gpumesh does, so that it is looked at more closely than other rubbish."""
BATCH = 100
NOBODY = Bound(0.0)
_PINGS = 'gpumesh_sent_total{kind="ping"}'


def measure_flood(settle_s: float, directory: Path, for_s: float = FLOOD_S) -> list[Row]:
    """Send one daemon as many rubbish datagrams as one process can, and count the probes it still makes."""
    with running([Gpumesh()], NUM_HOSTS, directory, settle_s) as fleets:
        fleet = fleets[0]
        place = list(fleet.places.values())[1]
        before, began_at = scrape(place)[_PINGS], time.monotonic()
        num_sent = _flood(place, for_s)
        took_s = time.monotonic() - began_at
        probes = (scrape(place)[_PINGS] - before) / took_s
        return [
            Row("flooded: rubbish datagrams sent to a daemon", "1/s", {OWN: num_sent / for_s}, {}),
            Row("flooded: probes by that daemon", "1/s", {OWN: probes}, {}),
            Row("flooded: who is failed, at anybody", "", {OWN: float(_num_failed(fleet))}, {}, NOBODY),
        ]


def _flood(place: Place, for_s: float) -> int:
    until, num_sent = time.monotonic() + for_s, 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as rubbish:
        while time.monotonic() < until:
            for _ in range(BATCH):
                rubbish.sendto(RUBBISH, ("127.0.0.1", place.gossip_port))
            num_sent += BATCH
    return num_sent


def _num_failed(fleet: Fleet) -> int:
    fleet.poll()
    return sum(sight.is_failed for sight in fleet.sights)
