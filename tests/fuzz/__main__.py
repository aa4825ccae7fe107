"""``python -m tests.fuzz``: each target under atheris (guided by coverage) for a bounded time, one by one.

What a target fails on is kept in tests/fuzz/found/ and said with the command that replays it.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

FOUND = Path(__file__).parent / "found"
RSS_LIMIT_MB = 1024
ALLOCATION_LIMIT_MB = 64
"""The largest single allocation: far above what any input may cause."""
MISSING = f"""\
nothing was fuzzed: atheris is not installed for {sys.executable} (Python {sys.version.split()[0]})
It has wheels for Python 3.10 to 3.13 on x86-64 Linux: {sys.executable} -m pip install 'atheris>=2.3'
The same targets, without its guidance, are among the tests: pytest tests/fuzz
"""
NAMES = ("datagram", "frame", "channel", "record", "unsealed", "membership", "mesh")


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(NAMES)}; default: all")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default 60)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="feed one input to one target, and stop")
    parser.add_argument("--corpus", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(words)


def _has_atheris() -> bool:
    try:
        return importlib.util.find_spec("atheris") is not None
    except ValueError:  # what was imported under that name is none
        return False


def _run_under_atheris(name: str, seconds: int, corpus: Path) -> None:
    """Fuzz one target in this process; ends the process."""
    import atheris  # noqa: PLC0415 - only here: tests do without it

    with atheris.instrument_imports(include=["gpumesh"]):
        from tests.fuzz.targets import TARGETS  # noqa: PLC0415 - instrumented as it is imported
    target = TARGETS[name]
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={target.max_bytes}",
        f"-rss_limit_mb={RSS_LIMIT_MB}",
        f"-malloc_limit_mb={ALLOCATION_LIMIT_MB}",
        "-timeout=10",
        "-print_final_stats=1",
        f"-artifact_prefix={FOUND / name}-",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus), str(FOUND)], target.feed)
    atheris.Fuzz()


def _replay(name: str, path: Path) -> int:
    from tests.fuzz.targets import TARGETS  # noqa: PLC0415 - as above

    TARGETS[name].feed(path.read_bytes())
    sys.stdout.write(f"{name}: {path} is fine\n")
    return 0


def main(words: list[str] | None = None) -> int:
    """Run the targets asked for; 1: one failed, and its input was kept, or none could be run."""
    args = _arguments(words)
    names = args.targets or list(NAMES)
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        sys.stderr.write(f"no target {unknown[0]!r}; there are {', '.join(NAMES)}\n")
        return 2
    if args.replay is not None:
        return _replay(names[0], args.replay)
    if not _has_atheris():
        sys.stderr.write(MISSING)
        return 1
    if args.corpus is not None:
        _run_under_atheris(names[0], args.seconds, args.corpus)
    failed: list[str] = []
    for name in names:
        known = set(FOUND.glob("*-*"))
        sys.stdout.write(f"== {name}: {args.seconds} s\n")
        sys.stdout.flush()
        with tempfile.TemporaryDirectory() as corpus:
            command = [
                sys.executable,
                "-m",
                "tests.fuzz",
                name,
                "--seconds",
                str(args.seconds),
                "--corpus",
                corpus,
            ]
            if subprocess.run(command, check=False).returncode != 0:
                found = sorted(set(FOUND.glob("*-*")) - known)
                failed += [f"python -m tests.fuzz {name} --replay {path}" for path in found] or [name]
    for again in failed:
        sys.stdout.write(f"FAILED, again: {again}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
