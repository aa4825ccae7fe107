from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.cli.conftest import Call, served


@pytest.fixture
def said(tmp_path: Path) -> Iterator[list[tuple[str, Any]]]:
    """What a control socket was told."""
    told: list[tuple[str, Any]] = []

    async def handle(request: web.Request) -> web.Response:
        told.append((request.path, await request.json()))
        return web.json_response({"admission": request.path.rpartition("/")[2]})

    app = web.Application()
    for verb in ("cordon", "uncordon", "drain"):
        app.router.add_post(f"/v1/{verb}", handle)
    with served(app, tmp_path / "control.sock"):
        yield told


def test_the_owners_word_and_reason_reach_the_daemon(call: Call, said: list[tuple[str, Any]]) -> None:
    assert call("cordon", "new", "fans").code == 0
    assert call("drain").code == 0
    outcome = call("uncordon")
    assert outcome.out == "open: this host takes work again\n"
    assert said == [
        ("/v1/cordon", {"reason": "new fans"}),
        ("/v1/drain", {"reason": ""}),
        ("/v1/uncordon", {"reason": ""}),
    ]


@pytest.mark.usefixtures("said")
def test_json_is_the_daemons_answer(call: Call) -> None:
    assert '"admission": "cordon"' in call("cordon", "--json").out


def test_without_a_daemon_it_says_where_it_looked_and_what_to_do(call: Call, tmp_path: Path) -> None:
    outcome = call("cordon")
    assert outcome.code == 3
    assert f"{tmp_path}/control.sock" in outcome.err
    assert "systemctl start gpumesh" in outcome.err


def test_without_permission_it_names_the_group(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_self: socket.socket, _address: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    outcome = call("drain")
    assert outcome.code == 3
    assert "join the group gpumesh" in outcome.err
    assert "sudo" in outcome.err
