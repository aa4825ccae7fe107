"""The ``gpumesh`` command: finds the sub-command, runs it, and turns errors into words and exit codes."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import gpumesh
from gpumesh.cli.commands import COMMANDS, Command
from gpumesh.cli.problem import ProblemError
from gpumesh.cli.session import Session
from gpumesh.cli.terminal import Terminal
from gpumesh.errors import ConfigError, GpumeshError, RequestError, UnreachableError, did_you_mean

_SERVER_FAULT: Final = 500
_INTERRUPTED: Final = 130


class Exit(IntEnum):
    """The exit codes, the same for every command."""

    FINE = 0
    NO = 1
    USAGE = 2
    UNREACHABLE = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; argparse itself leaves by SystemExit (code 0 or 2)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the locale cannot write must not end the run
            stream.reconfigure(errors="replace")
    command, options = parse(sys.argv[1:] if argv is None else argv)
    terminal = Terminal.of(sys.stdout, sys.stderr, os.environ, color=not options.no_color)
    return run(command, options, Session.of(options, terminal))


def parse(argv: Sequence[str]) -> tuple[Command, argparse.Namespace]:
    """Return the command and all options; global ones may stand before or after its name."""
    top = _top_parser()
    options = top.parse_args(argv)
    if options.command is None:
        top.print_help()
        top.exit(Exit.USAGE)
    known = {command.name: command for command in COMMANDS}
    command = known.get(options.command)
    if command is None:
        hint = did_you_mean(options.command, known, "`gpumesh --help` lists the commands")
        top.error(f"unknown command {options.command!r}; {hint}")
    parser = argparse.ArgumentParser(
        prog=f"gpumesh {command.name}", description=f"{command.summary[0].upper()}{command.summary[1:]}."
    )
    _add_global_options(parser, is_first=False)
    configure, _ = command.load()
    configure(parser)
    return command, parser.parse_args(options.rest, options)


def run(command: Command, options: argparse.Namespace, session: Session) -> int:
    """Run the command; whatever goes wrong is said in one place."""
    _, action = command.load()
    try:
        code = action(options, session)
        session.terminal.out.flush()
    except UnreachableError as error:
        session.terminal.complain(str(error))
        return Exit.UNREACHABLE
    except (ConfigError, RequestError) as error:
        session.terminal.complain(str(error))
        return Exit.USAGE
    except ProblemError as error:
        session.terminal.complain(str(error))
        return Exit.UNREACHABLE if error.status >= _SERVER_FAULT else Exit.USAGE
    except GpumeshError as error:
        session.terminal.complain(str(error))
        return Exit.NO
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FINE
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


def _top_parser() -> argparse.ArgumentParser:
    width = max(len(command.name) for command in COMMANDS)
    listing = "\n".join(f"  {command.name:{width}}  {command.summary}" for command in COMMANDS)
    parser = argparse.ArgumentParser(
        prog="gpumesh",
        usage="gpumesh [options] COMMAND …",
        description="A fleet of GPU hosts that governs itself.",
        epilog=f"commands:\n{listing}\n\n`gpumesh COMMAND --help` says more. "
        "Exit codes: 0 fine, 1 the answer is no, 2 usage, 3 the daemon cannot be reached.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gpumesh {gpumesh.__version__}")
    _add_global_options(parser, is_first=True)
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _add_global_options(parser: argparse.ArgumentParser, *, is_first: bool) -> None:
    """Add the options that all commands share; the second time they keep what stood before the command."""
    nothing, no = ("", False) if is_first else (argparse.SUPPRESS, argparse.SUPPRESS)
    parser.add_argument("-c", "--config", metavar="FILE", default=nothing, help="configuration file")
    parser.add_argument("--api", metavar="URL", default=nothing, help="ask the daemon there instead")
    parser.add_argument("--json", action="store_true", default=no, help="print JSON")
    parser.add_argument("--no-color", action="store_true", default=no, help="no colours, also by NO_COLOR")


if __name__ == "__main__":
    sys.exit(main())
