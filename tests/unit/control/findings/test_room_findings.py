"""Findings in what jobs reported: each kind where it is, and not where it is not."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.control.batches import batch, identity, last

from branchline.control.findings.finding import (
    BAD_ELEMENT,
    BAD_SITE,
    BLACK_HOLE,
    DRIFT,
    FAILING_REPLICAS,
    LARGE_READS,
    MISSING_SUBJOBS,
    OVER_FORECAST,
    ROUND_TRIPS,
    TAIL,
    WRONG_LOCALITY,
    Cell,
    Finding,
)
from branchline.control.reports.jobs import JobQuery
from branchline.control.room import ControlRoom
from branchline.records.diagnosis.remedies import AVOID_ELEMENT, SEND_AGAIN, STAGE_ELEMENT
from branchline.records.sending.message import ReportBatch
from branchline.records.sensors.record import (
    ActivitySpan,
    FileRecord,
    LostWorker,
    SiteReading,
    WagonRecord,
    WorkerPhases,
)

NOW = datetime.now(UTC).replace(microsecond=0)
FILE_BYTES = 300_000_000


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ControlRoom]:
    room = ControlRoom(tmp_path / "room")
    yield room
    room.close()


def found(room: ControlRoom, period: str = "week") -> list[Finding]:
    return room.findings.look(period, NOW).findings


def of_kind(findings: Sequence[Finding], kind: str) -> list[Finding]:
    return [one for one in findings if one.kind == kind]


def job(sites: Sequence[SiteReading], before: timedelta = timedelta(hours=3)) -> ReportBatch:
    """A batch of another job, some time ago."""
    return replace(batch(identity(begin=NOW - before), 0), sites=list(sites))


@dataclass(frozen=True)
class FigureCell:
    """A cell of figure 5: files and MB/s."""

    element: str
    files: int
    speed: float
    is_local: bool = False


#: Figure 5 of L Betev et al., "Performance optimisations for distributed analysis in ALICE" (2014).
FIGURE_5 = {
    "CERN": [FigureCell("CERN EOS", 69776, 3.59, True), FigureCell("NDGF", 7, 1.643), FigureCell("SNIC", 5, 1.543),
             FigureCell("FZK SE", 2, 2.823)],
    "BOLOGNA": [FigureCell("BOLOGNA SE", 12, 3.898, True), FigureCell("CERN EOS", 6, 2.374)],
    "FZK": [FigureCell("FZK SE", 4025, 3.399, True), FigureCell("CERN EOS", 258, 0.952), FigureCell("NDGF", 275, 0.626),
            FigureCell("SNIC", 13, 0.828)],
    "GSI": [FigureCell("GSI SE", 1124, 3.394, True), FigureCell("NDGF", 651, 0.245), FigureCell("SNIC", 338, 0.184),
            FigureCell("FZK SE", 4, 1.31)],
    "BRATISLAVA": [FigureCell("BRATISLAVA SE", 261, 1.011, True), FigureCell("CERN EOS", 117, 0.467),
                   FigureCell("NDGF", 397, 0.346), FigureCell("SNIC", 149, 0.39), FigureCell("FZK SE", 66, 0.454)],
    "SUT": [FigureCell("NDGF", 14, 0.343), FigureCell("SNIC", 28, 0.361)],
    "YEREVAN": [FigureCell("NDGF", 3, 0.388)],
}  # fmt: skip


def figure_5_jobs() -> Iterator[ReportBatch]:
    """Jobs with the files and speeds of the figure, and a scatter of their own."""
    chance = random.Random(5)
    for site, cells in FIGURE_5.items():
        for one in cells:
            jobs = min(60, max(1, one.files // 5))
            for number in range(jobs):
                seconds = FILE_BYTES / (one.speed * 1e6) * chance.lognormvariate(0.0, 0.3)
                nearness = "site" if one.is_local else "elsewhere"
                files = one.files // jobs + (number < one.files % jobs)
                yield job([SiteReading(site, one.element, nearness, files, files * FILE_BYTES, 0, files * seconds)])


def test_the_studys_figure_blames_the_way_to_gsi_and_not_the_storage(room: ControlRoom) -> None:
    for one in figure_5_jobs():
        room.take(one)
    findings = found(room)
    [gsi] = [one for one in of_kind(findings, WRONG_LOCALITY) if one.cells[0].site == "GSI"]
    # The figure: 48 % of its files are remote, at 0.219 MB/s beside 3.394, and the site works at 11 %.
    assert gsi.sentence.startswith("47 % of the files that workers at GSI read are remote")
    assert 0.7 < gsi.estimate.low < gsi.estimate.value < gsi.estimate.high < 0.95
    assert {one.storage_element for one in gsi.cells} == {"NDGF", "SNIC"}
    assert any("its machines read local files as fast as other sites do" in one for one in gsi.compared)
    assert any(one.startswith("FZK reads from NDGF at") and one.endswith("not the storage") for one in gsi.compared)
    assert gsi.proposal is not None
    assert (gsi.proposal.kind, gsi.proposal.site) == (STAGE_ELEMENT, "GSI")
    assert findings.index(gsi) == 0
    assert of_kind(findings, BAD_ELEMENT) == []
    # All of CERN's files are local.
    assert not [one for one in findings for cell in one.cells if cell.site == "CERN"]
    assert "GSI" not in {cell.site for one in of_kind(findings, BAD_SITE) for cell in one.cells}


def test_sites_with_near_files_have_no_wrong_locality(room: ControlRoom) -> None:
    for site in ("A", "B"):
        for _ in range(5):
            room.take(job([SiteReading(site, f"se.{site}", "site", 10, 10 * FILE_BYTES, 0, 100.0),
                           SiteReading(site, "far", "elsewhere", 1, FILE_BYTES, 0, 11.0)]))  # fmt: skip
    assert found(room) == []


def test_an_element_that_became_slow_drifts(room: ControlRoom) -> None:
    chance = random.Random(1)
    for day in range(8):
        for element, slower in (("steady", 1.0), ("tired", 4.0 if day == 0 else 1.0)):
            for _ in range(8):
                took_s = 100.0 * slower * chance.lognormvariate(0.0, 0.2)
                room.take(
                    job([SiteReading("A", element, "site", 1, FILE_BYTES, 0, took_s)], timedelta(days=day, hours=3))
                )
    [drift] = of_kind(found(room, "day"), DRIFT)
    assert drift.cells == [Cell("A", "tired")]
    assert drift.estimate.low < 4 < drift.estimate.high
    assert of_kind(found(room, "week"), DRIFT) == []


def test_an_element_whose_replicas_fail_is_to_be_avoided(room: ControlRoom) -> None:
    for number in range(40):
        room.take(job([SiteReading("A", "good", "site", 5, FILE_BYTES, int(number == 0), 10.0),
                       SiteReading("A", "bad", "site", 5, FILE_BYTES, number % 3, 10.0)]))  # fmt: skip
    [failing] = of_kind(found(room), FAILING_REPLICAS)
    assert failing.cells == [Cell(storage_element="bad")]
    assert failing.sentence == "files at bad could not be read in 26 jobs of 40"
    assert failing.proposal is not None
    assert (failing.proposal.kind, failing.proposal.storage_element) == (AVOID_ELEMENT, "bad")


def test_a_machine_that_loses_workers_is_a_black_hole_and_its_jobs_are_listed(room: ControlRoom) -> None:
    for number in range(12):
        ended = last(identity(begin=NOW - timedelta(hours=2)), 0)
        assert ended.record is not None
        ended.record.worker_phases = [WorkerPhases(n, f"node{n}", "A", 60.0) for n in range(8)]
        ended.record.workers_lost = [LostWorker(9, host="hole")] * 3 if number < 4 else []
        if number == 11:
            ended.record.workers_lost = [LostWorker(9, host="node3")]
        room.take(ended)
    [hole] = of_kind(found(room), BLACK_HOLE)
    assert hole.cells == [Cell(host="hole")]
    assert hole.sentence == "12 workers of 12 were lost on hole"
    assert hole.evidence == "/jobs?host=hole"
    assert room.jobs(JobQuery(host="hole")).total == 4


def with_files(jobs: int, sites: int = 1, **counts: float) -> Iterator[ReportBatch]:
    """Jobs that read a file each."""
    for number in range(jobs):
        record = FileRecord(
            "root://se//f", "root://se", "", f"node{number}", site="ABCDE"[number % sites], wall_s=100.0
        )
        for name, value in counts.items():
            setattr(record, name, value)
        yield replace(batch(identity(begin=NOW - timedelta(hours=2)), 0), files=[record])


def test_reads_that_bring_twice_what_is_needed_are_told(room: ControlRoom) -> None:
    for one in with_files(4, 4, bytes_read=2_000_000_000, bytes_asked=900_000_000):
        room.take(one)
    [large] = found(room)
    assert large.kind == LARGE_READS
    assert "4.40 GB are wasted" in large.sentence
    assert large.estimate.value == pytest.approx(2 / 0.9)


def test_reads_that_bring_what_is_needed_are_not(room: ControlRoom) -> None:
    for one in with_files(4, bytes_read=2_000_000_000, bytes_asked=1_900_000_000, read_calls=500, fetch_s=60.0):
        room.take(one)
    assert found(room) == []


def test_many_small_reads_that_wait_are_told(room: ControlRoom) -> None:
    for one in with_files(4, bytes_read=30_000_000, read_calls=1000, fetch_s=80.0):
        room.take(one)
    [trips] = found(room)
    assert trips.kind == ROUND_TRIPS
    assert trips.sentence == "workers at A wait 80 ms for each read of 30.0 kB from root://se, 80 % of their time"


def test_a_job_that_waits_for_its_last_processes_is_told(room: ControlRoom) -> None:
    ended = last(identity(begin=NOW - timedelta(hours=2)), 0, after_s=2000.0)
    assert ended.record is not None
    ended.record.activity = [ActivitySpan("node", 0, 0.0, 1000.0)] * 9 + [ActivitySpan("node", 0, 0.0, 2000.0)]
    room.take(ended)
    [tail] = of_kind(found(room), TAIL)
    assert tail.cells == [Cell(job=ended.identity.job)]
    assert tail.estimate.value == 0.5


def test_a_job_with_missing_sub_jobs_may_be_sent_again(room: ControlRoom) -> None:
    ended = last(identity(begin=NOW - timedelta(hours=2)), 0)
    assert ended.record is not None
    ended.record.subjobs, ended.record.subjobs_done, ended.record.status = 10, 7, "partial"
    room.take(ended)
    [missing] = found(room)
    assert missing.kind == MISSING_SUBJOBS
    assert missing.proposal is not None
    assert (missing.proposal.kind, missing.proposal.job) == (SEND_AGAIN, ended.identity.job)


def test_a_wagon_that_takes_longer_than_its_trial_is_told(room: ControlRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room.findings, "_forecasts", lambda: {"slow": 1e-5, "good": 1e-5})
    for _ in range(5):
        ended = last(identity(begin=NOW - timedelta(hours=2)), 0)
        assert ended.record is not None
        ended.record.wagons = [
            WagonRecord("slow", events=100_000, cpu_s=3.0),
            WagonRecord("good", events=100_000, cpu_s=1.1),
            WagonRecord("unknown", events=100_000, cpu_s=9.0),
        ]
        room.take(ended)
    [over] = of_kind(found(room), OVER_FORECAST)
    assert over.cells == [Cell(wagon="slow")]
    assert over.estimate.value == pytest.approx(3.0)
    assert over.sample.jobs == 5


def test_findings_are_looked_for_in_the_background(room: ControlRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.control.findings.finder.FINDINGS_PAUSE_S", 0.05)
    assert room.findings.last("week").made == ""
    for one in with_files(4, bytes_read=30_000_000, read_calls=1000, fetch_s=80.0):
        room.take(one)
    before = room.version
    room.findings.start()
    end = datetime.now(UTC) + timedelta(seconds=60)
    while not room.findings.last("month").findings:
        assert datetime.now(UTC) < end
    # Pages that show them are told.
    assert room.version > before
