from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from gpumesh.cli.status import draw_status
from gpumesh.cli.terminal import Terminal
from gpumesh.health.devices import Probe
from gpumesh.model import Address, HealthReport, Severity, Verdict
from gpumesh.status.documents import status_document
from tests.cli.conftest import Call
from tests.samples.fleet import NO_DRIVER, NOW, SELF_ID, SampleSource, sample_probe, sample_view

Golden = Callable[[str, str], None]


def drawn(document: dict[str, object], width: int | None = None) -> str:
    out = io.StringIO()
    draw_status(Terminal(out, out, width, False), document, NOW)
    return out.getvalue()


@pytest.mark.parametrize("width", [None, 80])
def test_this_host_as_it_was(golden: Golden, width: int | None) -> None:
    document = status_document(sample_view(), sample_probe()) | {"uptime_s": 7200.0}
    golden(f"status{'' if width is None else f'-{width}'}.txt", drawn(document, width))


def test_another_host_as_it_was(api: str, call: Call, golden: Golden) -> None:
    golden("status-degraded.txt", call("status", "pc02", "--api", api).out)


def test_without_a_driver_it_says_so_and_what_to_do(golden: Golden) -> None:
    view = sample_view()
    me = replace(view.hosts[0], health=HealthReport(Verdict.UNHEALTHY, (NO_DRIVER,)))
    probe = Probe(None, error="the library libnvidia-ml.so.1 is not installed (NVML 12)", error_code=12)
    text = drawn(status_document(replace(view, hosts=(me, *view.hosts[1:])), probe))
    assert "driver    none answers: the library libnvidia-ml.so.1 is not installed" in text
    assert "→ install the driver" in text
    golden("status-no-driver.txt", text)


def test_an_unmet_baseline_is_told_even_without_a_finding() -> None:
    document = status_document(sample_view(), sample_probe())
    document["baseline"]["items"][0].update(met=False, found="525.60.11", advice="upgrade to 550.54.14")
    text = drawn(document)
    assert "baseline: driver is 525.60.11, expected 535.154.05 or 550.54.14 and later" in text
    assert "→ upgrade to 550.54.14" in text


@pytest.mark.parametrize(
    ("transport", "told"),
    [("udp", ""), ("stream", " (streams only)"), ("return", " (not reached there, but where it calls from)")],
)
def test_an_address_that_datagrams_do_not_reach_is_told_beside_it(transport: str, told: str) -> None:
    view = sample_view()
    me = replace(view.hosts[0], transport=transport)
    text = drawn(status_document(replace(view, hosts=(me, *view.hosts[1:])), sample_probe()))
    [line] = [line.rstrip() for line in text.splitlines() if line.strip().startswith("address")]
    assert line.endswith(f"{me.address}{told}")


@pytest.mark.parametrize(("transport", "is_told"), [("udp", False), ("stream", False), ("return", True)])
def test_a_host_behind_a_router_that_lets_in_answers_only_is_told_with_the_way_out(
    transport: str, *, is_told: bool
) -> None:
    view = sample_view()
    me = replace(view.hosts[0], transport=transport, address=Address("10.0.0.5", 7999))
    document = status_document(replace(view, hosts=(me, *view.hosts[1:])), sample_probe())
    text = " ".join(drawn(document).split())
    advice = "→ at the router forward UDP and TCP 7999 to this host, and set gossip.advertise on it"
    assert (advice in text) == is_told


def test_status_of_this_host_comes_with_readings(api: str, call: Call) -> None:
    document = json.loads(call("status", "--json", "--api", api).out)
    assert document["host_id"] == SELF_ID
    assert document["gpus"][0]["reading"]["power_w"] == 12.5


def test_an_unknown_host_is_a_usage_error(api: str, call: Call) -> None:
    outcome = call("status", "pc1", "--api", api)
    assert (outcome.code, outcome.out) == (2, "")
    assert "did you mean pc01?" in outcome.err


def test_a_silenced_finding_is_shown_last_with_its_end_and_does_not_fail_the_check(
    api: str, call: Call, source: SampleSource
) -> None:
    silenced = replace(NO_DRIVER, check="pcie", reason="8 of 16 lanes", silenced_until=NOW + 3600)
    told = replace(NO_DRIVER, severity=Severity.INFO, reason="for your information")
    view = source.shown
    health = view.hosts[0].health
    assert health is not None
    me = replace(view.hosts[0], health=replace(health, findings=(silenced, told)))
    source.shown = replace(view, hosts=(me, *view.hosts[1:]))
    out = call("status", "--api", api).out
    assert "z host: 8 of 16 lanes (silenced until 2027-01-15 09:00 UTC)" in out
    assert out.index("for your information") < out.index("8 of 16 lanes")
    assert call("check", "--api", api).code == 0


@pytest.mark.parametrize("is_known", [True, False])
def test_a_resting_card_is_shown_with_the_age_of_what_it_said_and_never_as_if_live(is_known: bool) -> None:
    probe = sample_probe()
    card = probe.devices[0]
    asleep = replace(
        card,
        reading=None,
        is_resting=True,
        last_reading=card.reading if is_known else None,
        last_read_unix=NOW - 180 if is_known else None,
    )
    text = drawn(status_document(sample_view(), replace(probe, devices=(asleep, probe.devices[1]))))
    row, note = text[text.index("UUID\n") :].splitlines()[1:3]
    assert "°C" not in row
    if is_known:
        assert note.strip() == "rests and is not woken; 3 min ago it said 46 °C, 12/320 W, 3 %"
    else:
        assert note.strip() == "rests and is not woken; not read since the daemon's start"
