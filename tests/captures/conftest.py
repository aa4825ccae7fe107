from __future__ import annotations

from tests.fakes.nvml.fixtures import binding, cards, oldest_bindings

__all__ = ["binding", "cards", "oldest_bindings"]
