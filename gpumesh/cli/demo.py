"""``demo``: a fleet of five on loopback, one card lost, one host killed, before your eyes."""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from gpumesh.cli.demofleet import DemoFleet, ended_by_signals
from gpumesh.cli.fleet import draw_fleet
from gpumesh.cli.place import draw_decision
from gpumesh.cli.session import Session
from gpumesh.cli.terminal import Tone
from gpumesh.errors import GpumeshError

KEY: Final = "demo-job"
STEP_S: Final = 45.0
"""Longest that one step may take before the demo says that it failed."""
_REDRAW_S: Final = 0.5
_HOME: Final = "\x1b[H\x1b[J"
_HOSTS: Final = {
    "cafe-01": ("rtx-4080-super",),
    "cafe-02": ("rtx-4080-super", "rtx-2080-super"),
    "bench-01": ("rtx-2080-super", "rtx-2080-super"),
    "render-01": ("h100", "h100"),
    "render-02": ("h200", "h200"),
}

Fleet = Mapping[str, Mapping[str, Any]]


def configure_demo(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``demo``."""
    parser.description = (
        "Five real daemons on loopback with simulated cards: they meet, say where work should run, lose a "
        "card, lose a host, and say again. Ends by itself in under two minutes and leaves nothing behind."
    )
    parser.add_argument(
        "--pause", type=float, default=3.0, metavar="S", help="how long each picture stays (3)"
    )
    parser.add_argument("--keep", action="store_true", help="keep the daemons' directory, with their logs")


def run_demo(args: argparse.Namespace, session: Session) -> int:
    """Play the story; exit code 1 if a step did not happen."""
    directory = Path(tempfile.mkdtemp(prefix="gpumesh-demo-"))
    fleet = DemoFleet(directory)
    try:
        with ended_by_signals(fleet):
            for name, profiles in _HOSTS.items():
                fleet.add(name, profiles)
            _Story(fleet, session, pause_s=max(0.0, args.pause)).play()
    except GpumeshError as error:
        session.terminal.complain(f"{error}\n  the daemons' logs are in {directory}")
        return 1
    if args.keep:
        session.terminal.write(f"the daemons' directory: {directory}")
    else:
        _remove(directory)
    return 0


@dataclass(slots=True)
class _Story:
    """The steps, each of which must be seen in the fleet's own words before the next begins."""

    fleet: DemoFleet
    session: Session
    pause_s: float
    witness: str = "cafe-01"
    """The host through whose eyes the fleet is drawn; another one when it is the one that dies."""
    headline: str = ""
    """The step that is being played, kept in sight above the fleet."""

    def play(self) -> None:
        """Run all steps. Errors: GpumeshError naming the step that did not happen."""
        self._say("1. Five hosts start. Each knows one address; gossip does the rest.")
        for name in self.fleet.hosts:
            self.fleet.start(name)
        self._watch("all five are ready", lambda seen: _all_ready(seen, len(self.fleet.hosts)))

        self._say(f"2. Any host says where work should run: gpumesh place --key {KEY}")
        chosen = self._place()
        self._compare(chosen)

        victim = next(name for name in ("bench-01", "render-01") if name != chosen)
        self._say(
            f"3. A card of {victim} falls off the bus. The host answers on, degraded; its other card stays."
        )
        self.fleet.lose_gpu(victim, 1)
        self._watch(f"{victim} is degraded", lambda seen: seen[victim]["state"] == "degraded")

        self._say(f"4. {chosen} is killed without a goodbye. Nobody is told; the others notice.")
        killed_at = time.monotonic()
        self.fleet.kill(chosen)
        if self.witness == chosen:
            self.witness = next(name for name in self.fleet.running() if name != victim)
        self._watch(f"{chosen} is failed", lambda seen: seen[chosen]["state"] == "failed")
        self.session.terminal.write(
            f"{chosen} failed in {self.witness}'s eyes after {time.monotonic() - killed_at:.1f} s"
        )

        self._say("5. The same question, the same answer everywhere, and it is another host.")
        again = self._place()
        if again == chosen:
            raise GpumeshError(f"work was still placed on {chosen}, which is dead")
        self._compare(again)
        self._end()

    def _end(self) -> None:
        self._say("6. The rest say goodbye.")
        codes = self.fleet.stop()
        if any(codes.values()):
            raise GpumeshError(f"not every daemon ended cleanly: {codes}")
        self.session.terminal.write(f"{len(codes)} daemons ended cleanly")

    def _say(self, line: str) -> None:
        terminal = self.session.terminal
        self.headline = terminal.paint(line, Tone.STRONG)
        terminal.write()
        terminal.write(self.headline)
        terminal.out.flush()

    def _place(self) -> str:
        """Ask the witness where the demo's job should run, draw the answer, return the host's name."""
        document = self.fleet.hosts[self.witness].client().get("/v1/placement", [("key", KEY)])
        draw_decision(self.session.terminal, document)
        self.session.terminal.out.flush()
        time.sleep(self.pause_s)
        if document["chosen"] is None:
            raise GpumeshError(f"nowhere to place {KEY}: {document['reason']}")
        return str(document["chosen"]["host"])

    def _compare(self, expected: str) -> None:
        """See that every running host gives the same answer, at the latest once gossip has reached all."""
        give_up_at = time.monotonic() + STEP_S
        while True:
            answers = {name: self._answer_of(name) for name in self.fleet.running()}
            if set(answers.values()) == {expected}:
                break
            if time.monotonic() > give_up_at:
                raise GpumeshError(f"the hosts do not agree on where {KEY} should run: {answers}")
            time.sleep(_REDRAW_S)
        self.session.terminal.write(f"asked {len(answers)} hosts: all say {expected}")

    def _answer_of(self, name: str) -> str:
        chosen = self.fleet.hosts[name].client().get("/v1/placement", [("key", KEY)])["chosen"]
        return str(chosen["host"]) if chosen else "nowhere"

    def _watch(self, step: str, is_reached: Callable[[Fleet], bool]) -> None:
        """Draw the fleet as it changes until the step is reached, then let the picture stand."""
        terminal = self.session.terminal
        drawn = ""
        give_up_at = time.monotonic() + STEP_S
        while True:
            seen = self.fleet.fleet_as_seen_by(self.witness)
            picture = self._picture() if seen else ""
            is_done = bool(seen) and is_reached(seen)
            if is_done or (terminal.width is not None and picture != drawn):
                above = f"{_HOME}{self.headline}\n\n" if terminal.width is not None else ""
                terminal.out.write(above + picture)
                terminal.out.flush()
                drawn = picture
            if is_done:
                break
            if time.monotonic() > give_up_at:
                raise GpumeshError(f"after {STEP_S:.0f} s it still does not hold that {step}")
            time.sleep(_REDRAW_S)
        time.sleep(self.pause_s)

    def _picture(self) -> str:
        page = io.StringIO()
        document = self.fleet.hosts[self.witness].client().get("/v1/fleet")
        draw_fleet(replace(self.session.terminal, out=page), document, time.time())
        return page.getvalue()


def _all_ready(seen: Fleet, num_hosts: int) -> bool:
    return len(seen) == num_hosts and all(host["state"] == "ready" for host in seen.values())


def _remove(directory: Path) -> None:
    import shutil  # noqa: PLC0415 - once, at the end

    shutil.rmtree(directory, ignore_errors=True)
