"""What is read once in a while, from a binding made up for it: structures that are handed in and filled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpumesh.health.nvml_card import Card, Known, Session
from gpumesh.health.nvml_readings import read_seldom
from gpumesh.health.nvml_table import READING

SRAM_STATUS_V1 = 0x1000068
"""nvml.h's version word: the structure's size and its version."""
NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND = 3, 4, 13


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


class Binding:
    """A binding with the calls that a test gives it; any other is not in this driver."""

    NVMLError = NVMLError

    def __init__(self, **calls: Any) -> None:
        self.asked: list[str] = []
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self.asked.append(name)
            if name not in self._calls:
                raise NVMLError(FUNCTION_NOT_FOUND)
            return self._calls[name](*arguments)

        return call


def seldom(binding: Binding, known: Known | None = None) -> dict[str, Any]:
    card = Card(Session(binding, lambda _: None), 0, "handle", known or Known())
    values = read_seldom(card, None, None)
    assert card.error is None
    return {name: value for name, value in values.items() if value is not None}


@pytest.mark.parametrize("is_exceeded", [True, False])
def test_the_drivers_word_on_the_caches_is_read_from_the_structure_of_the_header(is_exceeded: bool) -> None:
    def fill(_handle: str, reference: Any) -> int:
        status = reference._obj
        assert status.version == SRAM_STATUS_V1
        status.is_threshold_exceeded = is_exceeded
        return 0

    values = seldom(Binding(nvmlDeviceGetSramEccErrorStatus=fill))
    assert values == {"ecc_sram_threshold_exceeded": is_exceeded}


def test_errors_are_read_by_location_with_nvmls_numbers() -> None:
    def count(_handle: str, error: int, counter: int, location: int) -> int:
        return 100 * error + 10 * counter + location

    assert seldom(Binding(nvmlDeviceGetMemoryErrorCounter=count)) == {
        "ecc_sram_corrected_volatile": 7,
        "ecc_sram_corrected_aggregate": 17,
        "ecc_sram_uncorrected_volatile": 107,
        "ecc_sram_uncorrected_aggregate": 117,
        "ecc_dram_corrected_volatile": 2,
        "ecc_dram_corrected_aggregate": 12,
        "ecc_dram_uncorrected_volatile": 102,
        "ecc_dram_uncorrected_aggregate": 112,
    }


def test_the_bar1_window_is_read() -> None:
    answer = SimpleNamespace(bar1Total=256 << 20, bar1Used=36 << 20, bar1Free=220 << 20)
    values = seldom(Binding(nvmlDeviceGetBAR1MemoryInfo=lambda _: answer))
    assert values == {"bar1_total_bytes": 256 << 20, "bar1_used_bytes": 36 << 20}


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION])
def test_what_a_card_or_a_sandbox_refuses_is_absent_and_asked_once(code: int) -> None:
    def refuse(*_: Any) -> Any:
        raise NVMLError(code)

    calls = (
        "nvmlDeviceGetSramEccErrorStatus",
        "nvmlDeviceGetMemoryErrorCounter",
        "nvmlDeviceGetBAR1MemoryInfo",
    )
    binding, known = Binding(**dict.fromkeys(calls, refuse)), Known()
    assert seldom(binding, known) == {}
    assert binding.asked.count("nvmlDeviceGetMemoryErrorCounter") == 8
    binding.asked.clear()
    assert seldom(binding, known) == {}
    assert not set(calls) & set(binding.asked)


def test_jpeg_and_optical_flow_engines_are_read_without_their_sampling_period() -> None:
    binding = Binding(
        nvmlDeviceGetJpgUtilization=lambda _: [7, 20000], nvmlDeviceGetOfaUtilization=lambda _: [0, 20000]
    )
    card = Card(Session(binding, lambda _: None), 0, "handle", Known())
    calls = {call.field: call for call in READING}
    values = {engine: card.ask(calls[f"utilization_{engine}_percent"]) for engine in ("jpeg", "ofa")}
    assert values == {"jpeg": 7, "ofa": 0}
