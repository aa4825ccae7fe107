"""What the daemon keeps and holds: peers, admission, keys, the lock, the watchdog, the journal."""

import asyncio
import errno
import json
import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpumesh.daemon.admission import AdmissionBook
from gpumesh.daemon.fleetkeys import read_key_file
from gpumesh.daemon.lock import RunLock
from gpumesh.daemon.logs import JsonFormatter, PlainFormatter, with_fields
from gpumesh.daemon.meeting import Meeting
from gpumesh.daemon.notify import Notifier, watchdog_interval_s
from gpumesh.daemon.peercache import MAX_PEERS, load_peers, peers_of, save_peers
from gpumesh.daemon.shortages import Shortages
from gpumesh.daemon.statedir import StateDirectory
from gpumesh.errors import FleetKeyError, StateError
from gpumesh.model import Address, Admission, HostState, HostView, Reachability, View


def host(number: int, reachability: Reachability, *, is_self: bool = False) -> HostView:
    return HostView(
        host_id=f"h{number}",
        address=Address(f"10.0.0.{number}", 7977),
        epoch=1,
        incarnation=0,
        reachability=reachability,
        state=HostState.READY,
        reason="",
        state_since=0.0,
        evidence_age_s=0.0,
        is_self=is_self,
    )


def test_serf_333_failed_peers_are_kept_too(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    hosts = (
        host(1, Reachability.ALIVE, is_self=True),
        host(2, Reachability.FAILED),
        host(3, Reachability.ALIVE),
    )
    assert save_peers(state, peers_of(View("h1", 0.0, "f", hosts)))
    assert load_peers(state) == [Address("10.0.0.2", 7977), Address("10.0.0.3", 7977)]


def test_the_peer_cache_is_bounded_and_says_how_full_it_is(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    many = [host(number % 250, Reachability.ALIVE) for number in range(MAX_PEERS + 100)]
    hosts = tuple(
        replace(one, address=Address("10.0.0.1", number + 1), host_id=f"h{number}")
        for number, one in enumerate(many)
    )
    assert save_peers(state, peers_of(View("h1", 0.0, "f", hosts)))
    sizes = Meeting((), state).sizes
    assert sizes["size_peer_cache"] == sizes["limit_peer_cache"] == MAX_PEERS
    document = {"peers": [{"host": "10.0.0.1", "port": number + 1} for number in range(2 * MAX_PEERS)]}
    (tmp_path / "peers.json").write_text(json.dumps(document))
    assert len(load_peers(state)) == MAX_PEERS


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"peers": 3},
        {"peers": [None, 1, {"host": "name.example", "port": 1}, {"host": "1.2.3.4", "port": 0}]},
    ],
)
def test_a_peer_cache_that_makes_no_sense_gives_no_peers(tmp_path: Path, document: dict[str, object]) -> None:
    (tmp_path / "peers.json").write_text(json.dumps(document))
    assert load_peers(StateDirectory(tmp_path)) == []


def test_a_cordon_outlives_a_restart_and_outranks_sharing(tmp_path: Path) -> None:
    book = AdmissionBook(StateDirectory(tmp_path))
    assert book.current == (Admission.OPEN, "")
    book.set_operator(Admission.CORDONED, "new fan")
    again = AdmissionBook(StateDirectory(tmp_path))
    again.set_sharing(Admission.OCCUPIED, "a game runs")
    assert again.current == (Admission.CORDONED, "new fan")
    again.set_operator(Admission.OPEN, "")
    assert again.current == (Admission.OCCUPIED, "a game runs")
    assert AdmissionBook(StateDirectory(tmp_path)).current == (Admission.OPEN, "")


def test_a_key_open_to_everybody_is_refused(tmp_path: Path) -> None:
    key = tmp_path / "fleet.key"
    assert read_key_file(key) is None
    key.write_text("abc\n")
    key.chmod(0o640)
    assert read_key_file(key) == "abc\n"
    key.chmod(0o644)
    with pytest.raises(FleetKeyError, match="chmod 0640"):
        read_key_file(key)


def test_a_second_daemon_on_one_state_directory_is_refused_by_name(tmp_path: Path) -> None:
    hold = "import sys,time; from pathlib import Path; from gpumesh.daemon.lock import RunLock;"
    code = hold + "l=RunLock(Path(sys.argv[1])); l.take(); print('held', flush=True); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "lock")], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StateError, match=f"process {holder.pid}"):
            RunLock(tmp_path / "lock").take()
        holder.kill()
    lock = RunLock(tmp_path / "lock")
    lock.take()
    lock.release()


