"""Reading which container runtimes are installed, their configuration and CDI.

Read again only when one of the files has changed: a look at them costs a few dozen stat(2).
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final

from gpumesh.health.containers import (
    Containers,
    Runtime,
    cdi_devices,
    containerd_way,
    docker_way,
    podman_way,
)

MAX_BYTES: Final = 1 << 20
MAX_FILES: Final = 64
_BINARIES: Final = ("usr/bin", "usr/local/bin", "usr/sbin")
_DOCKER_CONFIG: Final = "etc/docker/daemon.json"
_CONTAINERD_CONFIG: Final = "etc/containerd/config.toml"
_CONTAINERD_IMPORTS: Final = "etc/containerd/conf.d"
_CDI_FOLDERS: Final = ("etc/cdi", "run/cdi")
"""The specification says /var/run/cdi, which is this on every host that is supported."""
_PODMAN_HOOKS: Final = (
    "usr/share/containers/oci/hooks.d/oci-nvidia-hook.json",
    "etc/containers/oci/hooks.d/oci-nvidia-hook.json",
)
_PROGRAMS: Final = ("dockerd", "podman", "containerd", "kubelet", "nerdctl", "nvidia-container-runtime-hook")

_Stamps = tuple[tuple[str, int, int], ...]


class ContainerFiles:
    """The files under ``root``. Nothing here raises: what cannot be read is None."""

    def __init__(self, root: Path) -> None:
        self._root = root
        # Made once: putting these paths together takes as long as asking the kernel for them.
        programs = (root / folder / name for folder in _BINARIES for name in _PROGRAMS)
        configs = (root / name for name in (_DOCKER_CONFIG, _CONTAINERD_CONFIG, *_PODMAN_HOOKS))
        self._watched = (*programs, *configs)
        self._tree = root / "usr"
        self._folders = {name: root / name for name in (*_CDI_FOLDERS, _CONTAINERD_IMPORTS)}
        self._stamps: _Stamps | None = None
        self._known = Containers()

    def read(self) -> Containers | None:
        """Return what is set up; None if there is no file tree to look at."""
        if not self._tree.is_dir():
            return None
        specifications = self._specifications()
        imports = self._folder(_CONTAINERD_IMPORTS, (".toml",))
        stamps = tuple([_stamp(path) for path in chain(self._watched, specifications, imports)])
        if stamps != self._stamps:
            self._stamps, self._known = stamps, self._read(specifications, imports)
        return self._known

    def _read(self, specifications: list[Path], imports: list[Path]) -> Containers:
        devices = self._devices(specifications)
        has_cdi = bool(devices)
        runtimes = []
        has_docker = self._has("dockerd")
        if has_docker:
            content = _text(self._root / _DOCKER_CONFIG)
            has_hook = self._has("nvidia-container-runtime-hook")
            way = None if content is None else docker_way(content, has_hook=has_hook, has_cdi=has_cdi)
            runtimes.append(Runtime("docker", way))
        if self._has("podman"):
            has_hook = any((self._root / hook).exists() for hook in _PODMAN_HOOKS)
            runtimes.append(Runtime("podman", podman_way(has_hook=has_hook, has_cdi=has_cdi)))
        # Docker brings a containerd that nobody else uses; it matters where something else starts on it.
        if self._has("containerd") and (not has_docker or self._has("kubelet") or self._has("nerdctl")):
            configs = [_text(path) for path in (self._root / _CONTAINERD_CONFIG, *imports)]
            texts = [content for content in configs if content is not None]
            is_readable = len(texts) == len(configs)
            runtimes.append(
                Runtime("containerd", containerd_way(texts, has_cdi=has_cdi) if is_readable else None)
            )
        return Containers(tuple(runtimes), devices)

    def _devices(self, specifications: list[Path]) -> tuple[str, ...] | None:
        found: list[str] = []
        for path in specifications:
            content = _text(path)
            names = None if content is None else cdi_devices(content)
            if names is None:
                # One of another vendor that is written otherwise says nothing of ours.
                if content is None or "nvidia.com/gpu" in content:
                    return None
                continue
            found.extend(names)
        return tuple(dict.fromkeys(found))

    def _specifications(self) -> list[Path]:
        return [path for folder in _CDI_FOLDERS for path in self._folder(folder, (".yaml", ".json", ".yml"))]

    def _folder(self, name: str, endings: tuple[str, ...]) -> list[Path]:
        with suppress(OSError):
            paths = sorted(self._folders[name].iterdir())
            return [path for path in paths if path.name.endswith(endings)][:MAX_FILES]
        return []

    def _has(self, program: str) -> bool:
        return any((self._root / folder / program).exists() for folder in _BINARIES)


def _stamp(path: Path) -> tuple[str, int, int]:
    try:
        status = path.stat()
    except OSError:
        return str(path), -1, -1
    return str(path), status.st_mtime_ns, status.st_size


def _text(path: Path) -> str | None:
    """Return a file's text, empty if there is none, None if it cannot be read or is no configuration."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError:
        return None
    return data.decode(errors="replace") if len(data) <= MAX_BYTES else None
