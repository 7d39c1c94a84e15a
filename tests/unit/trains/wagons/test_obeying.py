"""What measures make of the reading of files: which replica is asked first, what is copied, what is read anyway."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from branchline.jobs.sites import SiteMap, Spot
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.elements import ElementSites
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.records.sensors.job_measures import AVOID, STAGE, JobMeasure, JobMeasures
from branchline.trains.subjobs.locality import Locality, MeasuresTold, Obedience

LISTED = ElementSites.of({"root://se.a": "A", "root://se.b": "B"})
AVOID_A = JobMeasure(1, AVOID, "root://se.a", seconds_left=60.0)


def file_at(name: str, *servers: str) -> DataFile:
    locations = [f"root://{one}//{name}" for one in servers]
    return DataFile(locations[0], replicas=tuple(locations[1:]), sites=LISTED)


BOTH, ALONE = file_at("f", "se.a", "se.b"), file_at("g", "se.a")


def obey(files: list[DataFile], *measures: JobMeasure, access: Access | None = None, site: str = "A") -> Obedience:
    return Locality(Spot("node", site), SiteMap(), access or Access()).obey(files, measures)


def test_a_file_with_another_replica_is_read_there_and_one_without_is_read_anyway() -> None:
    found = obey([BOTH, ALONE], AVOID_A)
    assert found.avoided == {"root://se.a//f"}
    [record] = found.records
    assert (record.files, record.without_other, record.number) == (1, 1, 1)
    assert record.first
    assert found.access == Access()


def test_where_all_replicas_are_avoided_nothing_changes() -> None:
    found = obey([BOTH], AVOID_A, JobMeasure(2, AVOID, "root://se.b"))
    assert found.avoided == set()
    assert [(one.files, one.without_other) for one in found.records] == [(0, 1), (0, 1)]


def test_one_replica_may_be_meant() -> None:
    found = obey([BOTH, file_at("h", "se.a", "se.b")], JobMeasure(2, AVOID, "root://se.b//f"))
    assert found.avoided == {"root://se.b//f"}


def test_workers_at_other_sites_are_not_meant() -> None:
    measure = replace(AVOID_A, site="B")
    assert obey([BOTH], measure) == Obedience(Access())
    assert obey([BOTH], measure, site="B").avoided == {"root://se.a//f"}


def test_files_are_copied_only_where_they_are_read_from_what_is_meant() -> None:
    stage = JobMeasure(2, STAGE, "root://se.a")
    assert obey([BOTH], stage).access.mode == "stage"
    assert obey([BOTH], stage, site="B").access.mode == "planned"
    assert obey([BOTH], stage, AVOID_A).access.mode == "planned"


def test_an_experiment_on_reading_is_not_changed_and_says_so() -> None:
    found = obey([BOTH], JobMeasure(2, STAGE, "root://se.a"), access=Access(mode="plain"))
    assert found.access.mode == "plain"
    [record] = found.records
    assert (record.files, record.refused) == (0, "access plain is only for comparisons")


def test_avoided_replicas_are_read_after_all_others(folder: Path, tmp_path: Path) -> None:
    """Files in two folders, the first at the worker's site. The near replica of one is to be avoided, then of all."""
    near, far = tmp_path / "near", tmp_path / "far"
    names = ("f0.root", "f1.root")
    for own in (near, far):
        own.mkdir()
        for name in names:
            shutil.copy(folder / name, own)
    sites = ElementSites.of({str(near): "A", str(far): "B"})
    files = [DataFile(str(far / name), replicas=(str(near / name),), sites=sites) for name in names]
    here = Locality(Spot("node", "A"), SiteMap(), Access())

    def read_at(measures: list[JobMeasure]) -> list[str]:
        here.prefer_near(files, avoided=here.obey(files, measures).avoided)
        return [replica_read(one) for one in files]

    try:
        assert read_at([]) == [str(near / name) for name in names]
        assert read_at([JobMeasure(1, AVOID, str(near / "f0.root"))]) == [str(far / "f0.root"), str(near / "f1.root")]
        assert read_at([JobMeasure(1, AVOID, str(near))]) == [str(far / name) for name in names]
    finally:
        Locality(Spot(), SiteMap(), Access()).prefer_near(files)


def replica_read(file: DataFile) -> str:
    """The location from which the engine reads a file."""
    with ChunkStream([Source(file.opens)], ["px"], step_size=1000) as stream:
        for chunk in stream:
            chunk.release()
        [record] = stream.records().files
    return max(record.replicas, key=lambda one: one.bytes_read).path


def test_what_was_told_holds_until_something_else_is_told_or_its_time_is_over() -> None:
    told = MeasuresTold()
    told.tell(JobMeasures("job", in_force=[AVOID_A, JobMeasure(2, STAGE, "x", seconds_left=1e-9)], ignored=3))
    assert told.now() == (replace(AVOID_A, seconds_left=0.0),)
    told.tell(JobMeasures("job"))
    assert told.now() == ()
    assert told.ignored == 3
    assert [one.number for one in told.with_heard([])] == [1, 2]


def test_a_job_that_refuses_says_so_in_its_record() -> None:
    told = MeasuresTold("it may not")
    told.tell(JobMeasures("job", in_force=[AVOID_A]))
    assert told.now() == ()
    assert [(one.number, one.refused) for one in told.with_heard([])] == [(1, "it may not")]
