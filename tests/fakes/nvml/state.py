"""Write the file that the fake driver library answers from; README.md has its grammar.

As a script: ``python -m tests.fakes.nvml.state --gpus rtx-4080-super,h100 --out FILE`` writes a new one, and
without ``--gpus`` changes the one that is there (``--fault``, ``--set``, ``--xid``, ``--clear-faults``).
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import uuid as uuids
from pathlib import Path

from tests.fakes.nvml import profile as profiles
from tests.fakes.nvml.build import SOURCES, exported_calls

_NAMESPACE = uuids.UUID("6f6a7c52-8d1c-4b0e-9d0a-5a4d1f0c2b77")
_MAX_GPUS = 64
_KEY = re.compile(r'^(DRIVER|GPU)_(?:TEXT|NUMBER)\("(\w+)"\)', re.MULTILINE)
_ITEM = re.compile(r"(process|field|mig) [1-9]\d*")


def _known_keys(owner: str) -> frozenset[str]:
    text = (SOURCES / "fake_nvml_keys.inc").read_text()
    return frozenset(name for whose, name in _KEY.findall(text) if whose == owner)


DRIVER_KEYS = _known_keys("DRIVER")
GPU_KEYS = _known_keys("GPU")


class FakeDriver:
    """One host's driver and cards. Every change is in the file, whole, when the method returns.

    A running process that has the fake library loaded sees it at its next call, and out of a hang at once.
    Cards are named by their slot in the file; NVML's index is the rank among the slots that are there.

    ``host`` goes into the UUIDs and serial numbers that are made up, so that no two hosts share one.
    """

    def __init__(self, path: Path, *, host: str = "host") -> None:
        self.path = path
        self.host = host
        self._driver: dict[str, str] = {}
        self._gpus: dict[int, dict[str, str]] = {}
        self._profiles: dict[int, str] = {}
        self._faults: list[str] = []
        self._xids: list[str] = []

    @classmethod
    def from_file(cls, path: Path, *, host: str = "host") -> FakeDriver:
        """Take up what another process has written.

        :raises FileNotFoundError: there is no such file
        :raises ValueError: a line is none of the grammar
        """
        driver = cls(path, host=host)
        for line in path.read_text().splitlines():
            driver._take_up(line.strip())
        return driver

    def _take_up(self, line: str) -> None:
        if found := re.fullmatch(r"# gpu (\d+) is like (\S+)", line):
            self._profiles[int(found[1])] = found[2]
            return
        if not line or line.startswith("#"):
            return
        if line.startswith("fault "):
            self._faults.append(line)
        elif line.startswith("xid "):
            self._xids.append(line)
        elif found := re.fullmatch(r"gpu (\d+) ([^=]+?)\s*=\s*(.*)", line):
            self._gpus.setdefault(int(found[1]), {})[found[2]] = found[3]
        elif found := re.fullmatch(r"(\w+)\s*=\s*(.*)", line):
            self._driver[found[1]] = found[2]
        else:
            raise ValueError(f"{self.path}: not a line of a state file: {line!r}")

    # -- the driver and its cards

    @property
    def slots(self) -> tuple[int, ...]:
        """Slots that hold a card, in the order of their NVML indices."""
        return tuple(sorted(self._gpus))

    def set_driver(self, key: str, value: str | int) -> None:
        """Set ``driver``, ``nvml`` or ``cuda``.

        :raises ValueError: another key
        """
        if key not in DRIVER_KEYS:
            raise ValueError(f"{key!r} is none of {', '.join(sorted(DRIVER_KEYS))}")
        self._driver[key] = str(value)
        self.write()

    def add_gpu(
        self,
        profile: str = "rtx-4080-super",
        *,
        uuid: str | None = None,
        load: str = "idle",
        slot: int | None = None,
        pci_bus_id: str | None = None,
    ) -> int:
        """Plug in a card like the captured one and return its slot, the next free one unless given.

        The first card's profile also gives the driver's versions, unless they are set already.

        :raises ValueError: no such profile or load, or the slot is taken
        """
        kind = profiles.read(profile)
        if slot is None:
            slot = max(self._gpus, default=-1) + 1
        if slot in self._gpus or not 0 <= slot < _MAX_GPUS:
            raise ValueError(f"slot {slot} is not free: take one of 0 to {_MAX_GPUS - 1} that holds no card")
        identity = uuids.uuid5(_NAMESPACE, f"{self.host}/{slot}/{profile}")
        settings = {**kind.card, **kind.readings(load)}
        settings["uuid"] = uuid or f"GPU-{identity}"
        settings["minor_number"] = str(slot)
        settings["pci_bus_id"] = pci_bus_id or self._free_address(settings["pci_bus_id"])
        if "serial" in settings:
            settings["serial"] = f"{identity.int % 10**13:013}"
        self._gpus[slot] = settings
        self._profiles[slot] = profile
        for key, value in kind.driver.items():
            self._driver.setdefault(key, value)
        self.write()
        return slot

    def _free_address(self, wanted: str) -> str:
        taken = {settings.get("pci_bus_id") for settings in self._gpus.values()}
        domain, bus, device = wanted.split(":")
        while wanted in taken:
            bus = f"{(int(bus, 16) + 1) % 256:02X}"
            wanted = f"{domain}:{bus}:{device}"
        return wanted

    def remove_gpu(self, slot: int) -> None:
        """Take the card out of the file: it is listed no more, and handles to it are lost."""
        del self._gpus[slot]
        self._profiles.pop(slot, None)
        self.write()

    def set(self, slot: int, key: str, value: str | int | None) -> None:
        """Set a card's reading; None takes it away, so that NVML says "not supported".

        "error N" as a value has the call return N. Values are not judged: absurd ones are welcome.

        :raises KeyError: no card in the slot
        :raises ValueError: the library knows no such key
        """
        settings = self._gpus[slot]
        if key not in GPU_KEYS and not _ITEM.fullmatch(key):
            raise ValueError(f"{key!r} is no key of a card; fake_nvml_keys.inc has them all")
        if value is None:
            settings.pop(key, None)
        else:
            settings[key] = str(value)
        self.write()

    def get(self, slot: int, key: str) -> str | None:
        """What the file says of a card, None where it says nothing."""
        return self._gpus[slot].get(key)

    def put_under(self, slot: int, load: str) -> None:
        """Change the card's readings to those of its profile ``idle`` or ``loaded``.

        :raises KeyError: the card was not plugged in with a profile
        """
        settings = self._gpus[slot]
        kind = profiles.read(self._profiles[slot])
        for stale in [*kind.idle, *kind.loaded]:
            settings.pop(stale, None)
        settings.update(kind.readings(load))
        self.write()

    # -- what goes wrong

    def fault(self, statement: str) -> None:
        """Add a fault in the file's own words, without the leading "fault".

        :raises ValueError: it names a function that the fake does not have
        """
        if (found := re.search(r"\bcall (\S+)", statement)) and found[1] not in {"*", *exported_calls()}:
            raise ValueError(f"the fake library has no {found[1]}")
        self._faults.append(f"fault {statement}")
        self.write()

    def fail(self, call: str, code: int, *, slot: int | None = None) -> None:
        """Have a function return the code: for one card, or for all and for the driver itself."""
        self.fault(f"{_whose(slot)}call {call} = {code}")

    def hang(self, call: str, *, slot: int | None = None, hard: bool = False) -> None:
        """Have a function not return until the fault is cleared; ``hard`` holds SIGTERM back till then."""
        self.fault(f"{_whose(slot)}call {call} {'hang_hard' if hard else 'hang'}")

    def delay(self, call: str, latency_s: float, *, slot: int | None = None) -> None:
        """Have a function take that long, each time."""
        self.fault(f"{_whose(slot)}call {call} latency_ms = {round(latency_s * 1000)}")

    def fail_init(self, code: int) -> None:
        """Have the initialisation return the code."""
        self.fault(f"init = {code}")

    def hang_init(self, *, hard: bool = False) -> None:
        """Have the initialisation not return until the fault is cleared, as :meth:`hang` does."""
        self.fault("init hang_hard" if hard else "init hang")

    def fail_handle(self, slot: int, code: int) -> None:
        """Have the card fail where its handle is asked for, though it is counted."""
        self.fault(f"gpu {slot} handle = {code}")

    def fail_field(self, field: int, code: int, *, slot: int | None = None) -> None:
        """Have one field value carry the code, in a call that succeeds."""
        self.fault(f"{_whose(slot)}field {field} = {code}")

    def lose(self, slot: int) -> None:
        """Let the card fall off the bus: still listed, but each call on its handle says it is lost."""
        self.fault(f"gpu {slot} lost")

    def limit_count(self, num_gpus: int) -> None:
        """Have the driver list the first cards only."""
        self.fault(f"count = {num_gpus}")

    def clear_faults(self) -> None:
        """Heal everything that the methods above have done. Xids stay: they have happened."""
        self._faults.clear()
        self.write()

    def xid(self, slot: int, code: int) -> None:
        """Let an Xid happen, once for each event set that watches the card by now."""
        last = max((int(line.split()[-1]) for line in self._xids), default=0)
        self._xids.append(f"xid gpu {slot} {code} {last + 1}")
        self.write()

    # -- the file

    def text(self) -> str:
        """The whole file as it is written."""
        lines = [f"{key} = {value}" for key, value in self._driver.items()]
        for slot, settings in sorted(self._gpus.items()):
            if slot in self._profiles:
                lines.append(f"# gpu {slot} is like {self._profiles[slot]}")
            lines += [f"gpu {slot} {key} = {value}" for key, value in settings.items()]
        return "\n".join([*lines, *self._faults, *self._xids, ""])

    def write(self) -> None:
        """Replace the file in one step; readable for all, since the daemon runs as a user of its own."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, aside = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(self.text())
        Path(aside).replace(self.path)

    def unload(self) -> None:
        """Take the driver away: initialisation says "driver not loaded" until the next change."""
        self.path.unlink(missing_ok=True)


