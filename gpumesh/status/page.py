"""The page at ``/``: one file without outside assets, under a policy that allows nothing but itself."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True, slots=True)
class Page:
    """The page and the Content-Security-Policy that fits its inline style and script by hash."""

    body: bytes
    policy: str


def load_page() -> Page:
    """Return the page as shipped in the package."""
    text = resources.files("gpumesh.status").joinpath("page.html").read_text(encoding="utf-8")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hashes(text, 'script')}",
            f"style-src {_hashes(text, 'style')}",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )
    return Page(text.encode(), policy)


def _hashes(text: str, tag: str) -> str:
    inline = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    digests = (base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in inline)
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
