from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpumesh.cli.checkformats import NAGIOS_MAX_BYTES, NPD_MAX_BYTES, cut, overall_verdict
from gpumesh.model import Finding, HealthReport, Severity, Verdict
from tests.cli.conftest import Call
from tests.samples.fleet import LOST, SampleSource, gpu

SIMULATED = '[gpu]\nbackend = "simulated"\nsimulated = ["rtx-4080-super", "h100"]\nsimulated_faults = "{}"\n'
WARM = replace(LOST, check="temperature", severity=Severity.WARNING, reason="91 °C for 5 min")


def become(source: SampleSource, verdict: Verdict, *findings: Finding) -> None:
    """Give this host one card with this verdict and these findings."""
    view = source.shown
    health = HealthReport(Verdict.HEALTHY, (), (gpu(1, 0, verdict=verdict, findings=findings), gpu(1, 1)))
    source.shown = replace(view, hosts=(replace(view.hosts[0], health=health), *view.hosts[1:]))


@pytest.fixture
def alone(tmp_path: Path, call: Call) -> Path:
    """A host with two simulated cards and no daemon; returns the file of faults."""
    faults = tmp_path / "faults.toml"
    config = tmp_path / "gpumesh.toml"
    state = f'[host]\nname = "pc01"\nstate_dir = "{tmp_path}/state"\n'
    config.write_text(
        state
        + SIMULATED.format(faults)
        + f'[http]\nlisten = "127.0.0.1:1"\n[control]\nsocket = "{tmp_path}/s"\n'
    )
    return faults


def test_check_is_one_line_and_an_exit_code(api: str, call: Call, source: SampleSource) -> None:
    assert call("check", "--api", api).out == "pc01: healthy, 2 GPUs\n"
    view = source.shown
    me = replace(view.hosts[0], health=view.hosts[1].health)
    source.shown = replace(view, hosts=(me, *view.hosts[1:]))
    outcome = call("check", "--api", api)
    assert outcome.code == 1
    assert outcome.out.startswith("pc01: unhealthy, 1 of 2 cards is gone")
    assert outcome.out.count("\n") == 1
    assert json.loads(call("check", "--json", "--api", api).out)["verdict"] == "unhealthy"


def test_unknown_is_never_healthy() -> None:
    assert overall_verdict({"verdict": "healthy", "gpus": [{"verdict": "unknown"}]}) == "unknown"
    assert overall_verdict({"verdict": "odd", "gpus": []}) == "unknown"


def test_a_host_not_looked_at_yet_does_not_pass_the_check(api: str, call: Call, source: SampleSource) -> None:
    view = source.shown
    source.shown = replace(view, hosts=(replace(view.hosts[0], health=None), *view.hosts[1:]))
    assert call("check", "--api", api).code == 1


@pytest.mark.parametrize(
    ("verdict", "word", "codes"),
    [
        (Verdict.HEALTHY, "OK", {"nagios": 0, "npd": 0, "slurm": 0, "plain": 0, "json": 0}),
        (Verdict.DEGRADED, "WARNING", {"nagios": 1, "npd": 0, "slurm": 0, "plain": 1, "json": 1}),
        (Verdict.UNHEALTHY, "CRITICAL", {"nagios": 2, "npd": 1, "slurm": 1, "plain": 1, "json": 1}),
        (Verdict.UNKNOWN, "UNKNOWN", {"nagios": 3, "npd": 2, "slurm": 1, "plain": 1, "json": 1}),
    ],
)
def test_each_asker_is_answered_in_its_own_codes(
    *, verdict: Verdict, word: str, codes: dict[str, int], api: str, source: SampleSource, call: Call
) -> None:
    become(source, verdict, *(() if verdict in {Verdict.HEALTHY, Verdict.UNKNOWN} else (WARM,)))
    for form, code in codes.items():
        assert call("check", "--format", form, "--api", api).code == code
    assert call("check", "--format", "nagios", "--api", api).out.startswith(f"GPU {word} - pc01: ")


def test_a_warning_fails_slurm_and_npd_when_they_say_so(api: str, call: Call, source: SampleSource) -> None:
    become(source, Verdict.DEGRADED, WARM)
    for form in ("slurm", "npd"):
        assert call("check", "--format", form, "--fail-on", "degraded", "--api", api).code == 1
    assert call("check", "--fail-on", "unhealthy", "--api", api).code == 0


