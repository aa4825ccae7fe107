"""The driver is let go of on request: from the operator's command to the child's end and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpumesh.daemon.control import make_control_app
from gpumesh.daemon.release import ReleaseRequest
from gpumesh.errors import RequestError
from gpumesh.health.silences import Silence
from gpumesh.model import Admission
from tests.cli.conftest import Call, call, served  # noqa: F401 - a fixture

UNIX = 1_700_000_000.0


def request() -> ReleaseRequest:
    made = ReleaseRequest()
    made.ask(600.0, "driver 580", now=100.0, unix=UNIX)
    return made


def test_a_request_says_why_until_when_and_how_it_is_ended() -> None:
    words = request().words(100.0)
    assert "(driver 580) until 2023-11-14 22:23:20 UTC" in words
    assert "`gpumesh release --end`" in words


def test_a_request_that_was_forgotten_ends_by_itself() -> None:
    made = request()
    assert made.words(699.9)
    assert made.words(700.0) == ""
    with pytest.raises(RequestError, match="nobody has asked"):
        made.end(700.0)


def test_a_request_is_ended_and_asked_anew() -> None:
    made = request()
    made.end(110.0)
    assert made.words(110.0) == ""
    made.ask(60.0, "", now=120.0, unix=UNIX)
    assert made.words(121.0).startswith("the driver is let go of on request until ")


@pytest.mark.parametrize("for_s", [0.0, -5.0, 9.9, 86_400.5, float("nan"), float("inf")])
def test_a_request_without_a_sensible_end_is_refused_and_changes_nothing(for_s: float) -> None:
    made = request()
    before = made.words(100.0)
    with pytest.raises(RequestError, match="10 s to 24 h"):
        made.ask(for_s, "", now=100.0, unix=UNIX)
    assert made.words(100.0) == before


class Host:
    """A daemon as the control socket sees it."""

    def __init__(self) -> None:
        self.request = ReleaseRequest()
        self.asked: list[tuple[float, str]] = []
        self.is_stuck = False

    def set_operator_admission(self, admission: Admission, reason: str) -> None:
        raise AssertionError(f"nobody asked for {admission} ({reason})")

    def begin_leave(self) -> None:
        raise AssertionError("nobody asked to leave")

    def silence(self, check: str, gpu: str, for_s: float, reason: str) -> Silence:
        raise AssertionError(f"nobody silenced {check} on {gpu} for {for_s} ({reason})")

    def end_silence(self, check: str, gpu: str) -> None:
        raise AssertionError(f"nobody ended {check} on {gpu}")

    async def release(self, for_s: float, reason: str) -> tuple[bool, float]:
        self.request.ask(for_s, reason, now=100.0, unix=UNIX)
        self.asked.append((for_s, reason))
        return not self.is_stuck, self.request.until

    def end_release(self) -> None:
        self.request.end(100.0)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host()
    with served(make_control_app(made), tmp_path / "control.sock"):
        yield made


def test_the_command_asks_with_time_and_reason_and_says_until_when(
    host: Host,
    call: Call,  # noqa: F811
) -> None:
    outcome = call("release", "--for", "1h", "driver", "580")
    assert outcome.code == 0
    assert outcome.out.startswith("let go of until 2023-11-14T23:13:20")
    assert json.loads(call("release", "--json").out)["released"] is True
    assert host.asked == [(3600.0, "driver 580"), (900.0, "")]
    assert call("release", "--end").out == "the driver is taken up again\n"


def test_a_driver_that_is_stuck_is_not_said_to_be_let_go_of(
    host: Host,
    call: Call,  # noqa: F811
) -> None:
    host.is_stuck = True
    outcome = call("release")
    assert outcome.code == 1
    assert "not let go of yet" in outcome.out


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--for", "1"], "must be a number and a unit"),
        (["--for", "1s"], "10 s to 24 h"),
        (["--end"], "nobody has asked"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would_be_right(
    argv: list[str],
    told: str,
    call: Call,  # noqa: F811
) -> None:
    outcome = call("release", *argv)
    assert outcome.code != 0
    assert told in outcome.err
