from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

import pytest

from gpumesh.cli.instances import instance_lines
from gpumesh.cli.status import draw_status
from gpumesh.cli.terminal import Terminal
from gpumesh.status.documents import Document, status_document
from tests.cli.conftest import Call
from tests.samples.carved import carved_probe, carved_view
from tests.samples.fleet import NOW, SampleSource

Golden = Callable[[str, str], None]


def lines_of(gpu: Document, width: int | None = None) -> list[str]:
    out = io.StringIO()
    return instance_lines(Terminal(out, out, width, False), gpu)


def instance(**values: object) -> Document:
    return {"uuid": "MIG-1", "gpu_instance": 9, "compute_instance": 0, "profile": "1g.10gb", **values}


@pytest.mark.parametrize("width", [None, 60])
def test_status_shows_each_instance_under_its_card(golden: Golden, width: int | None) -> None:
    out = io.StringIO()
    document = status_document(carved_view(), carved_probe())
    draw_status(Terminal(out, out, width, False), document, NOW)
    golden(f"status-mig{'' if width is None else f'-{width}'}.txt", out.getvalue())
    assert width is None or all(len(line) <= width for line in out.getvalue().splitlines() if "MIG " in line)


def test_gpus_shows_the_instances_of_this_hosts_cards(
    api: str, call: Call, source: SampleSource, golden: Golden
) -> None:
    source.shown, source.probe = carved_view(), carved_probe()
    golden("gpus-mig.txt", call("gpus", "--api", api).out)


def test_what_is_not_known_of_an_instance_is_left_out_and_never_zero() -> None:
    assert lines_of({"mig_instances": [instance(num_processes=None)]}) == ["    MIG 9/0  1g.10gb"]
    told = instance(memory_total_bytes=10 << 30, utilization_gpu_percent=0.0, num_processes=1)
    assert lines_of({"mig_instances": [told]}) == [
        "    MIG 9/0  1g.10gb  -/10.0 GiB used    0 % busy  1 process"
    ]


def test_a_card_that_is_whole_or_of_another_host_or_an_older_daemon_has_no_such_lines() -> None:
    assert lines_of({"mig_instances": None}) == []
    assert lines_of({"mig_instances": []}) == []
    assert lines_of({}) == []


def test_a_card_at_rest_shows_no_instances_as_if_they_were_live() -> None:
    probe = carved_probe()
    first = probe.devices[0]
    asleep = replace(first, reading=None, is_resting=True, last_reading=first.reading, last_read_unix=NOW)
    document = status_document(carved_view(), replace(probe, devices=(asleep, probe.devices[1])))
    assert [gpu["mig_instances"] for gpu in document["gpus"]] == [None, None]