def test_the_watchdog_is_fed_by_progress_at_a_quarter_of_its_interval() -> None:
    sent: list[str] = []
    notifier = Notifier(sent.append, watchdog_s=20.0)
    for now in (0.0, 1.0, 4.9, 5.0, 9.0, 10.0):
        notifier.feed_watchdog(now)
    assert sent == ["WATCHDOG=1"] * 3


def test_no_watchdog_is_fed_where_systemd_set_none() -> None:
    assert watchdog_interval_s({}) is None
    assert watchdog_interval_s({"WATCHDOG_USEC": "x"}) is None
    assert watchdog_interval_s({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}) is None
    assert watchdog_interval_s({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}) == 30.0


def test_an_unchanged_status_is_not_repeated() -> None:
    sent: list[str] = []
    notifier = Notifier(sent.append, watchdog_s=None)
    for text in ("a", "a", "b"):
        notifier.status(text)
    assert sent == ["STATUS=a", "STATUS=b"]


def test_a_message_cannot_forge_a_second_journal_line() -> None:
    record = logging.LogRecord("n", logging.WARNING, "f", 1, "host %s", ("x\n<0>forged",), None)
    assert PlainFormatter(with_priority=True).format(record) == "<4>host x | <0>forged"


def test_json_lines_carry_their_fields() -> None:
    record = logging.LogRecord("n", logging.INFO, "f", 1, "m", (), None)
    vars(record).update(with_fields(event="host.failed"))
    document = json.loads(JsonFormatter().format(record))
    assert (document["message"], document["event"], document["level"]) == ("m", "host.failed", "info")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["peers.json", "peers.tmp"])
@pytest.mark.parametrize("kind", ["pipe", "link", "huge"])
def test_what_is_no_document_is_neither_waited_for_nor_written_through(
    tmp_path: Path, name: str, kind: str
) -> None:
    (tmp_path / "elsewhere").write_text("precious")
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    state = StateDirectory(tmp_path)
    assert load_peers(state) == []
    assert save_peers(state, [Address("10.0.0.1", 7977)])
    assert load_peers(state) == [Address("10.0.0.1", 7977)]
    assert state.losses == {}
    if (tmp_path / "elsewhere").exists():
        assert (tmp_path / "elsewhere").read_text() == "precious"


@pytest.mark.timeout(20)
def test_a_lock_that_is_a_pipe_or_on_a_full_disk_stops_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    lock = RunLock(tmp_path / "lock")
    lock.take()
    lock.release()
    full = RunLock(Path("/dev/full"))
    full.take()
    full.release()


@pytest.mark.timeout(20)
def test_a_key_file_that_is_a_pipe_is_refused_in_words(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fleet.key", 0o600)
    with pytest.raises(FleetKeyError, match="not a regular file"):
        read_key_file(tmp_path / "fleet.key")


def test_a_damaged_document_is_said_to_be_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "admission.json").write_bytes(b"\0\1\2")
    assert AdmissionBook(StateDirectory(tmp_path)).current[0] is Admission.OPEN
    assert "admission.json: is damaged" in caplog.text
    assert "`gpumesh cordon` it again" in caplog.text
    assert (tmp_path / "admission.damaged").read_bytes() == b"\0\1\2"


@pytest.mark.parametrize("word", ["closed", ["cordoned"], None, 3])
def test_an_admission_that_is_none_is_said_to_be_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, word: object
) -> None:
    (tmp_path / "admission.json").write_text(json.dumps({"admission": word}))
    assert AdmissionBook(StateDirectory(tmp_path)).current[0] is Admission.OPEN
    assert "is no admission" in caplog.text


async def test_a_shortage_of_files_is_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    loop, shortages = asyncio.get_running_loop(), Shortages()
    for _ in range(100):
        shortages(loop, {"message": "accept", "exception": OSError(errno.EMFILE, "Too many open files")})
    assert [record.getMessage() for record in caplog.records if "LimitNOFILE" in record.getMessage()] == [
        caplog.records[0].getMessage()
    ]
    shortages(loop, {"message": "another fault", "exception": KeyError("x")})
    assert "another fault" in caplog.text
