"""One run of the command line: what the global options say, and the way to the daemon."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpumesh.cli.terminal import Terminal
from gpumesh.config import DEFAULT_PATH, Config, load
from gpumesh.config.fields import parse_endpoint
from gpumesh.errors import ConfigError

if TYPE_CHECKING:
    from gpumesh.cli.client import ControlClient, DaemonClient

_UNSPECIFIED: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


@dataclass(frozen=True, slots=True)
class Session:
    """What every command is given."""

    terminal: Terminal
    config_path: Path | None
    """None: the default path."""
    api: str
    """A URL that overrides the configuration; empty: none."""
    is_json: bool
    clock: Callable[[], float] = time.time
    """Unix seconds, to say how long ago something was."""

    @classmethod
    def of(cls, options: argparse.Namespace, terminal: Terminal) -> Session:
        """Return the session that the parsed global options ask for."""
        path = Path(options.config) if options.config else None
        return cls(terminal, path, options.api or "", bool(options.json))

    def config(self) -> Config:
        """Return the configuration. Errors: :class:`ConfigError`."""
        return load(self.config_path)

    def daemon(self) -> DaemonClient:
        """Return the client for the read-only face."""
        from gpumesh.cli.client import DaemonClient  # noqa: PLC0415 - the daemon itself asks nobody

        if self.api:
            url = self.api if "://" in self.api else f"http://{self.api}"
            return DaemonClient(url, "--api")
        try:
            config = self.config()
        except ConfigError as error:
            # An owner may keep the file to himself; reading the fleet does not need it.
            if self.config_path is not None or not isinstance(error.__cause__, PermissionError):
                raise
            return DaemonClient(_url(Config().http.listen), f"default; {DEFAULT_PATH} cannot be read")
        origin = f"http.listen in {config.source}" if config.source else "default"
        return DaemonClient(_url(config.http.listen), origin)

    def control(self) -> ControlClient:
        """Return the client for changes."""
        from gpumesh.cli.client import ControlClient  # noqa: PLC0415 - as above

        return ControlClient(self.config().control.socket)

    def print_json(self, document: Any) -> None:
        """Write a document as indented JSON."""
        self.terminal.write(json.dumps(document, indent=2, ensure_ascii=False))


def _url(listen: str) -> str:
    host, port = parse_endpoint(listen)
    host = _UNSPECIFIED.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
