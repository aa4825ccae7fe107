from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from gpumesh.status.documents import encode, fleet_document
from gpumesh.status.page import load_page
from tests.requirements import lacks
from tests.samples.carved import carved_probe, carved_view
from tests.status.conftest import Face


async def test_the_page_allows_only_its_own_code(face: Face) -> None:
    answer = await face.get("/")
    policy = answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert policy.count("'sha256-") == 2


def test_the_page_asks_nothing_of_other_servers() -> None:
    text = load_page().body.decode()
    assert not re.findall(r"(?:src|href)=[\"']?(?:https?:)?//", text)
    assert "@import" not in text
    assert "url(" not in text


def test_what_hosts_say_never_becomes_markup() -> None:
    text = load_page().body.decode()
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
    assert not re.findall(r"\son\w+=", text)


def test_a_cards_mig_instances_are_drawn_under_it(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        lacks("no node here to run the page's script with: apt install nodejs")
    script, fleet = tmp_path / "page.js", tmp_path / "fleet.json"
    found = re.search(r"<script>(.*?)</script>", load_page().body.decode(), re.DOTALL)
    assert found is not None
    script.write_text(found[1])
    fleet.write_bytes(encode(fleet_document(carved_view(), carved_probe())))
    stub = Path(__file__).with_name("page_stub.js")
    done = subprocess.run([node, stub, script, fleet], capture_output=True, text=True, check=True)
    shown, *lines = done.stdout.splitlines()
    assert shown == "live"
    assert [line for line in lines if line.startswith("MIG ")] == [
        "MIG 2/0 3g.40gb · 10.8/39.5 GiB used · 100 % busy · 3 processes",
        "MIG 3/0 2g.20gb · 0.0/19.6 GiB used · 0 % busy · 0 processes",
        "MIG 9/0 1g.10gb · 0.0/9.8 GiB used · 0 % busy · 0 processes",
        "MIG 10/0 1g.10gb · 0.0/9.8 GiB used · 0 % busy · 0 processes",
    ]
