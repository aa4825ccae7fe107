"""Are the cards here that should be: against what is remembered, what the operator expects, and the PCI bus.

A card that is gone is its own fault and not its host's: the finding stands on the card, so the other cards
stay in service (k8s-device-plugin#231). A driver that has not finished answering proves nothing, and
findings are held. A card taken out on purpose is forgotten when ``gpu.expected`` says how many there must
be and that many are here, or when another card stands in its slot.

Thresholds:

- ``lost``: a known card is not listed by the driver, or its handle answers 15, 28 or an unknown error.
  Source: NVML return codes; go-nvml and gpud#1180: one bad handle must not hide the others.
- ``moved``: a known UUID answers at another PCI address. Keys: ``told_for``. Source: own judgement: told,
  since a card that nobody moved points at a riser or a renumbered bus.
- ``added``: a UUID that was never seen here. Keys: ``told_for``. Source: own judgement: told for a day.
- ``replaced``: another UUID answers at the PCI address of a known card that is gone. Keys: ``told_for``.
  Source: own judgement: told for a day; the old card is forgotten.
- ``duplicate``: two cards claim one UUID. Source: own judgement: work is placed by UUID, so neither can be
  addressed.
- ``expected``: fewer cards than gpu.expected, beyond those told as lost. Source: the operator's own word.
- ``more-than-expected``: more cards than gpu.expected. Source: the operator's own word.
- ``pci``: an NVIDIA display controller on the PCI bus that the driver does not list, for 30 s. Keys:
  ``pci_after``. Source: NVSentinel#684; 30 s because a driver takes its cards one after the other.
- ``handle``: a card that the driver counts but gives no handle or UUID for, and that no known card explains.
  Source: gpud#1180, k8s-device-plugin#338.
- ``file``: the inventory kept on disk is not one. Source: own judgement: a damaged memory must be told, not
  trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import HOST, HostCheck, Look, Rule, SeeHost, Symptom, subject_of
from gpumesh.model import Action, Severity

NAME: Final = "inventory"

LOST = Rule(
    NAME,
    "lost",
    "a known card is not listed by the driver, or its handle answers 15, 28 or an unknown error",
    Severity.CRITICAL,
    Action.REBOOT,
    "NVML return codes; go-nvml and gpud#1180: one bad handle must not hide the others",
    advice="drain the host and reboot it; if the card does not come back, reseat it and look at its power "
    "cables. If it was taken out on purpose, set gpu.expected to the number of cards left",
)
MOVED = Rule(
    NAME,
    "moved",
    "a known UUID answers at another PCI address",
    Severity.INFO,
    Action.NONE,
    "own judgement: told, since a card that nobody moved points at a riser or a renumbered bus",
    clear="told_for",
)
ADDED = Rule(
    NAME,
    "added",
    "a UUID that was never seen here",
    Severity.INFO,
    Action.NONE,
    "own judgement: told for a day",
    clear="told_for",
)
REPLACED = Rule(
    NAME,
    "replaced",
    "another UUID answers at the PCI address of a known card that is gone",
    Severity.INFO,
    Action.NONE,
    "own judgement: told for a day; the old card is forgotten",
    clear="told_for",
)
DUPLICATE = Rule(
    NAME,
    "duplicate",
    "two cards claim one UUID",
    Severity.CRITICAL,
    Action.INSPECT,
    "own judgement: work is placed by UUID, so neither can be addressed",
    advice="one of the two cards carries a copied VBIOS or infoROM; take it out",
)
EXPECTED = Rule(
    NAME,
    "expected",
    "fewer cards than gpu.expected, beyond those told as lost",
    Severity.WARNING,
    Action.INSPECT,
    "the operator's own word",
    advice="look at the cards' seating and power, or correct gpu.expected",
)
SURPLUS = Rule(
    NAME,
    "more-than-expected",
    "more cards than gpu.expected",
    Severity.INFO,
    Action.CONFIGURE,
    "the operator's own word",
    advice="correct gpu.expected if the card is meant to be here",
)
UNDRIVEN = Rule(
    NAME,
    "pci",
    "an NVIDIA display controller on the PCI bus that the driver does not list, for {pci_after}",
    Severity.WARNING,
    Action.INSPECT,
    "NVSentinel#684; 30 s because a driver takes its cards one after the other",
    advice="look for the address in the kernel's log; a card that this driver "
    "does not support, or no longer, stays like this",
    stand="pci_after",
)
UNREADABLE = Rule(
    NAME,
    "handle",
    "a card that the driver counts but gives no handle or UUID for, and that no known card explains",
    Severity.WARNING,
    Action.INSPECT,
    "gpud#1180, k8s-device-plugin#338",
    advice="drain the host and reboot it; if it stays, reseat the card",
)
DAMAGED = Rule(
    NAME,
    "file",
    "the inventory kept on disk is not one",
    Severity.INFO,
    Action.NONE,
    "own judgement: a damaged memory must be told, not trusted",
    advice="nothing to do: a new one was started from the cards that are here. Cards lost before cannot "
    "be missed",
)


def see(look: Look) -> Iterator[Symptom]:
    """Hold what the driver lists against memory, expectation and bus."""
    yield from _lost(look)
    yield from _changed(look)
    yield from _counted(look)
    yield from _on_the_bus(look)
    if look.stock.inventory.problem:
        yield Symptom(DAMAGED, HOST, f"the kept inventory was damaged: {look.stock.inventory.problem}")


def _lost(look: Look) -> Iterator[Symptom]:
    stock = look.stock
    for uuid, words in stock.lost.items():
        card = stock.inventory.find(uuid)
        if card is None:
            continue
        said = f"the driver says: {words}" if words else "the driver no longer lists it"
        is_on_bus = None if look.pci_addresses is None else card.pci_bus_id in look.pci_addresses
        where = {None: "", True: "; it is still on the PCI bus", False: "; it is gone from the PCI bus"}[
            is_on_bus
        ]
        yield Symptom(
            LOST,
            subject_of(uuid),
            f"{card.model} at {card.pci_bus_id} is lost: {said}{where}",
            {"pci_bus_id": card.pci_bus_id, "index": card.index, "is_on_pci_bus": is_on_bus},
        )


def _changed(look: Look) -> Iterator[Symptom]:
    stock = look.stock
    for uuid, old in stock.moved.items():
        card = stock.inventory.find(uuid)
        if card is not None:
            reason = f"{card.model} moved from PCI address {old} to {card.pci_bus_id}"
            yield Symptom(MOVED, subject_of(uuid), reason, {"from": old, "to": card.pci_bus_id})
    for uuid in stock.added:
        card, old_card = stock.inventory.find(uuid), stock.replaced.get(uuid)
        if card is None:
            continue
        if old_card is None:
            yield Symptom(ADDED, subject_of(uuid), f"{card.model} at {card.pci_bus_id} is new on this host")
        else:
            reason = (
                f"{card.model} stands at {card.pci_bus_id} in place of {old_card.model} ({old_card.uuid})"
            )
            yield Symptom(REPLACED, subject_of(uuid), reason, {"replaced": old_card.uuid})
    for uuid in stock.duplicated:
        yield Symptom(DUPLICATE, subject_of(uuid), f"two cards claim the UUID {uuid}")


def _counted(look: Look) -> Iterator[Symptom]:
    stock, expected = look.stock, look.config.gpu.expected
    num_here = len(stock.seen)
    if expected and num_here + len(stock.lost) < expected:
        reason = f"{num_here} of {expected} expected GPUs are here"
        yield Symptom(EXPECTED, HOST, reason, {"expected": expected, "found": num_here})
    if 0 < expected < num_here:
        reason = f"{num_here} GPUs are here, {expected} are expected"
        yield Symptom(SURPLUS, HOST, reason, {"expected": expected, "found": num_here})
    for state in stock.unidentified:
        said = state.error or "no UUID was given"
        reason = f"the GPU with index {state.index} cannot be opened: {said}"
        yield Symptom(UNREADABLE, HOST, reason, {"index": state.index}, item=str(state.index))
    num_missing = (look.probe.num_devices or 0) - len(look.probe.devices)
    if num_missing > 0:
        reason = (
            f"the driver counts {look.probe.num_devices} GPUs but gives {len(look.probe.devices)} handles"
        )
        yield Symptom(UNREADABLE, HOST, reason, {"count": look.probe.num_devices}, item="count")


def _on_the_bus(look: Look) -> Iterator[Symptom]:
    if look.pci_addresses is None:
        return
    driven = {state.info.pci_bus_id for state in look.probe.devices if state.info is not None}
    # A lost card is told by itself; its host is not to blame for the same absence twice.
    known = {card.pci_bus_id for card in look.stock.inventory.cards}
    for address in sorted(look.pci_addresses - driven - known):
        reason = f"the PCI bus has an NVIDIA GPU at {address} that the driver does not list"
        yield Symptom(UNDRIVEN, HOST, reason, {"pci_bus_id": address}, item=address)


def _start(_config: Config) -> SeeHost:
    # Without a complete answer nothing is known to be gone, and nothing to be back.
    return lambda look: see(look) if look.stock.is_complete else None


CHECK = HostCheck(
    NAME,
    __doc__,
    (LOST, MOVED, ADDED, REPLACED, DUPLICATE, EXPECTED, SURPLUS, UNDRIVEN, UNREADABLE, DAMAGED),
    _start,
)
