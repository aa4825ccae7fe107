"""``docs/gpumesh.toml``: every key with its default and documentation, made from the schema."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import fields
from typing import Any, Final

from gpumesh.config.load import settings_of
from gpumesh.config.schema import Config

_WIDTH: Final = 100
_HEAD: Final = """\
# gpumesh.toml - every key with its default; what is commented out is the default.
#
# The daemon reads /etc/gpumesh/gpumesh.toml. It needs none of this to start: `gpumesh init` and
# `gpumesh join TOKEN` write what a fleet needs. A key that is not known, of the wrong type, out of
# bounds or at odds with another one is refused by name. `systemctl reload gpumesh` takes up changes
# to labels, seeds, keys, sharing, baseline and log; the rest needs a restart.
"""


def render() -> str:
    """Return the example file."""
    parts = [_HEAD]
    for item in fields(Config):
        if item.name == "source":
            continue
        section: Any = item.default_factory
        parts.append(f"[{item.name}]\n# {' '.join((section.__doc__ or '').split())}\n")
        for key, (_, setting) in settings_of(section).items():
            parts.append(textwrap.fill(setting.doc, _WIDTH, initial_indent="# ", subsequent_indent="# "))
            parts.append(f"#{key} = {setting.shown}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(render())
