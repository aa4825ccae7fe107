from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.cli import edit, fleetfiles, token
from gpumesh.config import parse
from gpumesh.config.keyring import new_key
from gpumesh.errors import ConfigError, FleetKeyError

KEY = new_key()


def files(tmp_path: Path, content: str = "") -> Path:
    path = tmp_path / "gpumesh.toml"
    path.write_text(f'{content}\n[gossip]\nkey_file = "{tmp_path / "fleet.key"}"\n')
    return path


def test_init_makes_a_key_once_and_never_replaces_it(tmp_path: Path) -> None:
    path = files(tmp_path)
    config, made = fleetfiles.make_fleet(path, {("gossip", "fleet"): "cafe"})
    assert made
    assert config.gossip.fleet == "cafe"
    key = (tmp_path / "fleet.key").read_text()
    assert (tmp_path / "fleet.key").stat().st_mode & 0o007 == 0
    _, made_again = fleetfiles.make_fleet(path, {})
    assert not made_again
    assert (tmp_path / "fleet.key").read_text() == key


def test_the_token_is_all_the_next_host_needs(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    lease = '[lease]\ncooldown = "5s"\nfailures = 2'
    config, _ = fleetfiles.make_fleet(files(first, lease), {("gossip", "fleet"): "cafe"})
    word = token.encode(fleetfiles.make_token(config, ["10.77.0.1:7977"]))
    joined = fleetfiles.join_fleet(
        files(second, "# mine\n[host]\nname = 'x' # keep"), token.decode(word), force=False
    )
    assert joined.gossip.fleet == "cafe"
    assert joined.gossip.seeds == ("10.77.0.1:7977",)
    assert joined.lease == config.lease
    assert joined.host.name == "x"
    assert "# mine" in (second / "gpumesh.toml").read_text()
    assert fleetfiles.read_keys(second / "fleet.key") == fleetfiles.read_keys(first / "fleet.key")


def test_a_member_of_another_fleet_is_not_moved_without_force(tmp_path: Path) -> None:
    path = files(tmp_path)
    fleetfiles.make_fleet(path, {})
    before = (tmp_path / "fleet.key").read_text(), path.read_text()
    other = token.Token("other", (KEY,), ("10.0.0.1:7977",))
    with pytest.raises(FleetKeyError, match="--force"):
        fleetfiles.join_fleet(path, other, force=False)
    assert ((tmp_path / "fleet.key").read_text(), path.read_text()) == before
    fleetfiles.join_fleet(path, other, force=True)
    assert fleetfiles.read_keys(tmp_path / "fleet.key") == (KEY,)
    assert (tmp_path / "fleet.old").read_text() == before[0]


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("hello", "must begin with gpumesh1."),
        ("gpumesh1.", "torn"),
        ("gpumesh1.###", "torn|damaged"),
        ("gpumesh1." + "A" * 9000, "longer than"),
    ],
)
def test_a_bad_token_is_refused_in_words(word: str, says: str) -> None:
    with pytest.raises(FleetKeyError, match=says):
        token.decode(word)


@given(st.integers(min_value=9, max_value=200), st.integers(min_value=0, max_value=61))
def test_a_token_with_one_wrong_character_is_refused(position: int, letter: int) -> None:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    word = token.encode(token.Token("f", (KEY,), ("10.0.0.1:7977",)))
    position = min(position, len(word) - 2)
    changed = word[:position] + alphabet[letter] + word[position + 1 :]
    if changed != word:
        with pytest.raises(FleetKeyError):
            token.decode(changed)


def test_an_edit_keeps_comments_and_other_keys() -> None:
    before = "# top\n[host]\nname = 'a' # mine\n\n[gossip]\n# seeds are here\nseeds = ['x:1']\n"
    after, config = edit.set_keys(
        before, {("gossip", "seeds"): ["y:2"], ("lease", "failures"): 4, ("host", "state_dir"): "/s"}, "f"
    )
    assert config.gossip.seeds == ("y:2",)
    assert config.lease.failures == 4
    assert "# top" in after
    assert "name = 'a' # mine" in after
    assert "# seeds are here" in after


def test_an_edit_that_would_not_say_what_was_asked_is_refused() -> None:
    with pytest.raises(ConfigError, match="by hand"):
        edit.set_keys("[gossip]\nseeds = [\n 'x:1',\n]\n", {("gossip", "seeds"): ["y:2"]}, "f")


def test_a_wrong_value_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = files(tmp_path)
    before = path.read_text()
    with pytest.raises(ConfigError):
        fleetfiles.make_fleet(path, {("gossip", "fleet"): "not a label"})
    assert path.read_text() == before
    assert not (tmp_path / "fleet.key").exists()
    assert parse(before).gossip.fleet == "default"


def test_init_does_not_relabel_a_member_out_of_its_fleet(tmp_path: Path) -> None:
    path = files(tmp_path)
    fleetfiles.make_fleet(path, {("gossip", "fleet"): "cafe"})
    before = path.read_text()
    with pytest.raises(FleetKeyError, match="member of fleet cafe"):
        fleetfiles.make_fleet(path, {("gossip", "fleet"): "bistro"})
    assert path.read_text() == before
    fleetfiles.make_fleet(path, {("gossip", "fleet"): "cafe", ("host", "name"): "pc07"})
    assert 'name = "pc07"' in path.read_text()


def test_joining_again_and_again_by_force_loses_no_key(tmp_path: Path) -> None:
    path = files(tmp_path)
    fleetfiles.make_fleet(path, {})
    seen = [(tmp_path / "fleet.key").read_text()]
    for _ in range(4):
        other = token.Token("other", (new_key(),), ("10.0.0.1:7977",))
        assert not fleetfiles.is_member(path, other)
        fleetfiles.join_fleet(path, other, force=True)
        assert fleetfiles.is_member(path, other)
        seen.append((tmp_path / "fleet.key").read_text())
    kept = {item.read_text() for item in tmp_path.iterdir() if item.suffix.startswith((".old", ".key"))}
    assert kept == set(seen)


def test_what_is_no_file_is_named_without_asking_for_sudo(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is a directory, not a file$"):
        fleetfiles.set_name(tmp_path, "x")
    (tmp_path / "fleet.key").mkdir()
    with pytest.raises(FleetKeyError, match=r"is a directory, not a file$"):
        fleetfiles.read_keys(tmp_path / "fleet.key")
