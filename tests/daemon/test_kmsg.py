"""The kernel's log as /dev/kmsg hands it out: a record a read, escapes, floods, refusals."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from gpumesh.daemon.kmsg import MAX_LINES, MAX_READS, KernelLog

XID = "NVRM: Xid (PCI:0000:01:00): 31, pid=7, name=a"


def record(sequence: int, text: str, *, at_us: int = 1_500_000) -> bytes:
    return f"4,{sequence},{at_us},-;{text}\n".encode()


class Kernel:
    """Stands in for reads of /dev/kmsg: a record or an errno each; then there is nothing for now."""

    def __init__(self, *answers: bytes | int) -> None:
        self.answers: Iterator[bytes | int] = iter(answers)
        self.num_reads = 0

    def add(self, answers: Iterable[bytes | int]) -> None:
        self.answers = iter(answers)

    def __call__(self, _descriptor: int, _size: int) -> bytes:
        self.num_reads += 1
        answer = next(self.answers, errno.EAGAIN)
        if isinstance(answer, int):
            raise OSError(answer, os.strerror(answer))
        return answer


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[Callable[[Kernel], KernelLog]]:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").touch()
    opened: list[KernelLog] = []

    def make(kernel: Kernel) -> KernelLog:
        opened.append(KernelLog(tmp_path, read=kernel, monotonic=lambda: 10.0))
        return opened[-1]

    yield make
    for log in opened:
        log.close()


def texts(log: KernelLog) -> list[str]:
    return [line.text for line in log.read_new(10.0).lines]


def test_the_drivers_lines_are_handed_out_once_and_no_others(open_log: Callable[[Kernel], KernelLog]) -> None:
    kernel = Kernel(record(0, "Linux version 6.1"), record(1, XID), record(2, "usb 1-1: new device"))
    log = open_log(kernel)
    assert texts(log) == [XID]
    assert texts(log) == []
    kernel.add([record(3, XID + "2")])
    assert texts(log) == [XID + "2"]


def test_the_kernels_stamp_becomes_an_instant_on_the_boot_clock(
    open_log: Callable[[Kernel], KernelLog],
) -> None:
    log = open_log(Kernel(record(0, XID, at_us=4_000_000)))
    (line,) = log.read_new(110.0).lines
    assert line.at == pytest.approx(104.0), "a hundred seconds of suspend"


def test_a_record_of_several_lines_is_one_text_without_escapes_or_fields(
    open_log: Callable[[Kernel], KernelLog],
) -> None:
    text = r"NVRM: The NVIDIA GPU 0000:01:00.0\x0aNVRM: fallen off the bus \xe2\x1b[31m"
    log = open_log(Kernel(record(0, text + "\n SUBSYSTEM=pci\n DEVICE=+pci:0000:01:00.0")))
    assert texts(log) == ["NVRM: The NVIDIA GPU 0000:01:00.0 NVRM: fallen off the bus   [31m"]


def test_a_flood_is_read_in_bounded_bites(open_log: Callable[[Kernel], KernelLog]) -> None:
    kernel = Kernel(*(record(number, XID) for number in range(3 * MAX_LINES)))
    log = open_log(kernel)
    assert [len(texts(log)) for _ in range(4)] == [MAX_LINES, MAX_LINES, MAX_LINES, 0]
    chatter = open_log(Kernel(*(record(number, "x") for number in range(2 * MAX_READS))))
    assert texts(chatter) == []
    assert chatter.num_lost == 0


def test_what_a_flood_overwrote_is_counted_and_reading_goes_on(
    open_log: Callable[[Kernel], KernelLog],
) -> None:
    log = open_log(Kernel(record(0, XID), errno.EPIPE, record(700, XID)))
    assert len(texts(log)) == 2
    assert log.num_lost == 699


def test_nothing_but_overruns_ends_too(open_log: Callable[[Kernel], KernelLog]) -> None:
    kernel = Kernel(*[errno.EPIPE] * (MAX_READS + 5))
    assert texts(open_log(kernel)) == []
    assert kernel.num_reads == MAX_READS


def test_after_a_fault_it_is_read_from_the_boot_again_and_nothing_is_told_twice(
    open_log: Callable[[Kernel], KernelLog],
) -> None:
    kernel = Kernel(record(0, XID), errno.EIO)
    log = open_log(kernel)
    told = log.read_new(10.0)
    assert [line.text for line in told.lines] == [XID]
    assert "Input/output error" in told.error
    kernel.add([record(0, XID), record(1, XID + "2")])
    assert texts(log) == [XID + "2"]


def test_garbage_is_skipped(open_log: Callable[[Kernel], KernelLog]) -> None:
    log = open_log(Kernel(b"\xff\xfe\n", b"NVRM: Xid\n", b"\n", b"4,x,1,-;NVRM\n", record(5, XID)))
    assert texts(log) == [XID]


def test_no_log_and_no_permission_are_told_and_tried_again(tmp_path: Path) -> None:
    log = KernelLog(tmp_path)
    assert log.read_new(0.0).error == f"{tmp_path}/dev/kmsg: No such file or directory"
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_bytes(record(0, "boot") + record(1, XID)[:20])
    assert log.read_new(0.0).lines == ()
    with (tmp_path / "dev/kmsg").open("ab") as file:
        file.write(record(1, XID)[20:])
    assert texts(log) == [XID], "a plain file does too, cut anywhere"
    log.close()


def test_a_console_in_the_logs_place_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").symlink_to("/dev/null")
    assert "something else" in KernelLog(tmp_path).read_new(0.0).error
