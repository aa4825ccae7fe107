"""Cards that are made up: the NVML driver's words, from profiles of real cards and a file of faults.

For the demo, the simulator and tests. A profile holds what a real card said, idle and loaded, and says where
that is known from; what that card could not say is absent here too. Readings wobble by the randomness passed
in, so a seed repeats a run.
"""

from __future__ import annotations

import hashlib
import random
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from gpumesh.config.files import read_regular
from gpumesh.errors import ConfigError, DriverAbsentError, DriverError
from gpumesh.health.devices import DeviceInfo, DeviceState, DriverInfo, MigInstance, Process, Reading

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROFILES: Final = Path(__file__).parent / "profiles"
MAX_FAULTS_BYTES: Final = 1 << 16
_MIB: Final = 1 << 20
_POLL_S: Final = 0.05
_LOST: Final = 15
_DRIVER_NOT_LOADED: Final = 9
_FIRST_PID: Final = 4000
_READING_FIELDS: Final = frozenset(item.name for item in fields(Reading)) - {
    "processes",
    "nvlinks",
    "mig_instances",
}
_CARD_FAULTS: Final = _READING_FIELDS | {"lost", "missing", "hang", "busy", "xid"}
_DRIVER_FAULTS: Final = frozenset({"driver_absent", "driver_hang", "gpu"})


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of card: what it is, and what it says idle and loaded; its MIG instances have no UUID yet."""

    driver: DriverInfo
    card: DeviceInfo
    """Without index, UUID, serial and address, which belong to a single card."""
    has_serial: bool
    idle: Reading
    loaded: Reading


def profile_names() -> tuple[str, ...]:
    """Return the names that ``gpu.simulated`` takes."""
    return tuple(sorted(path.stem for path in PROFILES.glob("*.toml")))


def load_profile(name: str) -> Profile:
    """Return a card's profile. Errors: :class:`ConfigError` naming those there are."""
    if name not in profile_names():
        raise ConfigError(
            f'gpu.simulated: "{name}": no such profile; there are: ' + ", ".join(profile_names())
        )
    document = tomllib.loads((PROFILES / f"{name}.toml").read_text())
    card = _bytes_from_mib(document["card"])
    has_serial = bool(card.pop("has_serial", False))
    return Profile(
        driver=DriverInfo(**document["driver"], backend="simulated"),
        card=DeviceInfo(index=0, uuid="", pci_bus_id="", **card),
        has_serial=has_serial,
        idle=_reading(document["idle"]),
        loaded=_reading({**document["idle"], **document["loaded"]}),
    )


