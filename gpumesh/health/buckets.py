"""In how many of the last ten minutes something was seen: what comes in bursts is judged by it.

A look is no measure of a burst: it falls into it or beside it, and quick looks would count one burst many
times. A minute counts once, when any look in it shows what is counted (gpud's one-minute buckets).
"""

from __future__ import annotations

from collections import deque
from typing import Final

NUM_BUCKETS: Final = 10
BUCKET_S: Final = 60.0
MAX_KEYS: Final = 128


class Buckets:
    """Remembers by key the recent minutes with a hit; past ``MAX_KEYS`` the key hit least recently goes.

    ``interval_s`` is the longest time between looks. With looks further apart than a minute a bucket is one
    look long, or ten of them could never be filled.
    """

    def __init__(self, interval_s: float) -> None:
        self._bucket_s = max(BUCKET_S, interval_s)
        self._hits: dict[str, deque[int]] = {}

    def num_hit(self, key: str, now: float, *, is_hit: bool) -> int:
        """Take in what a look at ``now`` shows; return how many of the last ten buckets have a hit."""
        bucket = int(now // self._bucket_s)
        hits = self._hits.pop(key, None)
        if hits is None and not is_hit:
            return 0
        hits = deque(hits or (), maxlen=NUM_BUCKETS)
        if is_hit and (not hits or hits[-1] != bucket):
            hits.append(bucket)
        while hits and hits[0] <= bucket - NUM_BUCKETS:
            hits.popleft()
        if hits:
            self._hits[key] = hits
            while len(self._hits) > MAX_KEYS:
                del self._hits[next(iter(self._hits))]
        return len(hits)

    def words(self, num_hit: int) -> str:
        """Return how a reason tells that many hits."""
        minutes = round(NUM_BUCKETS * self._bucket_s / 60)
        return f"in {num_hit} of {NUM_BUCKETS} parts of the last {minutes} min"
