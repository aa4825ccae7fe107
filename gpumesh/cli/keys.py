"""``keys``: the fleet's keys on this host, changed while the fleet lives and without losing anybody.

A rotation is four steps, each on every host before the next one begins: ``add`` the new key (all accept it),
``use`` it (all send with it), then ``remove`` the old one. A host that was off meanwhile finds a fleet whose
key it lacks; its daemon says which (serf#579, consul#719).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from gpumesh.cli import fleetfiles
from gpumesh.cli.session import Session
from gpumesh.cli.unit import act_on_unit
from gpumesh.config.keyring import FleetKey, Keyring, new_key, parse_key
from gpumesh.errors import RequestError

_VERBS: Final = ("list", "add", "use", "remove")


def configure_keys(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``keys``."""
    parser.description = (
        "Show or change the fleet's keys on this host. To rotate: add the new key on every host, then use it "
        "on every host, then remove the old one on every host."
    )
    parser.add_argument("verb", choices=_VERBS, help="what to do with this host's keys")
    parser.add_argument(
        "key",
        nargs="?",
        help="for add: the key, - to read it from stdin, or nothing to make one and print it; for use and "
        "remove: the key's id, as list shows it",
    )
    parser.add_argument("--no-reload", action="store_true", help="write the file only")


def run_keys(args: argparse.Namespace, session: Session) -> int:
    """Run one of the verbs; a changed file is taken up by the daemon at once."""
    path = Path(session.config().gossip.key_file)
    ring = fleetfiles.read_ring(path)
    if args.verb == "list":
        _show(ring, path, session)
        return 0
    if args.verb == "add":
        changed = ring.with_key(_key_to_add(args.key, session))
    elif args.key is None:
        raise RequestError(f"keys {args.verb} needs the id of a key; `gpumesh keys list` shows them")
    elif args.verb == "use":
        changed = ring.sending_with(args.key)
    else:
        changed = ring.without(args.key)
    if changed == ring:
        session.terminal.complain("nothing to change")
    else:
        fleetfiles.write_ring(path, changed)
        act_on_unit(session, "reload", is_wanted=not args.no_reload)
    _show(changed, path, session)
    return 0


def _key_to_add(text: str | None, session: Session) -> FleetKey:
    if text is None:
        made = new_key()
        session.terminal.complain(f"a new key; on every other host: sudo gpumesh keys add {made}")
        return parse_key(made)
    return parse_key(sys.stdin.readline() if text == "-" else text)


def _show(ring: Keyring, path: Path, session: Session) -> None:
    sending, *others = ring.key_ids
    if session.is_json:
        session.print_json({"key_file": str(path), "sends_with": sending, "accepts": list(ring.key_ids)})
        return
    session.terminal.write(f"{sending}  sends and accepts")
    for key_id in others:
        session.terminal.write(f"{key_id}  accepts")
