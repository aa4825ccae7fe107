"""``init``, ``token``, ``join`` and ``leave``: how a fleet is made and how a host becomes a member of it."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Final

from gpumesh.cli import edit, fleetfiles, token
from gpumesh.cli.client import DaemonClient
from gpumesh.cli.session import Session
from gpumesh.cli.unit import act_on_unit
from gpumesh.config import DEFAULT_PATH, Config
from gpumesh.config.fields import parse_endpoint
from gpumesh.errors import GpumeshError, RequestError, UnreachableError

MEET_S: Final = 20.0
"""How long ``join`` watches for the fleet before it says that nobody was met."""


def configure_init(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``init``."""
    parser.description = "Make a new fleet with this host as its first member: configuration and key."
    parser.add_argument("--fleet", metavar="LABEL", help="the fleet's label (default: default)")
    parser.add_argument("--name", metavar="NAME", help="this host's name for people")
    parser.add_argument("--advertise", metavar="ADDRESS:PORT", help="where peers reach this host, behind NAT")
    _add_restart_option(parser)


def run_init(args: argparse.Namespace, session: Session) -> int:
    """Write configuration and key, and let a running daemon take them up."""
    wanted = {
        ("gossip", "fleet"): args.fleet,
        ("host", "name"): args.name,
        ("gossip", "advertise"): args.advertise,
    }
    changes: dict[tuple[str, str], edit.Value] = {key: value for key, value in wanted.items() if value}
    config, is_new = fleetfiles.make_fleet(_path(session), changes)
    if is_new:
        session.terminal.write(f"made a key for fleet {config.gossip.fleet}: {config.gossip.key_file}")
    else:
        session.terminal.write(
            f"{config.gossip.key_file} exists: this host is already a member of fleet {config.gossip.fleet}; "
            "its key stays as it is"
        )
    act_on_unit(session, "restart-if-running", is_wanted=not args.no_restart)
    session.terminal.write(
        "next: `sudo gpumesh token` here, then `sudo gpumesh join TOKEN` on the other hosts"
    )
    return 0


def configure_token(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``token``."""
    parser.description = "Print the one string that the next host joins by. It holds the fleet's key."
    parser.add_argument(
        "--seed",
        action="append",
        default=[],
        metavar="ADDRESS:PORT",
        help="host to join by (default: this one)",
    )


def run_token(args: argparse.Namespace, session: Session) -> int:
    """Print the token; seeds are this host and up to two ready peers."""
    config = session.config()
    for seed in args.seed:
        _check_seed(seed)
    fleetfiles.read_keys(Path(config.gossip.key_file))
    made = fleetfiles.make_token(config, args.seed or _seeds(config, session))
    if session.is_json:
        session.print_json({"token": token.encode(made), "fleet": made.fleet, "seeds": list(made.seeds)})
    else:
        session.terminal.write(token.encode(made))
    if sys.stdout.isatty():
        session.terminal.complain("whoever has this string can join: pass it on as you would a password")
    return 0


def configure_join(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``join``."""
    parser.description = "Make this host a member of the fleet that the token names."
    parser.add_argument("token", metavar="TOKEN", help="what `gpumesh token` printed; - reads it from stdin")
    parser.add_argument("--name", metavar="NAME", help="this host's name for people")
    parser.add_argument("--force", action="store_true", help="leave another fleet's key behind, kept as .old")
    _add_restart_option(parser)


def run_join(args: argparse.Namespace, session: Session) -> int:
    """Write the fleet's key and seeds, restart the daemon, and wait until a peer is met."""
    word = sys.stdin.readline() if args.token == "-" else args.token  # noqa: S105 - a flag, no secret
    joining = token.decode(word)
    was_member = fleetfiles.is_member(_path(session), joining)
    config = fleetfiles.join_fleet(_path(session), joining, force=args.force)
    if args.name:
        config = fleetfiles.set_name(_path(session), args.name)
    since = "was already" if was_member else "is now"
    session.terminal.write(f"this host {since} a member of fleet {config.gossip.fleet}")
    if not act_on_unit(session, "restart", is_wanted=not args.no_restart):
        return 0
    return _await_peers(session, joining)


def configure_leave(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``leave``."""
    parser.description = "Say goodbye to the fleet and stop the daemon; `systemctl start gpumesh` comes back."


def run_leave(_: argparse.Namespace, session: Session) -> int:
    """Ask the daemon to leave."""
    session.control().post("/v1/leave", {})
    session.terminal.write("this host says goodbye and stops; `systemctl start gpumesh` brings it back")
    return 0


def _path(session: Session) -> Path:
    return session.config_path or DEFAULT_PATH


def _add_restart_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-restart", action="store_true", help="write the files only")


def _check_seed(seed: str) -> None:
    try:
        parse_endpoint(seed)
    except ValueError as error:
        raise RequestError(f"--seed {seed}: {error}") from error


def _seeds(config: Config, session: Session) -> list[str]:
    """Return this host's address as its peers know it, and those of two ready peers."""
    if config.gossip.advertise:
        return [config.gossip.advertise]
    try:
        hosts = session.daemon().get("/v1/fleet")["hosts"]
    except UnreachableError as error:
        raise UnreachableError(
            f"the daemon must run to know its own address, or name it with --seed ADDRESS:PORT\n  {error}"
        ) from error
    mine = [host["address"] for host in hosts if host["self"]]
    peers = [host["address"] for host in hosts if not host["self"] and host["reachability"] == "alive"]
    if any(seed.startswith(("127.", "[::1]")) for seed in mine):
        raise GpumeshError(
            "this daemon runs on loopback alone, so others cannot join it: `systemctl restart gpumesh` after "
            "`gpumesh init`, or name its address with --seed ADDRESS:PORT"
        )
    return [*mine, *peers[: token.MAX_SEEDS - 3]]


def _await_peers(session: Session, joining: token.Token) -> int:
    daemon: DaemonClient = session.daemon()
    give_up_at = time.monotonic() + MEET_S
    while time.monotonic() < give_up_at:
        try:
            hosts = daemon.get("/v1/fleet")["hosts"]
        except UnreachableError:
            hosts = []
        alive = [host["name"] for host in hosts if not host["self"] and host["reachability"] == "alive"]
        if alive:
            session.terminal.write(f"met {', '.join(sorted(alive)[:8])}{' …' if len(alive) > 8 else ''}")  # noqa: PLR2004
            return 0
        time.sleep(0.3)
    session.terminal.complain(
        f"nobody was met within {MEET_S:.0f} s at {', '.join(joining.seeds)}; the daemon goes on trying. "
        "Check that UDP and TCP port 7977 are open both ways, and `journalctl -u gpumesh` on both hosts"
    )
    return 1
