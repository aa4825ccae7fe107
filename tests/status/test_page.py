from __future__ import annotations

import re

from gpumesh.status.page import load_page
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
