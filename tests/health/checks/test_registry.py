"""One check a file, and no file that the registry forgot."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from gpumesh.health import checks
from gpumesh.health.checks import CHECKS
from gpumesh.health.rules import CardCheck, HostCheck, Rule

NAMES = sorted(module.name for module in pkgutil.iter_modules(checks.__path__))
MOST_LINES = 400


@pytest.fixture(params=NAMES)
def module(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(f"{checks.__name__}.{request.param}")


def test_the_folder_is_looked_into() -> None:
    assert {"driver_library", "memory_temperature", "power_brake", "sw_thermal"} <= set(NAMES)


def test_a_file_holds_one_check_and_the_registry_has_it_once(module: ModuleType) -> None:
    held = [value for value in vars(module).values() if isinstance(value, HostCheck | CardCheck)]
    assert held == [module.CHECK]
    assert sum(check is module.CHECK for check in CHECKS) == 1


def test_a_file_is_named_after_its_check(module: ModuleType) -> None:
    assert module.__name__.rpartition(".")[2] == module.NAME.replace("-", "_")


def test_a_file_holds_the_rules_of_its_check_and_of_no_other(module: ModuleType) -> None:
    held = {value.code for value in vars(module).values() if isinstance(value, Rule)}
    assert held == {rule.code for rule in module.CHECK.rules}
    assert {rule.check for rule in module.CHECK.rules} == {module.NAME} == {module.CHECK.name}
    assert module.CHECK.docstring == module.__doc__


def test_a_file_is_short_enough_to_be_read_at_once(module: ModuleType) -> None:
    assert module.__file__ is not None
    lines = Path(module.__file__).read_text(encoding="utf-8").splitlines()
    assert len(lines) < MOST_LINES


def test_the_registry_has_nothing_from_elsewhere_and_no_name_twice() -> None:
    assert len(CHECKS) == len(NAMES)
    assert [name for name, times in Counter(check.name for check in CHECKS).items() if times > 1] == []
