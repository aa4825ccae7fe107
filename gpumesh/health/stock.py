"""Stock-taking: one probe held against the remembered inventory and the PCI bus.

Which cards are here, which are lost, added, moved or doubled, and which handles cannot be given a name.
A driver that did not finish answering proves nothing about the cards it did not reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpumesh.health.devices import DeviceInfo, DeviceState, Probe
from gpumesh.health.inventory import MAX_CARDS, MAX_TEXT, Inventory, KnownCard, is_uuid


@dataclass(frozen=True, slots=True)
class Stock:
    """The outcome of one stock-taking; mappings are keyed by UUID."""

    inventory: Inventory
    """What is to be remembered from now on."""
    is_complete: bool
    """The driver answered for all it has, so a card that is not here is lost."""
    seen: Mapping[str, DeviceState] = field(default_factory=dict)
    """Cards that the driver reaches, readable or not."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """Known cards that are not reached → the driver's words, empty if it does not list them at all."""
    added: tuple[str, ...] = ()
    """Cards never seen before, on a host whose cards were known."""
    moved: Mapping[str, str] = field(default_factory=dict)
    """Cards at another PCI address → where they were."""
    replaced: Mapping[str, KnownCard] = field(default_factory=dict)
    """Added cards → the known card in whose place they are; that one is forgotten."""
    duplicated: tuple[str, ...] = ()
    """UUIDs that two cards claim."""
    unidentified: tuple[DeviceState, ...] = ()
    """Handles that gave no name and that no known card explains."""


def take_stock(inventory: Inventory, probe: Probe, *, expected: int, unix: float) -> Stock:
    """Hold ``probe`` against ``inventory``.

    ``expected`` is the operator's word on how many cards there must be (0: none given). When that many are
    here, known cards that are not were taken out on purpose and are forgotten; so is a card whose slot holds
    another one.
    """
    named, duplicated = _by_uuid(probe.devices[:MAX_CARDS])
    nameless = [state for state in probe.devices[:MAX_CARDS] if not _has_name(state)]
    # A card that sleeps since before the start has no name yet; which one it is shows once it wakes.
    resting = [state for state in nameless if state.is_resting]
    nameless = [state for state in nameless if not state.is_resting]
    absent = {card.uuid: card for card in inventory.cards if card.uuid not in named}
    is_answered = probe.driver is not None and not probe.is_hung and probe.num_devices is not None
    is_complete = is_answered and not resting
    attributed, unidentified = _attribute(nameless, absent)
    reached = {uuid: state for uuid, state in (named | attributed).items() if not state.is_lost}
    lost = {uuid: state.error for uuid, state in (named | attributed).items() if state.is_lost}
    known = {card.uuid: card for card in inventory.cards}
    added = tuple(uuid for uuid in named if uuid not in known) if known else ()
    moved = {
        uuid: known[uuid].pci_bus_id
        for uuid, state in named.items()
        if uuid in known and state.info and state.info.pci_bus_id != known[uuid].pci_bus_id
    }
    replaced: dict[str, KnownCard] = {}
    if is_complete:
        gone = {uuid: card for uuid, card in absent.items() if uuid not in attributed}
        replaced = _replaced(added, named, gone)
        forgotten = {card.uuid for card in replaced.values()}
        if 0 < expected <= len(reached):
            forgotten |= set(gone)
        lost |= {uuid: "" for uuid in gone if uuid not in forgotten}
        known = {uuid: card for uuid, card in known.items() if uuid not in forgotten}
    # Cards that are here come first: should the table be full, the longest gone are forgotten, not they.
    here = _remember(named, known, unix)
    remembered = inventory.with_cards([*here, *(card for card in known.values() if card.uuid not in named)])
    return Stock(
        inventory=inventory if remembered == inventory else remembered,
        is_complete=is_complete,
        seen=reached,
        lost=lost,
        added=added,
        moved=moved,
        replaced=replaced,
        duplicated=duplicated,
        unidentified=unidentified,
    )


def _has_name(state: DeviceState) -> bool:
    return state.info is not None and is_uuid(state.info.uuid)


def _by_uuid(states: Iterable[DeviceState]) -> tuple[dict[str, DeviceState], tuple[str, ...]]:
    named: dict[str, DeviceState] = {}
    twice: list[str] = []
    for state in states:
        if state.info is None or not _has_name(state):
            continue
        if state.info.uuid in named:
            twice.append(state.info.uuid)
        else:
            named[state.info.uuid] = state
    return named, tuple(dict.fromkeys(twice))


def _attribute(
    nameless: Iterable[DeviceState], absent: Mapping[str, KnownCard]
) -> tuple[dict[str, DeviceState], tuple[DeviceState, ...]]:
    """Give handles without a name to known cards: by index, else by elimination when one of each is left.

    An index alone is weak, for indices shift when a card goes; but only cards that are not here compete for
    it.
    """
    by_index = {card.index: card.uuid for card in absent.values()}
    given: dict[str, DeviceState] = {}
    left: list[DeviceState] = []
    for state in nameless:
        if state.index in by_index:
            given[by_index[state.index]] = state
        else:
            left.append(state)
    rest = [uuid for uuid in absent if uuid not in given]
    if len(left) == 1 and len(rest) == 1:
        given[rest[0]] = left.pop()
    return given, tuple(left)


def _replaced(
    added: Iterable[str], named: Mapping[str, DeviceState], gone: Mapping[str, KnownCard]
) -> dict[str, KnownCard]:
    by_address = {card.pci_bus_id: card for card in gone.values()}
    found: dict[str, KnownCard] = {}
    for uuid in added:
        info = named[uuid].info
        old = by_address.get(info.pci_bus_id) if info else None
        if old is not None:
            found[uuid] = old
    return found


def _remember(
    named: Mapping[str, DeviceState], known: Mapping[str, KnownCard], unix: float
) -> list[KnownCard]:
    return [_card(state.info, known.get(uuid), unix) for uuid, state in named.items() if state.info]


def _card(info: DeviceInfo, known: KnownCard | None, unix: float) -> KnownCard:
    """Return what to remember; a value that is absent now does not erase what was given before."""
    card = KnownCard(
        uuid=info.uuid,
        model=info.name[:MAX_TEXT],
        pci_bus_id=info.pci_bus_id[:MAX_TEXT],
        index=info.index,
        memory_bytes=info.memory_total_bytes,
        capability=info.capability,
        first_seen=unix,
    )
    if known is None:
        return card
    return replace(
        card,
        memory_bytes=card.memory_bytes if card.memory_bytes is not None else known.memory_bytes,
        capability=card.capability or known.capability,
        first_seen=known.first_seen,
    )
