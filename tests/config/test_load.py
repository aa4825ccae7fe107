import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.config import Config, load, parse
from gpumesh.config.example import render
from gpumesh.errors import ConfigError


def test_an_empty_file_gives_the_documented_defaults() -> None:
    config = parse("")
    assert (config.lease.heartbeat_s, config.lease.ttl_s, config.lease.failures) == (5.0, 30.0, 3)
    assert config.lease.cooldown_s == 60.0
    assert config.gossip.bind == "[::]:7977"
    assert config.http.listen == "127.0.0.1:9477"
    assert config.control.socket == "/run/gpumesh/control.sock"
    assert config.host.state_dir == "/var/lib/gpumesh"
    assert config.jobs.accept is False


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[gosip]", r"f\.toml: gosip: unknown section; did you mean gossip\?"),
        (
            "[lease]\nheartbeats = '5s'",
            r"f\.toml: heartbeats: unknown key in \[lease\]; did you mean heartbeat\?",
        ),
        ("[lease]\nheartbeat = 5", r"lease\.heartbeat = 5: must be text with a unit"),
        ("[lease]\nheartbeat = '5'", r"lease\.heartbeat = '5': must be a number and a unit"),
        ("[lease]\nheartbeat = '2h'", r'lease\.heartbeat = .*from "100ms" to "60s"'),
        ("[lease]\nttl = '10s'", r"lease\.ttl: must be at least lease\.heartbeat x lease\.failures \(15s\)"),
        ("[lease]\nfailures = true", r"lease\.failures = True: must be a whole number from 1 to 20"),
        ("[gossip]\nbind = 'here'", r'gossip\.bind = .*must be "address:port"'),
        ("[gossip]\nbind = '1.2.3.4:70000'", r"gossip\.bind = "),
        ("[gossip]\nseeds = ['a']", r"gossip\.seeds = .*must be \"address:port\""),
        ("[gossip]\nseeds = 'a:1'", r"gossip\.seeds = 'a:1': must be a list"),
        ("[gossip]\nprofile = 'fast'", r'gossip\.profile = .*one of "lan", "wan", "local"'),
        ("[gossip]\nfleet = 'a b'", r"gossip\.fleet = .*1 to 63 letters"),
        ("[gpu]\nbackend = 'simulated'", r"gpu\.simulated: .*needs at least one profile"),
        ("[gpu]\nsimulated = ['h100']", r"gpu\.simulated: only with"),
        ("[health]\nwarm = 90", r"health\.hot: must be above health\.warm \(90\)"),
        ("[health]\nleak_after = '1s'", r'health\.leak_after = .*from "1m" to "24h"'),
        ("[sharing]\nmode = 'schedule'", r"sharing\.hours: .*needs hours"),
        ("[jobs]\naccept = true", r"jobs\.accept: .*set it to false"),
        ("[host]\nlabels = { a = 1 }", r"host\.labels = .*must be short strings"),
        ("[control]\nsocket = '/" + "x" * 107 + "'", r"control\.socket = .*at most 107 bytes"),
        ("host = 3", r"host: must be a section, written \[host\]"),
        ("[host", r"f\.toml: is not TOML"),
    ],
)
def test_a_wrong_configuration_names_the_file_the_key_and_what_is_right(content: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(content, "f.toml")
    assert str(caught.value).startswith("f.toml: ")
    assert re.search(says, str(caught.value)), str(caught.value)


def test_a_missing_file_is_an_error_only_when_it_was_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load(tmp_path / "none.toml")


def test_an_unreadable_or_binary_file_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        load(tmp_path / "binary")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path)


def test_the_example_is_itself_valid_and_says_only_defaults() -> None:
    assert parse(render(), "") == Config()
    uncommented = re.sub(r"(?m)^#(\w+ = )", r"\1", render())
    assert parse(uncommented, "") == Config()


def test_the_shipped_example_is_what_the_schema_says() -> None:
    shipped = Path(__file__).parents[2] / "docs" / "gpumesh.toml"
    assert shipped.read_text() == render(), "run `make golden-update`"


@given(st.text(max_size=200))
def test_no_text_raises_anything_but_a_config_error(content: str) -> None:
    with contextlib.suppress(ConfigError):
        parse(content)


@pytest.mark.parametrize("host", ["gpu.example", "300.1.1.1", "0.0.0.0", "[::]", "239.1.1.1"])
def test_what_peers_are_told_must_be_one_address(host: str) -> None:
    with pytest.raises(ConfigError, match=r"gossip\.advertise"):
        parse(f'[gossip]\nadvertise = "{host}:7977"')
