"""Root file systems of real distributions, made once from what the package itself says it needs."""

import fcntl
import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# What any Debian host has, and what the tests use to look at it. Everything else must come from the
# package's own Depends, so that a forgotten dependency shows as a failed installation.
HOST_PACKAGES = (
    "ca-certificates",
    "curl",
    "dbus",
    "iproute2",
    "nftables",
    "procps",
    "systemd",
    "systemd-sysv",
    "udev",
)

_DEBIAN_SOURCES = Path("/etc/apt/sources.list.d/debian.sources")


@dataclass(frozen=True, slots=True)
class RootFs:
    """A root file system on disk; it is never written to, each machine lays its own disk over it."""

    suite: str
    path: Path


def dependencies_of(deb: Path) -> tuple[str, ...]:
    """Name a package for each dependency of `deb`: the first alternative, unless another is there anyway."""
    field = subprocess.run(
        ["dpkg-deb", "--field", deb, "Depends"], check=True, capture_output=True, text=True
    ).stdout
    groups = [
        [re.sub(r"[ (:].*", "", alternative.strip()) for alternative in group.split("|")]
        for group in field.split(",")
    ]
    chosen = {group[0] for group in groups if len(group) == 1} | set(HOST_PACKAGES)
    for group in groups:
        if not chosen.intersection(group):
            chosen.add(group[0])
    return tuple(sorted(chosen - set(HOST_PACKAGES)))


@contextmanager
def root_fs(suite: str, dependencies: tuple[str, ...], cache: Path) -> Iterator[RootFs]:
    """Lend the root file system of `suite` with `dependencies`; the first time it is made, in about 25 s.

    It is kept under `cache` by suite and list of packages. One that no list asks for any more is removed
    when its successor is made, unless another process still uses it.
    """
    packages = sorted({*HOST_PACKAGES, *dependencies})
    key = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:12]
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / f"{suite}-{key}"
    with (cache / f"{path.name}.lock").open("w") as lock:
        # Shared while it is lent: others may use it too, but nobody may remove it. The kernel lets go of
        # one kind of lock before it gives the other, hence the second look.
        fcntl.flock(lock, fcntl.LOCK_SH)
        while not path.is_dir():
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.is_dir():
                _remove_predecessors(suite, path, cache)
                _bootstrap(suite, packages, path)
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield RootFs(suite, path)


def _bootstrap(suite: str, packages: list[str], path: Path) -> None:
    unfinished = path.with_suffix(".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = [
        "mmdebstrap",
        "--quiet",
        "--variant=apt",
        f"--include={','.join(packages)}",
        suite,
        str(unfinished),
    ]
    sources = _sources_for(suite)
    made = subprocess.run(
        command if sources is None else [*command, "-"],
        input=sources,
        check=False,
        capture_output=True,
        text=True,
    )
    if made.returncode != 0:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise RuntimeError(f"mmdebstrap could not make {suite}:\n{made.stderr[-3000:]}")
    # Empty, not absent: each machine then makes an id of its own at its first boot.
    (unfinished / "etc/machine-id").write_text("")
    unfinished.rename(path)


def _sources_for(suite: str) -> str | None:
    """Return this machine's own sources turned to `suite`, so that its mirror is used; None: mmdebstrap's."""
    if not _DEBIAN_SOURCES.exists():
        return None
    release = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.MULTILINE)
    assert release is not None, "/etc/os-release names no codename"
    return _DEBIAN_SOURCES.read_text().replace(release[1], suite)


def _remove_predecessors(suite: str, successor: Path, cache: Path) -> None:
    for old in cache.glob(f"{suite}-*"):
        if not old.is_dir() or old.name.startswith(successor.name):
            continue
        with (cache / f"{old.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(old)
