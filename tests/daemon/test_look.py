"""The host's look at itself, whole: a child over simulated cards, the kernel's log, what is kept and told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from gpumesh.config import Config, GpuConfig, HostConfig
from gpumesh.daemon.clock import boot_time
from gpumesh.daemon.look import Look
from gpumesh.daemon.statedir import StateDirectory
from gpumesh.health.silences import Silences
from gpumesh.model import Event, Gpu, HealthReport, Identity, Severity, Verdict

BOOT = "b0070000-0000-4000-8000-000000000001"


class Host:
    """A host with a simulated H100, and what its looks publish."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.faults = folder / "faults.toml"
        (folder / "dev").mkdir()
        self.kmsg = folder / "dev/kmsg"
        self.kmsg.touch()
        self.num_records = 0
        self.report: HealthReport | None = None
        self.events: list[Event] = []
        self.looks: list[Look] = []
        self.is_drained = False
        self.silences = Silences()
        self.start()

    def start(self, boot_id: str = BOOT) -> Look:
        gpu = GpuConfig(
            backend="simulated",
            simulated=("h100",),
            simulated_faults=str(self.faults),
            deadline_s=30.0,
        )
        self.looks.append(
            Look(
                Config(gpu=gpu, host=HostConfig(state_dir=str(self.folder))),
                StateDirectory(self.folder / "state"),
                self,
                identity=Identity("h1", "pc01", 1, boot_id),
                silences=self.silences,
                own_findings=lambda _now, _unix: (),
                lend=lambda _admission, _reason: None,
                on_report=lambda: None,
                on_event=self.events.append,
                is_drained=lambda: self.is_drained,
                root=self.folder,
            )
        )
        return self.looks[-1]

    def set_health(self, report: HealthReport, now: float) -> None:
        assert now > 0
        self.report = report

    def log(self, text: str) -> None:
        """Have the kernel say this at the first second after its boot."""
        with self.kmsg.open("a") as file:
            file.write(f"4,{self.num_records},1000000,-;{text}\n")
        self.num_records += 1

    async def look(self) -> Gpu:
        await self.looks[-1].look_once()
        assert self.report is not None
        (gpu,) = self.report.gpus
        return gpu


@pytest_asyncio.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    made = Host(tmp_path)
    yield made
    for look in made.looks:
        await look.close()


async def test_an_xid_of_the_driver_becomes_a_finding_an_event_and_a_count(host: Host) -> None:
    assert (await host.look()).verdict is Verdict.HEALTHY
    host.faults.write_text("[gpu.0]\nxid = 119\n")
    gpu = await host.look()
    assert (gpu.verdict, gpu.findings[0].check) == (Verdict.UNHEALTHY, "xid")
    (event,) = host.events
    assert (event.kind, event.subject, event.host) == ("xid", f"gpu/{gpu.uuid}", "pc01")
    assert (event.fields["xid"], event.fields["class"], event.fields["count"]) == (119, "reset", 1)
    probe = host.looks[-1].latest
    assert probe is not None
    assert [(item.uuid, item.xid, item.num_seen) for item in probe.xids] == [(gpu.uuid, 119, 1)]
    await host.look()
    assert len(host.events) == 1


async def test_an_xid_in_the_kernels_log_and_in_the_drivers_events_is_one_event(host: Host) -> None:
    await host.look()
    host.log("NVRM: Xid (PCI:0000:01:00): 31, pid=4242, name=train.py, Ch 0000000c")
    host.faults.write_text("[gpu.0]\nxid = 31\n")
    gpu = await host.look()
    assert gpu.verdict is Verdict.HEALTHY
    (event,) = host.events
    assert (event.fields["count"], event.fields["process"]) == (1, "train.py")


async def test_what_a_card_has_recovered_from_is_not_held_against_it_after_a_restart(host: Host) -> None:
    host.log("NVRM: Xid (PCI:0000:01:00): 109, pid=1, name=a")
    host.faults.write_text("[gpu.0]\nrecovery_action = 1\n")
    assert (await host.look()).verdict is Verdict.UNHEALTHY
    host.log("NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x1 (Reset) to 0x0 (None)")
    await host.look()
    host.faults.write_text("")
    host.kmsg.write_text("")
    host.num_records = 0
    host.log("NVRM: Xid (PCI:0000:01:00): 109, pid=1, name=a")
    host.start()
    assert (await host.look()).findings == ()
    host.start(boot_id="b0070000-0000-4000-8000-000000000002")
    host.faults.write_text("[gpu.0]\nrecovery_action = 1\n")
    assert "xid" in {finding.check for finding in (await host.look()).findings}


async def test_dcgm_exporter_716_a_drained_host_lets_go_of_its_driver_and_takes_it_up_again(
    host: Host,
) -> None:
    before = await host.look()
    host.is_drained = True
    gpu = await host.look()
    assert gpu.uuid == before.uuid
    assert (gpu.verdict, gpu.index) == (Verdict.UNKNOWN, before.index), "not known, and not lost"
    (finding,) = gpu.findings
    assert (finding.check, finding.severity) == ("driver", Severity.INFO)
    assert "uncordon" in finding.reason
    since = finding.since
    assert (await host.look()).findings[0].since == since
    probe = host.looks[-1].latest
    assert probe is not None
    assert (probe.devices, probe.driver) == ((), None)
    host.is_drained = False
    again = await host.look()
    assert (again.verdict, again.findings) == (Verdict.HEALTHY, ())
    assert host.report is not None
    assert "driver" not in {item.check for item in host.report.findings}


async def test_a_drained_host_goes_on_watching_a_card_that_still_computes(host: Host) -> None:
    host.faults.write_text("[gpu.0]\nbusy = true\n")
    assert (await host.look()).is_busy
    host.is_drained = True
    assert (await host.look()).verdict is Verdict.HEALTHY
    host.faults.write_text("")
    assert not (await host.look()).is_busy
    assert (await host.look()).verdict is Verdict.UNKNOWN


async def test_a_card_that_begins_to_look_ill_is_looked_at_more_often(host: Host) -> None:
    await host.look()
    assert host.looks[-1].counters["look_interval_seconds"] == 5.0
    host.faults.write_text("[gpu.0]\npcie_width = 8\n")
    assert (await host.look()).verdict is Verdict.HEALTHY, "it is not told yet"
    assert host.looks[-1].counters["look_interval_seconds"] == 2.0


async def test_a_silence_is_published_without_a_look(host: Host) -> None:
    host.faults.write_text("[gpu.0]\nremap_pending = true\n")
    assert (await host.look()).verdict is Verdict.DEGRADED
    look = host.looks[-1]
    now = boot_time()
    host.silences.add("row-remap", "", 60.0, reason="reset tonight", now=now, unix=now)
    look.take_silences()
    assert host.report is not None
    assert host.report.gpus[0].verdict is Verdict.HEALTHY
    assert look.num_looks == 1
