"""Compile the fake driver library against NVIDIA's own header, with symbols left out if wanted.

As a script, ``python -m tests.fakes.nvml.build --out DIR [--missing FUNCTION ...]``, it prints where the
library is.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
LIBRARY = "libnvidia-ml.so.1"
CACHE = SOURCES.parents[2] / ".cache" / "fake-nvml"
FLAGS = (
    *("-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-fPIC", "-shared", "-pthread"),
    *("-Wall", "-Wextra", "-Wshadow", "-Wvla", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Werror"),
    *("-Wl,--no-undefined", f"-Wl,-soname,{LIBRARY}"),
)

# What drivers of these branches do not export, of what is exported here.
DRIVER_535_LACKS = (
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetMarginTemperature",
    "nvmlDeviceGetAddressingMode",
)
DRIVER_470_LACKS = (
    *DRIVER_535_LACKS,
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetSupportedClocksEventReasons",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetGpuFabricInfo",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlGpmQueryDeviceSupport",
    "nvmlGpmSampleAlloc",
    "nvmlGpmSampleFree",
    "nvmlGpmMigSampleGet",
    "nvmlGpmMetricsGet",
)


class FakeBuildError(RuntimeError):
    """The fake library cannot be compiled here; the message says what is wanting."""


def exported_calls() -> frozenset[str]:
    """Names of all NVML functions that the fake defines, as its sources have them."""
    found: set[str] = set()
    for source in SOURCES.glob("fake_nvml*.c"):
        found.update(
            re.findall(r"^(?:nvmlReturn_t |const char \*)(nvml\w+)\(", source.read_text(), re.MULTILINE)
        )
    return frozenset(found)


def header() -> Path:
    """Path of NVIDIA's nvml.h, from the package nvidia-nvml-dev.

    :raises FakeBuildError: the package is not installed
    """
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec is not None else ():
        for found in sorted(Path(root).glob("*/include/nvml.h")):
            return found
    raise FakeBuildError(
        "nvml.h is not here: install the Python package nvidia-nvml-dev (pip install '.[dev]')"
    )


def library(cache_dir: Path = CACHE, *, missing: Iterable[str] = ()) -> Path:
    """Directory that holds libnvidia-ml.so.1, compiled unless the same sources were before.

    Give it to a process as LD_LIBRARY_PATH. The functions in ``missing`` are not exported at all, as in a
    driver that is too old for them.

    :raises ValueError: ``missing`` names what the fake does not have
    :raises FakeBuildError: no compiler, no header, or sources that it refuses
    """
    left_out = sorted(set(missing))
    if unknown := sorted(set(left_out) - exported_calls()):
        raise ValueError(f"the fake library has no {', '.join(unknown)} to leave out")
    nvml_h = header()
    sources = sorted(SOURCES.glob("fake_nvml*"))
    digest = hashlib.sha256(nvml_h.read_bytes())
    for source in sources:
        digest.update(source.read_bytes())
    digest.update(repr((FLAGS, left_out)).encode())
    directory = cache_dir / digest.hexdigest()[:16]
    if not (directory / LIBRARY).exists():
        _compile(directory, nvml_h.parent, sources, left_out)
    return directory


def _compile(directory: Path, include: Path, sources: list[Path], left_out: list[str]) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        raise FakeBuildError("no C compiler here: install gcc (apt install gcc libc6-dev)")
    directory.mkdir(parents=True, exist_ok=True)
    # Built aside and renamed, so that a test run beside this one never loads half a library.
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        exports = Path(scratch) / "exports"
        kept_in = "".join(f" {name};" for name in left_out)
        exports.write_text(f"{{ global: nvml*; fake_nvml_*; local:{kept_in} *; }};\n")
        built = Path(scratch) / LIBRARY
        command = [compiler, *FLAGS, "-isystem", str(include), f"-Wl,--version-script={exports}"]
        command += [*(str(source) for source in sources if source.suffix == ".c"), "-o", str(built)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise FakeBuildError(f"{compiler} refuses the fake library:\n{done.stderr}")
        built.replace(directory / LIBRARY)


def main() -> None:
    parser = argparse.ArgumentParser(description="compile the fake libnvidia-ml.so.1")
    parser.add_argument("--out", type=Path, required=True, help="folder to put libnvidia-ml.so.1 into")
    parser.add_argument(
        "--missing", nargs="*", default=[], metavar="FUNCTION", help="leave these symbols out"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    print(shutil.copy(library(missing=options.missing) / LIBRARY, options.out / LIBRARY))


if __name__ == "__main__":
    main()
