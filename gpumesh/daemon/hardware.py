"""What tells one machine from its clone: the mainboard's UUID and the network cards' addresses.

A café boots forty machines from one image, state directory and all. The identity in that image belongs to the
machine whose hardware made it; on the other thirty-nine the fingerprint differs.
"""

from __future__ import annotations

import contextlib
import fcntl
import re
import socket
import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpumesh.config.files import read_regular

_NAMESPACE: Final = uuid.UUID("6d8f2f0e-52a5-4d0b-9a0c-6770756d6573")
_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_MAX_MACS: Final = 32
_MAX_WORD_BYTES: Final = 4096
_SIOCGIFHWADDR: Final = 0x8927
_SHARED_PRODUCT_UUIDS: Final = frozenset(
    {
        # Vendors that fill the field in once for all boards of a series: these tell nothing apart.
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "03000200-0400-0500-0006-000700080009",
        "12345678-1234-5678-90ab-cddeefaabbcc",
        "00020003-0004-0005-0006-000700080009",
    }
)


@dataclass(frozen=True, slots=True)
class Hardware:
    """The fingerprint of a machine; parts that cannot be read are empty."""

    product_uuid: str = ""
    macs: tuple[str, ...] = ()
    """Lower-case, sorted."""

    @property
    def is_known(self) -> bool:
        """Whether there is anything to tell this machine by."""
        return bool(self.product_uuid or self.macs)

    def is_same_machine(self, other: Hardware) -> bool:
        """Whether both fingerprints can be of one machine.

        A differing mainboard says no. Network cards decide next: no address in common says no, even on an
        equal mainboard, for virtual machines and cheap boards share UUIDs; taking a machine with all its
        cards replaced for a new host does less harm than two hosts under one identity.
        """
        if self.product_uuid and other.product_uuid and self.product_uuid != other.product_uuid:
            return False
        if self.macs and other.macs:
            return bool(set(self.macs) & set(other.macs))
        return True

    def derive_host_id(self, state_dir: Path) -> str:
        """Return the host id that this hardware gets where none is kept: the same at each boot.

        The state directory's path is part of it, so that several daemons on one machine are several hosts.
        """
        if not self.is_known:
            return str(uuid.uuid4())
        return str(uuid.uuid5(_NAMESPACE, "|".join((self.product_uuid, *self.macs, str(state_dir)))))

    def to_json(self) -> dict[str, Any]:
        """Return the form kept on disk."""
        return {"product_uuid": self.product_uuid, "macs": list(self.macs)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Hardware:
        """Return the fingerprint kept on disk; parts that make no sense count as unknown."""
        product, macs = document.get("product_uuid"), document.get("macs")
        known = macs[:_MAX_MACS] if isinstance(macs, list) else []
        return cls(
            product_uuid=product if isinstance(product, str) else "",
            macs=tuple(sorted(mac for mac in known if isinstance(mac, str) and _MAC.fullmatch(mac))),
        )


def read_hardware(
    root: Path = Path("/"), runtime: Path | None = None, interfaces: Mapping[str, str] | None = None
) -> Hardware:
    """Return this machine's fingerprint: the mainboard from sysfs under ``root``, and its network cards.

    The mainboard's UUID is readable by root alone, so the unit leaves a copy in the ``runtime`` directory.
    ``interfaces`` (name to address) stands in for the kernel's list.
    """
    product = _read_word(root / "sys/class/dmi/id/product_uuid")
    if not product and runtime is not None:
        product = _read_word(runtime / "product_uuid")
    if product in _SHARED_PRODUCT_UUIDS:
        product = ""
    macs = _kernel_interfaces() if interfaces is None else interfaces
    return Hardware(product[:36], _cards_of(macs, root / "sys/class/net"))


def _read_word(path: Path) -> str:
    """Return the file's one word in lower case; empty where it cannot be read."""
    try:
        return read_regular(path, _MAX_WORD_BYTES)[0].decode().strip().lower()
    except (OSError, UnicodeDecodeError):
        return ""


def _kernel_interfaces() -> dict[str, str]:
    """Return the addresses of this network namespace's interfaces, in netdevice(7)'s way.

    sysfs would do on a plain host, but in a container it may show the namespace of whoever mounted it.
    """
    found: dict[str, str] = {}
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(probe, _SIOCGIFHWADDR, struct.pack("256s", name.encode()[:15]))
                found[name] = answer[18:24].hex(":")
    return found


def _cards_of(interfaces: Mapping[str, str], sysfs: Path) -> tuple[str, ...]:
    """Return the addresses of network cards; of any interface but loopback where no card shows (containers).

    Bridges, veths and tunnels draw a new address at each boot: they count only when nothing better is there.
    """
    cards: set[str] = set()
    others: set[str] = set()
    for name, mac in interfaces.items():
        if _MAC.fullmatch(mac) and mac != "00:00:00:00:00:00":
            (cards if (sysfs / name / "device").exists() else others).add(mac)
    return tuple(sorted(cards or others)[:_MAX_MACS])
