"""The bench itself: what it reads, and that it can run; its figures are judged by people."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.__main__ import EXPERIMENTS, main
from tests.bench.experiments import measure_detection, measure_scale, starved_of
from tests.bench.fleet import Fleet, running
from tests.bench.flood import measure_flood
from tests.bench.makes import Gpumesh, Kinship, Make, Place, Serf
from tests.bench.process import cpu_s, tree_cpu_s
from tests.bench.report import document, ratios, table
from tests.bench.rest import measure_rest
from tests.bench.row import Bound, Row
from tests.bench.simulated import measure_late_reads, measure_lifeguard
from tests.bench.traffic import bytes_a_host_s


@pytest.mark.parametrize(
    ("make", "line", "expected"),
    [
        (Gpumesh(), '{"event": "host.failed", "host": "a", "host_id": "1"}', ("1", True)),
        (Gpumesh(), '{"event": "host.refuted", "host": "a", "host_id": "1"}', ("1", False)),
        (Gpumesh(), '{"event": "host.suspected", "host": "a", "host_id": "1"}', None),
        (Gpumesh(), '{"message": "not an event"}', None),
        (Serf(), "    2026/11/30 06:58:24 [INFO] serf: EventMemberFailed: h001 127.0.0.1", ("h001", True)),
        (Serf(), "    2026/11/30 06:58:24 [INFO] serf: EventMemberJoin: h001 127.0.0.1", ("h001", False)),
        (Serf(), "    2026/11/30 06:58:24 [INFO] serf: EventMemberLeave: h001 127.0.0.1", None),
        (Kinship(Path("python")), "MemberDead h002", ("h002", True)),
        (Kinship(Path("python")), "MemberSuspect h002", None),
    ],
)
def test_each_make_says_failed_in_its_own_words(
    make: Make, line: str, expected: tuple[str, bool] | None
) -> None:
    assert make.read(line) == expected


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    fleet = Fleet(Kinship(Path("python")), tmp_path)
    fleet.places["a"] = Place("a", tmp_path, 1, 2)
    log = tmp_path / "log"
    log.write_text("MemberJoined b\nMember")
    fleet.known["a"], fleet.failed["a"] = set(), set()
    with log.open("rb") as reading:
        fleet._logs["a"] = reading
        fleet.poll()
        assert (fleet.known["a"], fleet.failed["a"]) == ({"b"}, set())
        with log.open("a") as writing:
            writing.write("Dead b\n")
        fleet.poll()
    assert (fleet.known["a"], fleet.failed["a"]) == (set(), {"b"})


def test_a_ratio_is_told_only_of_what_both_have() -> None:
    row = Row("x", "s", {"gpumesh": 2, "serf": 8.0, "kinship": 0.0, "other": None}, {})
    assert ratios(row) == {"serf": 0.25}
    assert json.loads(document([row], load=1.0))["rows"][0]["ratio"] == {"serf": 0.25}
    assert table([row]).splitlines()[1].split() == ["x", "[s]", "2", "8", "0", "-", "0.25", "-", "-"]


@pytest.mark.parametrize(
    ("bound", "values", "is_met"),
    [
        (Bound(0.5, over="kinship"), {"gpumesh": 1.0, "kinship": 2.0}, True),
        (Bound(0.5, over="kinship"), {"gpumesh": 1.1, "kinship": 2.0}, False),
        (Bound(0.5, over="kinship"), {"gpumesh": 1.0, "serf": 2.0}, None),
        (Bound(0.5, over="kinship"), {"gpumesh": None, "kinship": 2.0}, None),
        (Bound(0), {"gpumesh": 0, "serf": 3}, True),
        (Bound(1.2, is_exclusive=True), {"gpumesh": 1.2}, False),
    ],
)
def test_a_bound_is_met_missed_or_not_known(
    bound: Bound, values: dict[str, float | None], is_met: bool | None
) -> None:
    assert bound.is_met(values) is is_met
    row = Row("x", "", values, {}, bound)
    verdict = {True: "met", False: "MISSED", None: "not measured"}[is_met]
    assert table([row]).splitlines()[1].endswith(f"{bound}: {verdict}")
    assert json.loads(document([row]))["rows"][0]["bound"] == {"says": str(bound), "is_met": is_met}


def test_a_bound_says_what_it_is_a_share_of() -> None:
    assert str(Bound(0.5, over="kinship")) == "at most 0.5 of kinship's"
    assert str(Bound(0.006, is_exclusive=True)) == "below 0.006"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["weather"], "unknown experiment weather"),
        (["idle", "--hosts", "129"], "--hosts must be 3 to 128"),
        (["honesty", "--hosts", "7"], "honesty starves one in 4"),
        (["scale", "--scale", "8,200"], "--scale"),
        (["detection", "--hosts", "6", "--rounds", "3"], "--rounds"),
        (["scale", "--scale", "8,32", "--rounds", "4"], "--rounds"),
    ],
)
def test_what_cannot_be_measured_is_said(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_help_names_each_experiment_and_the_share_that_is_starved(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert all(f"{name} {does}" in said for name, does in EXPERIMENTS.items())
    assert "one in 4 of them is starved: 16 of 64" in said


@pytest.mark.parametrize(("number", "num_starved"), [(8, 2), (9, 2), (32, 8), (64, 16), (128, 32)])
def test_a_quarter_of_the_processes_is_starved_and_never_the_seed(number: int, num_starved: int) -> None:
    names = [f"h{index:03}" for index in range(number)]
    starved = starved_of(names)
    assert len(starved) == num_starved
    assert names[0] not in starved


def test_cpu_of_a_process_counts_its_children_living_and_ended() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass\n"
    run = f"subprocess.run([sys.executable, '-c', {burn!r}])"
    child = f"import subprocess, sys\n{run}\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as one:
        assert one.stdout is not None
        one.stdout.readline()
        assert tree_cpu_s(one.pid) >= cpu_s(one.pid) + 0.25
        before_s = tree_cpu_s(os.getpid())
        assert before_s >= cpu_s(os.getpid()) + 0.25
        one.communicate(b"\n")


def test_lifeguards_experiments_of_one_run_each_fill_the_table_of_rules_and_bounds() -> None:
    rows = measure_lifeguard(1, 1, 1, num_hosts=8, duration_s=10.0)
    assert [row.values.keys() for row in rows] == [{"gpumesh", "SWIM", "Lifeguard"}] * 5
    false, healthy, first, _, sent = rows
    assert false.bound is not None
    assert false.bound.is_met(false.values)
    assert healthy.bound is not None
    assert healthy.bound.is_met(healthy.values)
    assert str(first.bound) == "at most 0.54 of SWIM's"
    assert all(sent.values.values())


def test_late_reads_of_one_run_each_fill_the_table_of_shares_and_bound() -> None:
    (row,) = measure_late_reads(1, 1, 1)
    assert row.values["gpumesh"] == 0
    assert row.values.keys() == {"gpumesh", "SWIM", "Lifeguard"}
    assert str(row.bound) == "below 0.03"


def test_a_simulation_is_printed_with_its_bound(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bytes", "--sizes", "4,8", "--engine", "swim"]) == 0
    assert "at most 1.3: " in capsys.readouterr().out


@pytest.mark.parametrize("engine", ["swim", "mesh"])
def test_a_fleet_that_begins_acquainted_sends_what_one_that_joined_sends(engine: str) -> None:
    joined, acquainted = (
        bytes_a_host_s(8, engine=engine, settle_s=60.0, measured_s=60.0, is_acquainted=is_acquainted)
        for is_acquainted in (False, True)
    )
    assert acquainted == pytest.approx(joined, rel=0.05)


def test_bytes_at_rest_are_counted_after_the_start_only() -> None:
    found = bytes_a_host_s(4, engine="swim", settle_s=20.0, measured_s=20.0)
    assert 10.0 < found < 5000.0


@pytest.mark.hosts
@pytest.mark.timeout(180)
def test_three_daemons_are_measured_and_none_is_left(tmp_path: Path) -> None:
    with running([Gpumesh()], 3, tmp_path, settle_s=2.0) as fleets:
        rows = {row.measure: row.values["gpumesh"] for row in measure_rest(fleets, 2.0)}
        assert (rows["at rest, 3: RSS of a process"] or 0.0) > 10.0
        assert rows["at rest, 3: CPU of a process with its children"] is not None
        assert rows["at rest, 3: CPU of one of its children"] is not None
        first, last = measure_detection(fleets, 1, "kill")
        processes = list(fleets[0].processes.values())
    assert first.values["gpumesh"] is not None
    assert last.values["gpumesh"] is not None
    assert len(processes) == 2
    assert all(process.returncode is not None for process in processes)


@pytest.mark.hosts
@pytest.mark.timeout(180)
def test_a_flooded_daemon_goes_on_probing_and_nobody_is_failed(tmp_path: Path) -> None:
    sent, probes, failed = measure_flood(0.0, tmp_path, for_s=5.0)
    assert (sent.values["gpumesh"] or 0.0) > 0.0
    assert 5.0 * (probes.values["gpumesh"] or 0.0) > 1.5, "one may come before the flood or after it"
    assert failed.values == {"gpumesh": 0.0}


@pytest.mark.hosts
@pytest.mark.timeout(180)
def test_growth_is_that_of_the_larger_fleet_over_the_smaller(tmp_path: Path) -> None:
    rows = measure_scale(Gpumesh(), (3, 4), 1, 2.0, tmp_path)
    *_, small, _, large, growth = [row.values["gpumesh"] for row in rows]
    assert small
    assert large
    assert growth == large / small
    assert [row.bound is not None for row in rows] == [False] * 4 + [True]