def _whose(slot: int | None) -> str:
    return "" if slot is None else f"gpu {slot} "


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="write or change a state file of the fake NVIDIA driver")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--gpus", metavar="PROFILE,...", help=f"a new file; of {', '.join(profiles.names())}")
    parser.add_argument("--load", default="idle", choices=("idle", "loaded"))
    parser.add_argument("--host", default="host", help="goes into UUIDs: give each host another one")
    parser.add_argument("--clear-faults", action="store_true")
    parser.add_argument("--set", nargs=3, action="append", default=[], metavar=("SLOT", "KEY", "VALUE"))
    parser.add_argument(
        "--fault", action="append", default=[], metavar="STATEMENT", help="as in 'gpu 0 lost'"
    )
    parser.add_argument("--xid", nargs=2, type=int, action="append", default=[], metavar=("SLOT", "CODE"))
    return parser.parse_args()


def main() -> None:
    options = _options()
    if options.gpus is None:
        driver = FakeDriver.from_file(options.out, host=options.host)
    else:
        driver = FakeDriver(options.out, host=options.host)
        for profile in options.gpus.split(","):
            driver.add_gpu(profile, load=options.load)
    if options.clear_faults:
        driver.clear_faults()
    for slot, key, value in options.set:
        driver.set(int(slot), key, value)
    for statement in options.fault:
        driver.fault(statement)
    for slot, code in options.xid:
        driver.xid(slot, code)
    driver.write()


if __name__ == "__main__":
    main()
