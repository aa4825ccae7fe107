from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

import gpumesh
from gpumesh.cli.commands import COMMANDS
from gpumesh.cli.main import main, parse
from gpumesh.cli.session import Session
from gpumesh.cli.terminal import Terminal
from tests.cli.conftest import Call, served
from tests.samples.interpreter import loaded_by

ROOT = Path(gpumesh.__file__).parents[1]


def started(*argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environ}
    return subprocess.run(
        [sys.executable, "-m", "gpumesh.cli.main", *argv],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_version_is_the_packages() -> None:
    assert started("--version").stdout == f"gpumesh {gpumesh.__version__}\n"


def test_help_lists_every_command() -> None:
    outcome = started("--help")
    assert outcome.returncode == 0
    for command in COMMANDS:
        assert f"  {command.name} " in outcome.stdout


def test_without_a_command_it_helps_and_fails() -> None:
    assert started().returncode == 2


def test_a_mistyped_command_is_met_with_the_nearest() -> None:
    outcome = started("fleat")
    assert outcome.returncode == 2
    assert "did you mean fleet?" in outcome.stderr


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_loads_and_helps(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    assert left.value.code == 0
    assert f"usage: gpumesh {command}" in capsys.readouterr().out


def test_global_options_stand_before_or_after_the_command() -> None:
    for argv in (
        ["--json", "--api", "x", "fleet"],
        ["fleet", "--json", "--api", "x"],
        ["--json", "fleet", "--api=x"],
    ):
        _, options = parse(argv)
        assert (options.json, options.api, options.config) == (True, "x", "")


def test_an_unreachable_daemon_is_three_and_says_where_and_what_to_do(call: Call, tmp_path: Path) -> None:
    outcome = call("status")
    assert (outcome.code, outcome.out) == (3, "")
    assert f"http://127.0.0.1:1 (http.listen in {tmp_path}/gpumesh.toml)" in outcome.err
    assert "systemctl start gpumesh" in outcome.err
    assert "journalctl -u gpumesh" in outcome.err


@pytest.fixture
def stranger() -> Iterator[str]:
    """Another program that answers at the daemon's address."""

    async def greet(_request: web.Request) -> web.Response:
        return web.Response(text="<h1>It works!</h1>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", greet)
    with served(app) as url:
        yield url


def test_another_program_there_is_not_taken_for_the_daemon(stranger: str, call: Call) -> None:
    outcome = call("fleet", "--api", stranger)
    assert outcome.code == 3
    assert "something that is not gpumesh answers there" in outcome.err


def test_a_wrong_configuration_is_a_usage_error(tmp_path: Path) -> None:
    outcome = started("-c", str(tmp_path / "none.toml"), "fleet")
    assert outcome.returncode == 2
    assert "no such file" in outcome.stderr


def test_a_wrong_url_is_a_usage_error(call: Call) -> None:
    assert call("fleet", "--api", "ftp://x").code == 2


def test_an_unspecified_listen_address_is_asked_on_loopback(tmp_path: Path) -> None:
    for listen, url in (("0.0.0.0:1", "http://127.0.0.1:1 "), ("[::]:1", "http://[::1]:1 ")):
        config = tmp_path / "gpumesh.toml"
        config.write_text(f'[http]\nlisten = "{listen}"\n')
        assert url in started("-c", str(config), "fleet").stderr


def test_a_reader_that_has_seen_enough_is_no_error(api: str) -> None:
    script = f"{sys.executable} -m gpumesh.cli.main --api {api} gpus --json | head -c 1"
    outcome = subprocess.run(
        ["bash", "-o", "pipefail", "-c", script],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (outcome.returncode, outcome.stderr) == (0, "")


def test_the_start_is_not_burdened_with_the_servers_libraries() -> None:
    loaded = loaded_by("gpumesh.cli.main, gpumesh.cli.fleet")
    assert not loaded & {
        "aiohttp",
        "asyncio",
        "msgpack",
        "cryptography",
        "prometheus_client",
        "gpumesh.status",
    }


def test_the_daemon_loads_what_it_needs_only_when_it_does() -> None:
    loaded = loaded_by("gpumesh.daemon.main")
    assert {"aiohttp.web", "gpumesh.daemon.app"} <= loaded
    assert not loaded & {"prometheus_client", "gpumesh.cli.client", "pynvml", "sdnotify"}
    assert not loaded & {"difflib", "gpumesh.health.simulated", "gpumesh.health.describe", "gpumesh.sim"}


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("out", "environ", "color", "expected"),
    [
        (Screen(), {}, True, True),
        (Screen(), {}, False, False),
        (Screen(), {"NO_COLOR": "1"}, True, False),
        (Screen(), {"TERM": "dumb"}, True, False),
        (io.StringIO(), {}, True, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(
    out: io.StringIO, environ: dict[str, str], color: bool, expected: bool
) -> None:
    terminal = Terminal.of(out, out, environ, color=color)
    assert terminal.has_color is expected
    assert (terminal.width is not None) == out.isatty()


def test_a_private_configuration_does_not_stop_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path, _max_bytes: int) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(sys.modules["gpumesh.config.load"], "read_regular", refuse)
    terminal = Terminal(io.StringIO(), io.StringIO(), None, False)
    client = Session(terminal, None, "", False).daemon()
    assert client.where.startswith("http://127.0.0.1:9477 (default;")
