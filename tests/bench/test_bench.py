"""The bench itself: what it reads, and that it can run; its figures are judged by people."""

import json
from pathlib import Path

import pytest

from tests.bench.experiments import Row, measure_detection, measure_rest
from tests.bench.fleet import Fleet, running
from tests.bench.makes import Gpumesh, Kinship, Make, Place, Serf
from tests.bench.report import document, ratios, table
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


def test_bytes_at_rest_are_counted_after_the_start_only() -> None:
    found = bytes_a_host_s(4, engine="swim", settle_s=20.0, measured_s=20.0)
    assert 10.0 < found < 5000.0


@pytest.mark.hosts
@pytest.mark.timeout(180)
def test_three_daemons_are_measured_and_none_is_left(tmp_path: Path) -> None:
    with running([Gpumesh()], 3, tmp_path, settle_s=2.0) as fleets:
        rows = {row.measure: row.values["gpumesh"] for row in measure_rest(fleets, 2.0)}
        assert (rows["at rest, 3: RSS of a process"] or 0.0) > 10.0
        first, last = measure_detection(fleets, 1, "kill")
        processes = list(fleets[0].processes.values())
    assert first.values["gpumesh"] is not None
    assert last.values["gpumesh"] is not None
    assert len(processes) == 2
    assert all(process.returncode is not None for process in processes)