class SimulatedDriver:
    """The :class:`~gpumesh.health.devices.Driver` of made-up cards, one a profile.

    ``host`` makes the UUIDs: the same host and index is the same card, in every run. ``faults`` is a TOML
    file, read again when it changes::

        driver_absent = true        # or driver_hang
        [gpu.1]
        lost = true                 # or hang, missing (the count drops), busy (loaded)
        temperature_c = 97          # any value of a reading
        xid = 79                    # told once each time the file changes
    """

    def __init__(
        self,
        profiles: Sequence[str],
        *,
        host: str,
        random: random.Random,
        faults: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._profiles = [load_profile(name) for name in profiles]
        self._cards = [_make_card(profile, host, index) for index, profile in enumerate(self._profiles)]
        self._random = random
        self._faults = _FaultsFile(faults)
        self._clock = clock
        self._sleep = sleep
        self._opened_at = clock()
        self._told_xids: dict[int, tuple[object, int]] = {}

    def open(self) -> DriverInfo:
        """Attach; as absent or hung as the faults say."""
        self._block_while(lambda faults: bool(faults.get("driver_hang")))
        self._refuse_if_absent()
        if not self._profiles:
            return DriverInfo(
                driver_version=None, library_version=None, cuda_version=None, backend="simulated"
            )
        return self._profiles[0].driver

    def close(self) -> None:
        """Nothing is held."""

    def count(self) -> int:
        """Return how many cards there are now, without the missing ones."""
        self._block_while(lambda faults: bool(faults.get("driver_hang")))
        self._refuse_if_absent()
        return len(self._present())

    def pci_addresses(self) -> tuple[str, ...]:
        """Return where the cards would sit on the bus, those that the driver lost too."""
        return tuple(card.pci_bus_id for card in self._cards)

    def probe_device(self, index: int) -> DeviceState:
        """Look at one card; a faults file that is wrong is the card's error."""
        try:
            return self._look(index)
        except DriverError as error:
            return DeviceState(index, None, None, str(error), error.code)

    def _look(self, index: int) -> DeviceState:
        present = self._present()
        if not 0 <= index < len(present):
            return DeviceState(index, None, None, f"no GPU {index}: the driver sees {len(present)}", 2)
        place = present[index]
        self._block_while(lambda faults: bool(_of_card(faults, place).get("hang")))
        fault = _of_card(self._faults.read(), place)
        info = replace(self._cards[place], index=index)
        xids = self._new_xids(place, fault.get("xid"))
        if fault.get("lost"):
            return DeviceState(index, info, None, "GPU is lost (NVML 15)", _LOST, is_lost=True, xids=xids)
        profile = self._profiles[place]
        reading = self._wobble(profile.loaded if fault.get("busy") else profile.idle, place)
        changed = {key: value for key, value in fault.items() if key in _READING_FIELDS}
        return DeviceState(index, info, replace(reading, **changed), xids=xids)

    def _new_xids(self, place: int, xid: int | None) -> tuple[int, ...]:
        if xid is None or self._told_xids.get(place) == (self._faults.stamp, xid):
            return ()
        self._told_xids[place] = (self._faults.stamp, xid)
        return (int(xid),)

    def _present(self) -> list[int]:
        faults = self._faults.read()
        return [place for place in range(len(self._cards)) if not _of_card(faults, place).get("missing")]

    def _refuse_if_absent(self) -> None:
        if self._faults.read().get("driver_absent"):
            raise DriverAbsentError(
                "simulated driver is absent: take driver_absent out of the faults file",
                code=_DRIVER_NOT_LOADED,
                call="open",
            )

    def _block_while(self, is_hung: Callable[[Mapping[str, Any]], bool]) -> None:
        while is_hung(self._faults.read()):
            self._sleep(_POLL_S)

    def _wobble(self, reading: Reading, place: int) -> Reading:
        elapsed_s = max(0.0, self._clock() - self._opened_at)
        power_w = (
            None if reading.power_w is None else round(reading.power_w * self._random.uniform(0.98, 1.02), 2)
        )
        # A counter: it never falls, so it takes no part in the wobble.
        spent_mj = int((reading.power_w or 0.0) * elapsed_s * 1000)
        return replace(
            reading,
            temperature_c=_shifted(reading.temperature_c, self._random.choice((-1, 0, 0, 1))),
            power_w=power_w,
            energy_mj=None if reading.energy_mj is None else reading.energy_mj + spent_mj,
            mig_instances=_instances_of(self._cards[place], reading),
            processes=None
            if reading.processes is None
            else tuple(replace(item, pid=item.pid + 100 * place) for item in reading.processes),
        )


class _FaultsFile:
    """The faults, read again when the file's time or size has changed; no file, no faults."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.stamp: tuple[int, int, int] | None = None
        """Of the file as it was read last; None: there is none."""
        self._faults: Mapping[str, Any] = {}

    def read(self) -> Mapping[str, Any]:
        """Return the faults. Errors: DriverError naming the file and the key that is wrong."""
        if self._path is None:
            return self._faults
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp != self.stamp:
                data, _ = read_regular(self._path, MAX_FAULTS_BYTES)
                self._faults = _parse_faults(data, self._path)
                self.stamp = stamp
        except FileNotFoundError:
            self.stamp, self._faults = None, {}
        except OSError as error:
            raise DriverError(f"{self._path}: cannot be read: {error.strerror}") from error
        return self._faults


def _parse_faults(data: bytes, path: Path) -> Mapping[str, Any]:
    try:
        document = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DriverError(f"{path}: is not TOML: {error}") from error
    for key in document:
        if key not in _DRIVER_FAULTS:
            raise DriverError(f"{path}: {key}: unknown fault; known: {', '.join(sorted(_DRIVER_FAULTS))}")
    cards = document.get("gpu", {})
    if not isinstance(cards, dict):
        raise DriverError(f"{path}: gpu: must be tables, written [gpu.0]")
    for index, card in cards.items():
        if not index.isdecimal() or not isinstance(card, dict):
            raise DriverError(f"{path}: gpu.{index}: must be a table with the card's index, written [gpu.0]")
        for key, value in card.items():
            if key not in _CARD_FAULTS or not isinstance(value, bool | int | float):
                raise DriverError(
                    f"{path}: gpu.{index}.{key} = {value!r}: unknown fault or not a number or true/false; "
                    f"known: busy, hang, lost, missing, xid, or a value of a reading such as temperature_c"
                )
    return document


def _of_card(faults: Mapping[str, Any], place: int) -> Mapping[str, Any]:
    card: Mapping[str, Any] = faults.get("gpu", {}).get(str(place), {})
    return card


def _make_card(profile: Profile, host: str, place: int) -> DeviceInfo:
    digest = hashlib.sha256(f"{host}/{place}/{profile.card.name}".encode()).digest()
    return replace(
        profile.card,
        index=place,
        uuid=f"GPU-{uuid.UUID(bytes=digest[:16])}",
        pci_bus_id=f"00000000:{place + 1:02X}:00.0",
        minor=place,
        serial=str(int.from_bytes(digest[16:21], "big") + 10**12) if profile.has_serial else None,
    )


def _reading(table: Mapping[str, Any]) -> Reading:
    values = _bytes_from_mib(table)
    values["processes"] = tuple(
        _process(_FIRST_PID + place, words) for place, words in enumerate(table["processes"])
    )
    if "nvlinks" in values:
        values["nvlinks"] = tuple(values["nvlinks"])
    if "mig_instances" in values:
        values["mig_instances"] = tuple(
            MigInstance(uuid="", **_bytes_from_mib(item)) for item in values["mig_instances"]
        )
    return Reading(**values)


def _process(pid: int, words: Sequence[Any]) -> Process:
    name, kind, memory_mib, *instances = words
    gpu_instance, compute_instance = instances or (None, None)
    return Process(
        pid,
        kind,
        memory_mib * _MIB,
        name,
        gpu_instance=gpu_instance,
        compute_instance=compute_instance,
    )


def _instances_of(card: DeviceInfo, reading: Reading) -> tuple[MigInstance, ...] | None:
    """Return the reading's instances as this card's own."""
    if reading.mig_instances is None:
        return None
    return tuple(
        replace(item, uuid=f"MIG-{uuid.uuid5(uuid.NAMESPACE_OID, f'{card.uuid}/{place}')}")
        for place, item in enumerate(reading.mig_instances)
    )


def _bytes_from_mib(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        (key[: -len("_mib")] + "_bytes" if key.endswith("_mib") else key): (
            value * _MIB if key.endswith("_mib") else value
        )
        for key, value in table.items()
    }


def _shifted(value: int | None, by: int) -> int | None:
    return None if value is None else value + by
