import json
from pathlib import Path

import pytest

from gpumesh.daemon.hardware import Hardware, read_hardware
from gpumesh.daemon.identity import Claim, claim_identity, keep_epoch, read_boot_id
from gpumesh.daemon.statedir import StateDirectory

BOARD_A = "4c4c4544-0043-3510-8052-b4c04f4a4d31"
BOARD_B = "4c4c4544-0043-3510-8052-b4c04f4a4d32"
HARDWARE = Hardware(BOARD_A, ("52:54:00:00:00:01",))


def claim(path: Path, hardware: Hardware = HARDWARE, volatile: Path | None = None) -> Claim:
    return claim_identity(StateDirectory(path, volatile), hardware, name="h", boot_id="b")


def test_the_host_id_is_kept_and_the_epoch_grows_with_each_start(tmp_path: Path) -> None:
    runs = [claim(tmp_path).identity for _ in range(3)]
    assert len({run.host_id for run in runs}) == 1
    assert [run.epoch for run in runs] == [1, 2, 3]
    assert [run.is_first_run for run in runs] == [True, False, False]


def test_a_host_that_ran_alone_before_is_new_to_the_fleet_it_joins(tmp_path: Path) -> None:
    first = [
        claim_identity(StateDirectory(tmp_path), HARDWARE, name="h", boot_id="b", fleet=fleet)
        for fleet in ("", "cafe", "cafe", "other")
    ]
    assert [taken.identity.is_first_run for taken in first] == [True, True, False, True]
    assert [taken.identity.epoch for taken in first] == [1, 2, 3, 4]


def test_forty_machines_from_one_image_are_forty_hosts(tmp_path: Path) -> None:
    claim(tmp_path)
    image = (tmp_path / "identity.json").read_bytes()
    ids = set()
    for number in range(40):
        clone = tmp_path / f"pc{number}"
        clone.mkdir()
        (clone / "identity.json").write_bytes(image)
        taken = claim(clone, Hardware(BOARD_A, (f"52:54:00:00:01:{number:02x}",)))
        ids.add(taken.identity.host_id)
        assert taken.identity.is_first_run
        assert "cloned disk or image" in taken.notes[0]
    assert len(ids) == 40


def test_a_diskless_machine_gets_the_same_id_at_each_boot(tmp_path: Path) -> None:
    first = claim(tmp_path / "state")
    (tmp_path / "state/identity.json").unlink()
    assert claim(tmp_path / "state").identity.host_id == first.identity.host_id


def test_two_state_directories_on_one_machine_are_two_hosts(tmp_path: Path) -> None:
    assert claim(tmp_path / "a").identity.host_id != claim(tmp_path / "b").identity.host_id


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (Hardware(BOARD_A, ("52:54:00:00:00:01", "52:54:00:00:00:09")), True),  # a card was added
        (Hardware(BOARD_A, ("52:54:00:00:00:02",)), False),  # a board series that shares its UUID
        (Hardware(BOARD_B, ("52:54:00:00:00:01",)), False),  # a card moved to another machine
        (Hardware("", ("52:54:00:00:00:01",)), True),
        (Hardware(BOARD_A, ()), True),  # the network driver loads late
        (Hardware(), True),
    ],
)
def test_what_counts_as_the_same_machine(other: Hardware, *, is_same: bool) -> None:
    assert HARDWARE.is_same_machine(other) is is_same
    assert other.is_same_machine(HARDWARE) is is_same


def test_a_full_disk_does_not_repeat_an_epoch_within_a_boot(tmp_path: Path) -> None:
    durable, volatile = tmp_path / "lib", tmp_path / "run"
    assert claim(durable, volatile=volatile).identity.epoch == 1
    (durable / "identity.tmp").mkdir()  # no temporary file can be made: as on a full or read-only disk
    second = claim(durable, volatile=volatile)
    assert second.identity.epoch == 2
    assert any("epoch is not kept" in note for note in second.notes)
    assert claim(durable, volatile=volatile).identity.epoch == 3


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b"\xff", b"null", b'{"host_id": "x", "epoch": 1}', b'{"epoch": -1}', b"[" * 100_000],
)
def test_a_damaged_identity_gives_the_same_hardware_the_same_id(tmp_path: Path, damage: bytes) -> None:
    before = claim(tmp_path).identity.host_id
    (tmp_path / "identity.json").write_bytes(damage)
    assert claim(tmp_path).identity.host_id == before


def test_a_damaged_file_is_set_aside_and_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "identity.json").write_bytes(b"{half")
    state = StateDirectory(tmp_path)
    assert state.read("identity") is None
    assert (tmp_path / "identity.damaged").read_bytes() == b"{half"
    assert "set aside" in state.losses["identity"]


def test_a_write_is_whole_or_not_at_all(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    assert state.write("peers", {"a": 1}, loses="peers")
    (tmp_path / "peers.tmp").mkdir()
    assert not state.write("peers", {"a": 2}, loses="the peers are not kept")
    assert json.loads((tmp_path / "peers.json").read_text()) == {"a": 1}
    assert "the peers are not kept" in state.losses["peers"]
    (tmp_path / "peers.tmp").rmdir()
    assert state.write("peers", {"a": 3}, loses="")
    assert state.losses == {}


def test_virtual_interfaces_count_only_where_no_card_shows(tmp_path: Path) -> None:
    dmi, net = tmp_path / "sys/class/dmi/id", tmp_path / "sys/class/net"
    dmi.mkdir(parents=True)
    (dmi / "product_uuid").write_text(BOARD_A.upper() + "\n")
    interfaces = {"lo": "00:00:00:00:00:00", "docker0": "02:42:00:00:00:01"}
    assert read_hardware(tmp_path, interfaces=interfaces) == Hardware(BOARD_A, ("02:42:00:00:00:01",))
    (net / "eth0/device").mkdir(parents=True)
    interfaces["eth0"] = "52:54:00:00:00:01"
    assert read_hardware(tmp_path, interfaces=interfaces) == HARDWARE


def test_the_kernels_own_interfaces_are_read() -> None:
    shown = {path.read_text().strip() for path in Path("/sys/class/net").glob("*/address")}
    assert set(read_hardware().macs) <= shown


def test_a_product_uuid_that_vendors_repeat_tells_nothing(tmp_path: Path) -> None:
    runtime = tmp_path / "run"
    runtime.mkdir()
    (runtime / "product_uuid").write_text("03000200-0400-0500-0006-000700080009\n")
    assert read_hardware(tmp_path, runtime, {}) == Hardware()
    (runtime / "product_uuid").write_text(BOARD_B)
    assert read_hardware(tmp_path, runtime, {}).product_uuid == BOARD_B


def test_an_unknown_boot_id_is_a_new_boot_each_time(tmp_path: Path) -> None:
    assert read_boot_id(tmp_path) != read_boot_id(tmp_path)


def test_an_epoch_that_the_fleet_remembered_is_kept_for_the_next_start(tmp_path: Path) -> None:
    taken = claim(tmp_path).identity
    raised = keep_epoch(StateDirectory(tmp_path), taken, 8)
    assert (raised.host_id, raised.epoch) == (taken.host_id, 8)
    assert claim(tmp_path).identity.epoch == 9
