"""Silences from the operator's command to the state directory and back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gpumesh.config import Config
from gpumesh.daemon.control import make_control_app
from gpumesh.daemon.silencebook import SilenceBook, subject_named
from gpumesh.daemon.statedir import StateDirectory
from gpumesh.errors import RequestError
from gpumesh.health.silences import Silence
from gpumesh.model import Admission, Gpu
from gpumesh.status.app import make_app
from tests.cli.conftest import Call, call, served  # noqa: F401 - a fixture
from tests.health.builders import uuid
from tests.samples.fleet import SampleSource

GPUS = (Gpu(uuid(0), 0, "A"), Gpu(uuid(1), 1, "B"), Gpu("GPU-gone", None, "C"))


class Host:
    """A daemon as the control socket sees it."""

    def __init__(self, state: Path) -> None:
        self.book = SilenceBook(StateDirectory(state))

    def set_operator_admission(self, admission: Admission, reason: str) -> None:
        raise AssertionError(f"nobody asked for {admission} ({reason})")

    def begin_leave(self) -> None:
        raise AssertionError("nobody asked to leave")

    def silence(self, check: str, gpu: str, for_s: float, reason: str) -> Silence:
        return self.book.add(check, subject_named(gpu, GPUS), for_s, reason)

    def end_silence(self, check: str, gpu: str) -> None:
        self.book.end(check, subject_named(gpu, GPUS))


class Face(SampleSource):
    """What the HTTP face shows of that host."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self.host = host

    def silences(self) -> Sequence[Silence]:
        return self.host.book.standing()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path / "state")
    with served(make_control_app(made), tmp_path / "control.sock"):
        yield made


@pytest.fixture
def api(host: Host) -> Iterator[str]:
    with served(make_app(Face(host), Config())) as url:
        yield url


def test_a_silence_is_made_listed_kept_and_ended(
    host: Host,
    api: str,
    call: Call,  # noqa: F811
    tmp_path: Path,
) -> None:
    assert call("silence", "--list", "--api", api).out == "nothing is silenced\n"
    done = call("silence", "pcie/width", "--for", "2h", "--gpu", "1", "--reason", "riser swapped")
    assert done.code == 0
    assert done.out.startswith("pcie/width is silenced until 20")
    kept = SilenceBook(StateDirectory(tmp_path / "state")).standing()
    assert [(item.check, item.subject, item.reason) for item in kept] == [
        ("pcie/width", f"gpu/{uuid(1)}", "riser swapped")
    ]
    assert kept[0] == host.book.standing()[0]
    listed = json.loads(call("silence", "--list", "--json", "--api", api).out)["silences"]
    assert listed[0]["subject"] == f"gpu/{uuid(1)}"
    assert "riser swapped" in call("silence", "--list", "--api", api).out
    assert call("silence", "pcie/width", "--gpu", "1", "--end").code == 0
    assert host.book.standing() == ()
    assert SilenceBook(StateDirectory(tmp_path / "state")).standing() == ()


def test_what_is_silenced_is_read_without_the_control_socket(
    api: str,
    call: Call,  # noqa: F811
    tmp_path: Path,
) -> None:
    call("silence", "pcie", "--for", "2h", "--reason", "riser swapped")
    (tmp_path / "control.sock").chmod(0o000)
    (tmp_path / "control.sock").unlink()
    outcome = call("silence", "--list", "--api", api)
    assert (outcome.code, "riser swapped" in outcome.out) == (0, True)


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["pcie", "--for", "2h"], "say for how long and why"),
        (["pcie", "--reason", "x"], "say for how long and why"),
        (["pcie", "--for", "2", "--reason", "x"], "must be a number and a unit"),
        (["pcie", "--for", "9000h", "--reason", "x"], "to 30 days"),
        (["pci", "--for", "2h", "--reason", "x"], "no such check; there are: driver"),
        (
            ["pcie", "--for", "2h", "--reason", "x", "--gpu", "7"],
            "names 0 cards of this host; there are: 0 GPU-",
        ),
        (["pcie", "--end"], "pcie is not silenced"),
        ([], "which check?"),
    ],
)
def test_what_cannot_be_silenced_is_refused_with_what_would_be_right(
    argv: list[str],
    told: str,
    call: Call,  # noqa: F811
) -> None:
    outcome = call("silence", *argv)
    assert outcome.code == 2
    assert told in outcome.err


def test_a_card_is_meant_by_uuid_by_its_start_or_by_index() -> None:
    assert subject_named("", GPUS) == ""
    assert subject_named("host", GPUS) == "host"
    for name in (uuid(1), "1", uuid(1)[:12]):
        assert subject_named(name, GPUS) == f"gpu/{uuid(1)}"
    for name in ("GPU-0000", "2", "GPU-none"):
        with pytest.raises(RequestError, match="cards of this host"):
            subject_named(name, GPUS)
