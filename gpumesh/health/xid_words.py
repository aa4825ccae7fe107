"""Xids for people and metrics: records with the card's name and the wall clock's time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from gpumesh.health.devices import XidCount
from gpumesh.health.inventory import KnownCard
from gpumesh.health.xid_catalogue import kind_of
from gpumesh.health.xid_lines import place_of
from gpumesh.health.xids import XidRecord


@dataclass(frozen=True, slots=True)
class XidNews:
    """One Xid that was seen since the last look, for the feed of events."""

    uuid: str
    """Empty for a card that the driver has not named."""
    record: XidRecord
    num_new: int
    unix: float
    """When it was seen last."""
    words: str


def counts_of(
    records: Iterable[XidRecord], cards: Iterable[KnownCard], unix_offset: float
) -> tuple[XidCount, ...]:
    """Return the records as they are shown; ``unix_offset`` is added to the boot clock for Unix seconds."""
    by_place = _by_place(cards)
    return tuple(
        XidCount(
            uuid=by_place[record.place].uuid if record.place in by_place else "",
            pci_bus_id=by_place[record.place].pci_bus_id if record.place in by_place else record.place,
            xid=record.xid,
            num_seen=record.num_seen,
            last_unix=record.last_at + unix_offset,
            is_settled=record.is_settled,
        )
        for record in records
    )


def news_of(
    news: Iterable[tuple[XidRecord, int]], cards: Iterable[KnownCard], unix_offset: float
) -> tuple[XidNews, ...]:
    """Return what is new, in words."""
    by_place = _by_place(cards)
    return tuple(
        XidNews(
            uuid=by_place[record.place].uuid if record.place in by_place else "",
            record=record,
            num_new=num_new,
            unix=record.last_at + unix_offset,
            words=words(record, unix_offset),
        )
        for record, num_new in news
    )


def words(record: XidRecord, unix_offset: float) -> str:
    """Return one record as a sentence."""
    meaning = kind_of(record.xid).meaning
    name = meaning if record.xid is None else f"Xid {record.xid} ({meaning})"
    last = datetime.fromtimestamp(record.last_at + unix_offset, timezone.utc)
    times = "" if record.num_seen == 1 else f", {record.num_seen} times since boot, last"
    culprit = f", by {record.process or 'process'} (pid {record.pid})" if record.pid else ""
    return f"{name}{times} at {last:%Y-%m-%d %H:%M:%S} UTC{culprit}"


def _by_place(cards: Iterable[KnownCard]) -> Mapping[str | None, KnownCard]:
    return {place_of(card.pci_bus_id): card for card in cards}