def test_nagios_gets_text_a_bar_and_performance_data(api: str, call: Call, source: SampleSource) -> None:
    text, _, data = call("check", "--format", "nagios", "--api", api).out.rstrip("\n").partition(" | ")
    assert text == "GPU OK - pc01: 2 GPUs"
    assert data.split(" ")[:3] == ["gpus=2;;;0", "healthy=2;;;0", "gpu0_temperature=46"]
    assert "gpu1_memory_used=314572800B" in data
    assert "gpu0_power=12.5" in data
    become(source, Verdict.UNHEALTHY, replace(LOST, reason="a|b" * 400))
    line = call("check", "--format", "nagios", "--api", api).out
    assert line.count("|") == 1
    assert len(line.partition(" | ")[0].encode()) <= NAGIOS_MAX_BYTES


def test_npd_gets_at_most_eighty_bytes_of_message(api: str, call: Call, source: SampleSource) -> None:
    assert call("check", "--format", "npd", "--api", api).out == "2 GPUs healthy\n"
    become(source, Verdict.UNHEALTHY, replace(LOST, reason="Grad °" * 100))
    line = call("check", "--format", "npd", "--api", api).out
    assert len(line.rstrip("\n").encode()) <= NPD_MAX_BYTES
    assert line.endswith("...\n")


def test_slurm_gets_a_reason_that_can_stand_in_quotes(api: str, call: Call, source: SampleSource) -> None:
    become(source, Verdict.UNHEALTHY, replace(LOST, reason='it said "lost"\nand \\n'))
    assert call("check", "--format", "slurm", "--api", api).out == (
        "gpumesh: unhealthy, it said 'lost'?and /n\n"
    )


def test_no_character_is_cut_in_half() -> None:
    for limit in range(10, 20):
        assert len(cut("°" * 20, limit).encode()) <= limit
    assert cut("short", 5) == "short"


@pytest.mark.usefixtures("alone")
def test_without_a_daemon_it_looks_itself_and_says_so(call: Call, tmp_path: Path) -> None:
    outcome = call("check")
    assert (outcome.code, outcome.out) == (0, "pc01: healthy, 2 GPUs (one look, no daemon)\n")
    assert not (tmp_path / "state").exists()


def test_without_a_daemon_a_lost_card_fails_the_check(call: Call, alone: Path) -> None:
    alone.write_text("[gpu.1]\nlost = true\n")
    for form, code in (("plain", 1), ("slurm", 1), ("nagios", 2), ("npd", 1)):
        assert call("check", "--format", form).code == code


def test_without_a_driver_nagios_is_critical(call: Call, alone: Path) -> None:
    alone.write_text("driver_absent = true\n")
    outcome = call("check", "--format", "nagios", "--no-daemon")
    assert outcome.code == 2
    assert outcome.out.startswith("GPU CRITICAL - pc01: ")


@pytest.mark.usefixtures("alone")
def test_a_daemon_that_has_not_looked_yet_is_not_waited_for(
    api: str, call: Call, source: SampleSource, tmp_path: Path
) -> None:
    source.probe = None
    config = tmp_path / "gpumesh.toml"
    config.write_text(config.read_text().replace("127.0.0.1:1", api.removeprefix("http://")))
    assert "(one look, no daemon)" in call("check").out


def test_a_named_daemon_that_does_not_answer_is_no_reason_to_look_here(call: Call) -> None:
    for form, code in (("plain", 3), ("slurm", 3), ("nagios", 3), ("npd", 2)):
        outcome = call("check", "--format", form, "--api", "http://127.0.0.1:1")
        assert outcome.code == code
        assert "no answer from the daemon" in outcome.out + outcome.err
    assert call("check", "--format", "nagios", "--api", "http://127.0.0.1:1").out.startswith("GPU UNKNOWN - ")


def test_a_wrong_configuration_is_unknown_to_nagios(call: Call, tmp_path: Path) -> None:
    (tmp_path / "gpumesh.toml").write_text("[gpu]\nintervall = 1\n")
    outcome = call("check", "--format", "nagios")
    assert outcome.code == 3
    assert "gpu" in outcome.out
    assert "intervall" in outcome.out
