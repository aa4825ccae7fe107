"""Thresholds: each has a key, a unit, bounds, and is refused by name."""

from __future__ import annotations

from dataclasses import fields

import pytest

from gpumesh.config import HealthConfig, parse
from gpumesh.errors import ConfigError

KEYS = [item.metadata["setting"].key for item in fields(HealthConfig)]


@pytest.mark.parametrize("key", KEYS)
def test_each_default_may_be_written_and_each_bound_is_told_by_name(key: str) -> None:
    setting = HealthConfig.setting(key)
    assert parse(f"[health]\n{key} = {setting.shown}").health == HealthConfig()
    is_length = setting.shown.startswith('"')
    absurd = '"9999h"' if is_length else "-1"
    with pytest.raises(ConfigError, match=rf"health\.{key} = .* (must be from|must be a whole number from)"):
        parse(f"[health]\n{key} = {absurd}")
    of_another_kind = "5" if is_length else '"5s"'
    with pytest.raises(ConfigError, match=rf"health\.{key} = "):
        parse(f"[health]\n{key} = {of_another_kind}")


def test_a_value_is_found_under_its_key_in_seconds() -> None:
    config = parse('[health]\nfan_hot = 60\nfan_after = "2m"').health
    assert (config.fan_hot_c, config.fan_after_s) == (60, 120.0)
    assert (config.value("fan_hot"), config.value("fan_after")) == (60.0, 120.0)


def test_a_key_that_there_is_not_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean fan_after"):
        parse('[health]\nfan_afer = "2m"')
