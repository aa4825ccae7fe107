"""``gpumesh status``: one host in full."""

from __future__ import annotations

import argparse
from typing import Final
from urllib.parse import quote

from gpumesh.cli.findings import finding_lines, findings_of
from gpumesh.cli.formats import UNKNOWN, Document, age, amount, model, part_of, plural, since, span, wrap
from gpumesh.cli.gpus import use
from gpumesh.cli.instances import instance_lines
from gpumesh.cli.session import Session
from gpumesh.cli.table import Cell, Column, Row, draw
from gpumesh.cli.terminal import TONE_OF, Terminal, Tone, clean

_COLUMNS: Final = (
    Column("GPU", is_right=True),
    Column("MODEL"),
    Column("VERDICT"),
    Column("TEMP", is_right=True),
    Column("POWER", is_right=True, drop=2),
    Column("UTIL", is_right=True),
    Column("FREE", is_right=True),
    Column("USE", drop=1),
    Column("CLOCK", is_right=True, drop=3),
    Column("PCIE", drop=4),
    Column("PCI", drop=5),
    Column("UUID", drop=6),
)
_WAYS: Final = {"stream": " (streams only)", "return": " (not reached there, but where it calls from)"}
"""What is told of a host's address when datagrams do not reach it there."""


def configure_status(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``status``."""
    parser.add_argument("host", nargs="?", help="another host: its name, its id or the start of its id")


def run_status(args: argparse.Namespace, session: Session) -> int:
    """Show one host."""
    path = f"/v1/hosts/{quote(args.host, safe='')}" if args.host else "/v1/status"
    document = session.daemon().get(path)
    if session.is_json:
        session.print_json(document)
    else:
        draw_status(session.terminal, document, session.clock())
    return 0


def draw_status(terminal: Terminal, host: Document, now: float) -> None:
    """Write one host as of ``now``, Unix seconds."""
    state = terminal.paint(host["state"], TONE_OF.get(host["state"], Tone.PLAIN))
    terminal.write(
        f"{terminal.paint(clean(host['name']), Tone.STRONG)} is {state}, for {since(host['since'], now)}"
    )
    if host["reason"]:
        for line in wrap(host["reason"], terminal.width, "  "):
            terminal.write(line)
    terminal.write()
    for title, text in _facts(host):
        terminal.write(f"  {terminal.paint(f'{title:<10}', Tone.SOFT)}{clean(text)}")
        if title == "address" and host["transport"] == "return":
            for line in wrap(_way_out(host["address"]), terminal.width, "    "):
                terminal.write(line)
    if host["gpus"]:
        terminal.write()
        draw(terminal, _COLUMNS, [_gpu_row(terminal, gpu, now) for gpu in host["gpus"]])
    lines = finding_lines(terminal, findings_of(host), host["gpus"], "  ")
    lines += _baseline_lines(terminal, host)
    if lines:
        terminal.write()
        terminal.write(terminal.paint("findings", Tone.SOFT))
        for line in lines:
            terminal.write(line)


def _facts(host: Document) -> list[tuple[str, str]]:
    facts = [
        ("health", f"host {host['verdict']}, {_gpu_health(host['gpus'])}"),
        ("driver", _driver(host)),
        ("heard", "this host" if host["self"] else age(host["evidence_age_s"])),
        ("address", host["address"] + _WAYS.get(host["transport"], "")),
        ("work", _admission(host)),
        ("id", f"{host['host_id']}, run {host['epoch']}" + _uptime(host)),
    ]
    if host["labels"]:
        facts.append(("labels", " ".join(f"{key}={value}" for key, value in host["labels"].items())))
    if host["kernel"] or host["os"]:
        facts.append(("system", ", ".join(part for part in (host["os"], host["kernel"]) if part)))
    if host["baseline"]:
        facts.append(("baseline", _baseline(host["baseline"])))
    if "fleet" in host:
        states = ", ".join(f"{number} {state}" for state, number in host["peer_states"].items())
        peers = plural(host["num_peers"], "peer")
        facts.append(("fleet", f"{host['fleet']}, {peers}" + (f" ({states})" if states else "")))
    return facts


def _way_out(address: str) -> str:
    """Return what makes a host reachable at its address that is so only where it calls from."""
    port = address.rpartition(":")[2]
    return f"→ at the router forward UDP and TCP {port} to this host, and set gossip.advertise on it"


def _gpu_health(gpus: list[Document]) -> str:
    if not gpus:
        return "no GPU known"
    healthy = sum(gpu["verdict"] == "healthy" for gpu in gpus)
    return f"{healthy} of {plural(len(gpus), 'GPU')} healthy"


def _driver(host: Document) -> str:
    if not host["driver_version"]:
        probe = host.get("probe")
        return "none answers" + (f": {probe['error']}" if probe and probe["error"] else "")
    cuda = f", CUDA {host['cuda_version']}" if host["cuda_version"] else ""
    return f"{host['driver_version']}{cuda}"


def _admission(host: Document) -> str:
    reason = f" ({host['admission_reason']})" if host["admission_reason"] else ""
    return f"{host['admission']}{reason}, {host['phase']}"


def _uptime(host: Document) -> str:
    return f", up {span(host['uptime_s'])}" if "uptime_s" in host else ""


def _baseline(baseline: Document) -> str:
    unmet = [item["name"] for item in baseline["items"] if item["met"] is False]
    unknown = [item["name"] for item in baseline["items"] if item["met"] is None]
    words = [f"not met: {', '.join(unmet)}"] if unmet else []
    words += [f"not known: {', '.join(unknown)}"] if unknown else []
    return f"{'; '.join(words) or 'met'} ({baseline['mode']}, {baseline['source']})"


def _baseline_lines(terminal: Terminal, host: Document) -> list[str]:
    """Return the unmet items that no finding tells of already (in mode ``warn`` there may be none)."""
    told = {finding["check"] for finding in host["findings"]}
    lines: list[str] = []
    for item in host["baseline"]["items"] if host["baseline"] else ():
        if item["met"] is not False or told & {"baseline", item["name"]}:
            continue
        text = f"baseline: {item['name']} is {item['found']}, expected {item['expected']}"
        lines.extend(wrap(text, terminal.width, "  · ", "    "))
        if item["advice"]:
            lines.extend(wrap(f"→ {item['advice']}", terminal.width, "    "))
    return lines


def _gpu_row(terminal: Terminal, gpu: Document, now: float) -> Row:
    reading = gpu.get("reading") or {}
    clock = reading.get("sm_clock_mhz")
    pcie = (reading.get("pcie_gen"), reading.get("pcie_width"))
    free = reading.get("memory_free_bytes", gpu["memory_free_bytes"])
    return Row(
        (
            Cell("gone" if gpu["index"] is None else str(gpu["index"])),
            Cell(model(gpu["model"]), Tone.STRONG),
            Cell(gpu["verdict"], TONE_OF.get(gpu["verdict"], Tone.PLAIN)),
            Cell(amount(reading["temperature_c"], "°C") if "temperature_c" in reading else ""),
            Cell(_power(reading)),
            Cell(_percent(reading.get("utilization_gpu_percent"))),
            Cell(part_of(free, gpu["memory_bytes"])),
            Cell(use(gpu["busy"])),
            Cell(amount(clock, "MHz") if clock is not None else ""),
            Cell(f"Gen {pcie[0]} x{pcie[1]}" if None not in pcie else ""),
            Cell(gpu["pci_bus_id"] or UNKNOWN, Tone.SOFT),
            Cell(gpu["uuid"], Tone.SOFT),
        ),
        (
            *(terminal.paint(line, Tone.SOFT) for line in _rest_lines(terminal, gpu, now)),
            *instance_lines(terminal, gpu),
        ),
    )


def _rest_lines(terminal: Terminal, gpu: Document, now: float) -> list[str]:
    """Return what a card said before it was let sleep, and how long ago that was; nothing of it is live."""
    if not gpu.get("resting"):
        return []
    last = gpu.get("last_reading")
    if not last:
        return wrap("rests and is not woken; not read since the daemon's start", terminal.width, "    ")
    said = [
        amount(last["temperature_c"], "°C") if "temperature_c" in last else "",
        _power(last),
        _percent(last.get("utilization_gpu_percent")),
    ]
    words = ", ".join(part for part in said if part) or "nothing shown here"
    text = f"rests and is not woken; {since(gpu['last_read'], now)} ago it said {words}"
    return wrap(text, terminal.width, "    ")


def _power(reading: Document) -> str:
    drawn, limit = reading.get("power_w"), reading.get("power_limit_w")
    if drawn is None:
        return ""
    return f"{drawn:.0f}/{limit:.0f} W" if limit is not None else f"{drawn:.0f} W"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} %"
