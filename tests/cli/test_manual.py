from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from gpumesh.cli.checkformats import FORMATS
from gpumesh.cli.commands import COMMANDS
from gpumesh.mesh.events import KINDS
from tests.requirements import lacks

MANUAL = Path(__file__).parents[2] / "docs/gpumesh.1"


def test_the_manual_names_every_command_and_format_and_no_other() -> None:
    text = MANUAL.read_text()
    body = text[text.index(".SH COMMANDS") : text.index(".SH EXIT STATUS")]
    entries = re.findall(r"^\.TP\n\.(?:B|BR|BI) \"?([^\n]+)", body, re.MULTILINE)
    named = {word for entry in entries for word in re.findall(r"^[a-z]+|(?<=\\fB)[a-z]+", entry)}
    assert named == {command.name for command in COMMANDS}
    for form in FORMATS:
        assert re.search(rf"^\.(B|BR) {form}\b", body, re.MULTILINE), form


def test_the_manual_names_every_kind_of_event() -> None:
    text = MANUAL.read_text()
    entry = text[text.index(".BR events ") : text.index(".SS The fleet")]
    assert set(re.findall(r"\b(?:(?:host|gpu|baseline)\.[a-z]+|xid)\b", entry)) == set(KINDS)


def test_the_manual_is_sound() -> None:
    if shutil.which("groff") is None:
        lacks("groff is not installed (Debian: apt install groff-base)")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", MANUAL], capture_output=True, text=True, check=True
    )
    assert not done.stderr
