"""Reading the fleet's keys: a key file that others can read is refused, a missing one means running alone."""

from __future__ import annotations

import stat
from pathlib import Path

from gpumesh.config.files import read_regular
from gpumesh.errors import FleetKeyError

MAX_BYTES = 64 << 10


def read_key_file(path: Path) -> str | None:
    """Return the key file's text, or None where there is no such file.

    Errors: :class:`FleetKeyError` if it cannot be read or its mode lets everybody read it.
    """
    try:
        data, status = read_regular(path, MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FleetKeyError(
            f"{path}: the fleet key cannot be read: {error.strerror}; it must belong to root, group gpumesh, "
            "mode 0640"
        ) from error
    if status.st_mode & (stat.S_IROTH | stat.S_IWOTH):
        raise FleetKeyError(f"{path}: the fleet key is open to everybody on this host; `chmod 0640 {path}`")
    if len(data) > MAX_BYTES:
        raise FleetKeyError(f"{path}: larger than {MAX_BYTES} bytes; this is no key file")
    try:
        return data.decode("ascii")
    except UnicodeDecodeError as error:
        raise FleetKeyError(f"{path}: is not text; a key file holds base64, one key a line") from error
