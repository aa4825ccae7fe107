"""What a test needs of the machine it runs on: where it is lacking it skips, in CI it fails."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def lacks(reason: str) -> NoReturn:
    """End the test: skipped with the reason, but failed where ``CI=true``, since nothing was proved."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
