from __future__ import annotations

import pytest

from tests.samples.interpreter import run_code

CODE = """
import gc, os, ssl, sys, types
from pathlib import Path
from gpumesh.cli.run import run_daemon
print(run_daemon(None, types.SimpleNamespace(config_path=Path("/nonexistent/gpumesh.toml"))))
print(*sorted(sys.modules))
contexts = [item for item in gc.get_objects() if isinstance(item, ssl.SSLContext)]
print(sum(item.cert_store_stats()["x509_ca"] for item in contexts))
print(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
"""


def test_the_daemon_does_without_the_compiled_lists_that_load_the_cpp_library() -> None:
    outcome = run_code(CODE)
    code, modules, *_ = outcome.stdout.splitlines()
    assert code == "2"
    assert "/nonexistent/gpumesh.toml" in outcome.stderr
    loaded = set(modules.split())
    assert "frozenlist" in loaded
    assert not any(name.startswith("frozenlist._") for name in loaded)


@pytest.mark.parametrize("place", [None, "/etc/ssl/certs/ca-certificates.crt"])
def test_the_daemon_holds_no_certificate_authorities_and_leaves_their_place_as_it_was(
    place: str | None,
) -> None:
    setting = "" if place is None else f'import os; os.environ["SSL_CERT_FILE"] = {place!r}\n'
    _, _, held, places = run_code(setting + CODE).stdout.splitlines()
    assert held == "0", "in the contexts of the HTTP client that comes along, where it makes them already"
    assert places == f"{place} None"
