from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from gpumesh.daemon.clock import boot_time
from gpumesh.daemon.hangbook import HangBook
from gpumesh.daemon.statedir import StateDirectory
from tests.health.builders import absent, answered, geforce, hung

BOOT = "b0070000-0000-4000-8000-000000000001"
CALL = "nvmlDeviceGetTemperature"


def book(path: Path, boot_id: str = BOOT) -> HangBook:
    return HangBook(StateDirectory(path), boot_id)


def kept(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((path / "hang.json").read_text())
    return document


def test_a_hang_is_on_disk_when_its_look_is_handed_on(tmp_path: Path) -> None:
    now = boot_time()
    book(tmp_path).handle_probe(hung(), now)
    document = kept(tmp_path)
    assert (document["call"], document["boot_id"]) == (CALL, BOOT)
    assert document["since_at"] == pytest.approx(now - 5.0)


def test_every_later_run_tells_it_with_its_first_instant(tmp_path: Path) -> None:
    now = boot_time()
    book(tmp_path).handle_probe(hung(), now)
    first = kept(tmp_path)
    for number in range(1, 4):
        later = book(tmp_path)
        probe = later.before_the_first_look(now + 60.0 * number)
        assert probe is not None
        assert (probe.is_hung, probe.call) == (True, CALL)
        assert probe.hung_for_s == pytest.approx(5.0 + 60.0 * number)
        later.handle_probe(hung(), now + 60.0 * number + 5.0)
        assert kept(tmp_path) == first


def test_nothing_is_written_while_nothing_changes_and_nothing_stays_once_the_driver_answers(
    tmp_path: Path,
) -> None:
    now = boot_time()
    watch = book(tmp_path)
    watch.handle_probe(hung(), now)
    written_at = (tmp_path / "hang.json").stat().st_mtime_ns
    watch.handle_probe(hung(), now + 5.0)
    assert (tmp_path / "hang.json").stat().st_mtime_ns == written_at
    watch.handle_probe(answered([geforce(0)]), now + 10.0)
    assert list(tmp_path.iterdir()) == []
    assert book(tmp_path).before_the_first_look(now + 15.0) is None


def test_a_reboot_ends_a_hang_and_its_document_goes_with_the_first_answer(tmp_path: Path) -> None:
    book(tmp_path).handle_probe(hung(), boot_time())
    rebooted = book(tmp_path, "another boot")
    assert rebooted.before_the_first_look(boot_time()) is None
    rebooted.handle_probe(absent(9), boot_time())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["{", '{"version": 1, "boot_id": 7}', '{"since_at": 1.0}', "[]"])
def test_a_document_that_is_none_is_named_and_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    caplog.set_level(logging.WARNING)
    (tmp_path / "hang.json").write_text(content)
    state = StateDirectory(tmp_path)
    assert HangBook(state, BOOT).before_the_first_look(boot_time()) is None
    assert (tmp_path / "hang.damaged").read_text() == content
    assert not (tmp_path / "hang.json").exists()
    assert "set aside as hang.damaged" in state.losses["hang"]
    assert str(tmp_path / "hang.json") in caplog.text


def test_where_the_disk_takes_nothing_a_volatile_copy_does_for_as_long_as_the_hang_lasts(
    tmp_path: Path,
) -> None:
    (tmp_path / "state").write_text("no directory")
    state = StateDirectory(tmp_path / "state", tmp_path / "run")
    now = boot_time()
    watch = HangBook(state, BOOT)
    watch.handle_probe(hung(), now)
    assert "after a restart" in state.losses["hang"]
    assert kept(tmp_path / "run")["call"] == CALL
    (tmp_path / "state").unlink()
    watch.handle_probe(hung(), now + 5.0)
    assert kept(tmp_path / "state")["call"] == CALL, "tried again with each look"
    assert state.losses == {}
    watch.handle_probe(answered([geforce(0)]), now + 10.0)
    assert not list(tmp_path.rglob("hang.json"))


def test_a_document_that_cannot_be_taken_away_is_told_of_and_tried_again(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state")
    watch = HangBook(state, BOOT)
    watch.handle_probe(hung(), boot_time())
    (tmp_path / "state").rename(tmp_path / "elsewhere")
    (tmp_path / "state").write_text("no directory")
    watch.handle_probe(answered([geforce(0)]), boot_time())
    assert "a hang that is over" in state.losses["hang"]
    (tmp_path / "state").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "state")
    watch.handle_probe(answered([geforce(0)]), boot_time())
    assert state.losses == {}
    assert list((tmp_path / "state").iterdir()) == []
