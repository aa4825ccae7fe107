"""Who this daemon run is: host id bound to the hardware, and an epoch that grows with each start."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from gpumesh.daemon.hardware import Hardware
from gpumesh.daemon.statedir import StateDirectory
from gpumesh.model import Identity

DOCUMENT: Final = "identity"
MAX_EPOCH: Final = 2**48
"""Bound on what is believed of a file; no host restarts that often."""

_LOSES: Final = (
    "the host's epoch is not kept, so after a restart it joins only once a peer has told it the last one"
)


@dataclass(frozen=True, slots=True)
class Claim:
    """The identity taken for this run, and what an operator should know about how."""

    identity: Identity
    notes: tuple[str, ...] = ()


def claim_identity(
    state: StateDirectory, hardware: Hardware, *, name: str, boot_id: str, fleet: str = ""
) -> Claim:
    """Take up the kept identity if it belongs to this hardware, else a new one; the epoch is raised and kept.

    ``fleet`` is the label of the fleet this run is a member of, empty for a host that runs alone: a host that
    ran before, yet never in this fleet, is new to it and owes it no cooldown.

    The epoch is the greatest one found plus one, so a full disk (whose start could only be noted in ``/run``)
    does not repeat an epoch. Where nothing could be kept the fleet's memory corrects it on joining.
    """
    notes: list[str] = []
    found = state.read_all(DOCUMENT)
    kept = [document for document in found if _is_sound(document)]
    if len(kept) < len(found):
        notes.append(f"{state.path}: what identity.json holds is no identity; it is written anew")
    mine = [item for item in kept if hardware.is_same_machine(Hardware.from_json(item.get("hardware", {})))]
    if mine:
        host_id = str(mine[0]["host_id"])
        epoch = max(int(item["epoch"]) for item in mine if item["host_id"] == host_id) + 1
        is_first_run = str(mine[0].get("fleet", "")) != fleet
    else:
        host_id, epoch, is_first_run = hardware.derive_host_id(state.path), 1, True
        if kept:
            notes.append(
                f"the state directory {state.path} belongs to other hardware (host {kept[0]['host_id']}): a "
                f"cloned disk or image; this host is {host_id}"
            )
        if not hardware.is_known:
            notes.append(
                "neither mainboard UUID nor network cards can be read: a clone of this disk would pass as it"
            )
    document = {
        "host_id": host_id,
        "epoch": epoch,
        "hardware": hardware.to_json(),
        "boot_id": boot_id,
        "fleet": fleet,
    }
    if not state.write(DOCUMENT, document, loses=_LOSES):
        notes.append(state.losses[DOCUMENT])
    return Claim(Identity(host_id, name, epoch, boot_id, is_first_run=is_first_run), tuple(notes))


def keep_epoch(state: StateDirectory, identity: Identity, epoch: int) -> Identity:
    """Keep the epoch that the fleet's memory made this run take, and return the identity with it."""
    for document in state.read_all(DOCUMENT):
        if _is_sound(document) and document["host_id"] == identity.host_id:
            state.write(DOCUMENT, {**document, "epoch": epoch}, loses=_LOSES)
            break
    return replace(identity, epoch=epoch)


def read_boot_id(root: Path = Path("/")) -> str:
    """Return the kernel's boot id, or a random one where it cannot be read (then each start is a reboot)."""
    try:
        return str(uuid.UUID((root / "proc/sys/kernel/random/boot_id").read_text().strip()))
    except (OSError, ValueError):
        return str(uuid.uuid4())


def _is_sound(document: dict[str, Any]) -> bool:
    epoch, hardware = document.get("epoch"), document.get("hardware", {})
    try:
        uuid.UUID(str(document.get("host_id")))
    except ValueError:
        return False
    return (
        isinstance(epoch, int)
        and not isinstance(epoch, bool)
        and 0 < epoch < MAX_EPOCH
        and isinstance(hardware, dict)
    )
