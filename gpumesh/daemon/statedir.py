"""Small JSON documents kept across restarts, in a directory that may be read-only, full or damaged.

A host without a usable state directory still has GPUs to lend, so nothing here stops the daemon: what cannot
be kept is recorded in :attr:`StateDirectory.losses`, for the journal, the status and a finding.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gpumesh.config.files import read_regular

MAX_BYTES: Final = 4 << 20

_log = logging.getLogger(__name__)


class StateDirectory:
    """Named JSON objects under ``path``, with a second, volatile place (``/run``) for when that fails.

    Writes are atomic (temporary file, fsync, rename, fsync of the directory): after a power cut a document is
    the old or the new one, never half of each. A damaged document is set aside, not overwritten.
    """

    def __init__(self, path: Path, volatile: Path | None = None) -> None:
        self.path = path
        self.volatile = volatile
        self.losses: dict[str, str] = {}
        """Document name → what is lost and why; emptied again once a write succeeds."""

    def read(self, name: str) -> dict[str, Any] | None:
        """Return the document, preferring the durable copy; None if there is none that can be used."""
        for directory in self._places():
            document = self._read_from(directory / f"{name}.json", name)
            if document is not None:
                return document
        return None

    def read_all(self, name: str) -> list[dict[str, Any]]:
        """Return every usable copy, durable first: for counters, of which the greatest holds."""
        found = (self._read_from(directory / f"{name}.json", name) for directory in self._places())
        return [document for document in found if document is not None]

    def write(self, name: str, document: Mapping[str, Any], *, loses: str) -> bool:
        """Keep the document; on failure note that ``loses`` (a clause) is lost, and keep a volatile copy."""
        data = json.dumps(document, sort_keys=True, indent=1).encode() + b"\n"
        try:
            _write_atomically(self.path / f"{name}.json", data)
        except OSError as error:
            self.losses[name] = f"{self.path}: {error.strerror or error}: {loses}"
            if self.volatile is not None:
                with contextlib.suppress(OSError):
                    _write_atomically(self.volatile / f"{name}.json", data)
            return False
        self.losses.pop(name, None)
        return True

    def remove(self, name: str, *, leaves: str) -> bool:
        """Take the document away; on failure note what its staying ``leaves`` behind (a clause)."""
        try:
            for directory in self._places():
                (directory / f"{name}.json").unlink(missing_ok=True)
        except OSError as error:
            self.losses[name] = f"{self.path}: {error.strerror or error}: {leaves}"
            return False
        self.losses.pop(name, None)
        return True

    def set_aside(self, name: str, problem: str) -> None:
        """Put every copy of a document aside that is JSON and yet not what it should be, and say so."""
        for directory in self._places():
            path = directory / f"{name}.json"
            if path.exists():
                self._put_aside(path, name, problem)

    def _places(self) -> list[Path]:
        return [self.path] if self.volatile is None else [self.path, self.volatile]

    def _read_from(self, path: Path, name: str) -> dict[str, Any] | None:
        try:
            data, _ = read_regular(path, MAX_BYTES + 1)
            document = json.loads(data) if len(data) <= MAX_BYTES else None
        except FileNotFoundError:
            return None
        except OSError as error:
            self.losses[name] = f"{path}: {error.strerror}: what it held is not known"
            _log.warning("%s", self.losses[name])
            return None
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict):
            return document
        self._put_aside(path, name, "is damaged")
        return None

    def _put_aside(self, path: Path, name: str, problem: str) -> None:
        aside = path.with_suffix(".damaged")
        with contextlib.suppress(OSError):
            path.replace(aside)
        self.losses[name] = f"{path}: {problem}: what it held is lost; set aside as {aside.name}"
        _log.warning("%s", self.losses[name])


def _write_atomically(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    try:
        # Made anew: in what stands there, a link or a pipe, nothing is written.
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        with temporary.open("xb") as file:
            os.fchmod(file.fileno(), 0o640)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
