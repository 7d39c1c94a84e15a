"""Forecasts: the model's limits, conditions as people write them, forecasts that are kept and checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.lab.forecast.test_planned_requests import write

from branchline.errors import BadFileError, OptionError
from branchline.lab.forecast.changed_layout import in_order_of_branches
from branchline.lab.forecast.checked import Errors
from branchline.lab.forecast.conditions import Conditions, conditions_of
from branchline.lab.forecast.forecasting import what_if
from branchline.lab.forecast.kept_forecasts import check, keep, kept
from branchline.lab.forecast.laid_file import laid_file
from branchline.lab.forecast.model import BASKET_S, CHUNK_S, SLOWEST
from branchline.lab.forecast.rates import Rates, measured
from branchline.lab.forecast.subject import Subject
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.records.sensors.record import JobRecord

#: 1 ns for a byte to decode, 4 ns to decompress, 100 MB/s.
RATES = Rates(1e-9, {"zlib": 4e-9}, 0.0, 0.0, 1e8, spread=0.05)


def test_conditions_are_read_as_people_write_them() -> None:
    found = conditions_of(["rtt=63ms,bandwidth=7MB/s", "access=prefetch", "branches=a,b", "cores=4", "layout=merged"])
    assert found == Conditions(0.063, 7e6, "prefetch", merged_bytes=10**9, branches=("a", "b"), cores=4)
    assert found.changes_layout
    sizes = conditions_of(["gap=64kB,buffer=16MB,tree-cache=10MB,jobs=1000", "order=branch"])
    assert (sizes.gap_bytes, sizes.buffer_bytes, sizes.tree_cache_bytes, sizes.jobs) == (
        64_000,
        16_000_000,
        10**7,
        1000,
    )
    assert sizes.by_branch
    assert not sizes.by_entry
    for wrong in (
        "rtt=fast",
        "access=quick",
        "layout=flat",
        "colour=red",
        "cores=0",
        "rtt",
        "baskets=many",
        "jobs=0",
        "gap=wide",
        "order=size",
    ):
        with pytest.raises(OptionError):
            conditions_of([wrong])


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    folder = tmp_path_factory.mktemp("job")
    files = tuple(DataFile(str(write(folder / f"{number}.root", [2000] * 5)), "events") for number in range(6))
    laid = tuple(laid_file(one, ("x", "y")) for one in files)
    return Subject("a test", files, laid, ("x", "y"), Access(), RATES, workers=1, threads=1, cores=4)


def test_a_longer_way_takes_longer_and_a_shorter_one_never_does(subject: Subject) -> None:
    seconds = [what_if(subject, Conditions(round_trip_s=rtt)).then.wall_s.value for rtt in (0.0, 0.01, 0.1)]
    assert seconds == sorted(seconds)
    plain, planned = (what_if(subject, Conditions(round_trip_s=0.05, mode=mode)) for mode in ("plain", "planned"))
    assert plain.then.wall_s.value > planned.then.wall_s.value
    assert plain.then.requests.value > planned.then.requests.value
    nothing = what_if(subject, Conditions())
    assert nothing.gain.value == pytest.approx(0)
    assert nothing.now.bytes_read == nothing.then.bytes_read


def test_staging_keeps_to_the_requests_in_flight(subject: Subject) -> None:
    """A file is copied with 20 requests."""
    large = replace(subject, files=subject.files[:1], laid=(replace(subject.laid[0], size_bytes=20 * (4 << 20)),))

    def seconds(requests: int | None) -> float:
        access = Access(mode="stage", requests_in_flight=requests)
        return what_if(replace(large, access=access), Conditions(round_trip_s=1.0)).then.wall_s.value

    eight_s = seconds(8)
    assert seconds(None) == pytest.approx(eight_s)
    assert seconds(64) == pytest.approx(eight_s)
    assert seconds(2) - eight_s == pytest.approx(10 - 3, rel=0.1)
    assert seconds(1) - eight_s == pytest.approx(20 - 3, rel=0.1)


def test_branches_behind_each_other_are_fewer_ranges_for_who_reads_one(subject: Subject) -> None:
    (file,) = (laid_file(one, ("x",)) for one in subject.files[:1])
    behind = in_order_of_branches(file)
    rows = [row for branch in behind.extents for row in branch]
    assert [row[0] + row[1] for row in rows[:-1]] == [row[0] for row in rows[1:]]
    assert [row[1:] for row in rows] == [row[1:] for branch in file.extents for row in branch]
    assert behind.size_bytes == file.size_bytes


def test_what_each_file_takes_besides_is_saved_by_a_merge_and_what_a_process_takes_is_not(subject: Subject) -> None:
    now_s = what_if(subject, Conditions()).now.wall_s.value
    first = replace(subject, files=subject.files[:1], laid=subject.laid[:1])
    alone_s = what_if(first, Conditions()).now.wall_s.value
    # Each of six files takes 2 s that the model knows nothing of, the first reading of a process 1 s.
    sampled = tuple(one.path for one in subject.files)
    took = {"sample_s": now_s + 13.0, "first_s": 1.0, "again_s": now_s + 12.0, "alone_s": alone_s + 2.0}
    cpu = {"again_cpu_s": now_s + 12.0, "alone_cpu_s": alone_s + 2.0}
    rates = replace(RATES, **took, **cpu, sample_paths=sampled)
    found = what_if(replace(subject, rates=rates), Conditions(merged_bytes=10**9))
    assert found.now.wall_s.value == pytest.approx(now_s + 13.0, rel=0.01)
    assert found.then.wall_s.value == pytest.approx(3.0, rel=0.1)
    # Other programs make reading longer, and change CPU time little: then as much more is said as all took longer.
    busy = replace(rates, again_cpu_s=(now_s + 12.0) / 2, alone_cpu_s=(alone_s + 2.0) / 2)
    assert what_if(replace(subject, rates=busy), Conditions()).now.wall_s.value == pytest.approx(now_s + 13.0, rel=0.01)
    # One that was read once says nothing of a second file.
    once = replace(subject, rates=replace(rates, first_s=0.0, again_s=0.0, alone_s=0.0))
    assert what_if(once, Conditions()).now.wall_s.value == pytest.approx(now_s + 13.0, rel=0.01)


def test_what_baskets_take_besides_is_saved_by_larger_ones_as_far_as_it_is_usual(subject: Subject) -> None:
    now_s = what_if(subject, Conditions()).now.wall_s.value
    sampled = tuple(one.path for one in subject.files)
    baskets = sum(len(own) for one in subject.laid for own in one.extents)
    usual_s = CHUNK_S * len(subject.laid) + BASKET_S * baskets
    without_s = what_if(subject, Conditions(basket_bytes=10**6)).then.wall_s.value
    later = []
    for more_s in (2 * usual_s, 10.0):
        rates = replace(RATES, sample_s=now_s + more_s, sample_paths=sampled)
        found = what_if(replace(subject, rates=rates), Conditions(basket_bytes=10**6))
        assert found.now.wall_s.value == pytest.approx(now_s + more_s)
        later.append(found.then.wall_s.value - without_s)
    # Of each branch and file one basket is left, and each file has a chunk as before.
    saved_s = BASKET_S * (baskets - 2 * len(subject.laid))
    assert later[0] == pytest.approx(2 * (usual_s - saved_s))
    # No machine is so slow: something else took the most of it, once.
    assert later[1] == pytest.approx(10.0 - SLOWEST * saved_s)


def test_a_job_saves_what_fewer_baskets_usually_take(subject: Subject) -> None:
    job = JobRecord(wall_s=10.0, workers=1, threads=1, events=60_000)
    measured = replace(subject, job=job)
    fewer = what_if(measured, Conditions(basket_bytes=10**6))
    baskets = sum(len(own) for one in subject.laid for own in one.extents)
    # All but one for each branch and file.
    saved = BASKET_S * (baskets - 2 * len(subject.laid))
    modelled = [what_if(subject, one) for one in (Conditions(), Conditions(basket_bytes=10**6))]
    of_model = modelled[0].now.wall_s.value - modelled[1].then.wall_s.value
    assert fewer.now.wall_s.value - fewer.then.wall_s.value == pytest.approx(saved + of_model)


def test_a_job_saves_by_a_merge_what_files_take_by_the_calibration(subject: Subject) -> None:
    job = JobRecord(wall_s=10.0, workers=1, threads=1, events=60_000)
    merged = Conditions(merged_bytes=10**9)
    unknown = what_if(replace(subject, job=job), merged)
    known = what_if(replace(subject, job=job, rates=replace(RATES, file_s=0.5)), merged)
    # Six files became one.
    assert unknown.then.wall_s.value - known.then.wall_s.value == pytest.approx(5 * 0.5)
    # No more than what is not explained otherwise.
    most = what_if(replace(subject, job=job, rates=replace(RATES, file_s=1e3)), merged)
    assert 0 < most.then.wall_s.value < 1


def test_threads_are_those_of_each_worker(subject: Subject) -> None:
    job = JobRecord(wall_s=100.0, cpu_s=100.0, workers=2, threads=1, events=60_000)
    slow = replace(subject, rates=replace(RATES, decode_s_per_byte=1e-3), job=job, workers=2)
    found = what_if(slow, conditions_of(["threads=2"]))
    assert found.then.wall_s.value == pytest.approx(50.0, rel=0.1)


def test_a_smaller_gap_is_more_requests(subject: Subject) -> None:
    few = replace(
        subject, access=Access(gap="1 MB"), laid=tuple(replace(one, size_bytes=10**8) for one in subject.laid)
    )
    joined, apart = (what_if(few, Conditions(gap_bytes=gap)).then.requests.value for gap in (10**6, 0))
    assert joined < apart


def test_the_time_of_a_job_is_what_it_took(subject: Subject) -> None:
    job = JobRecord(wall_s=100.0, events=60_000)
    found = what_if(replace(subject, job=job, fixed_s=20.0), Conditions(round_trip_s=0.1))
    assert found.now.wall_s.value == found.now.wall_s.low == found.now.wall_s.high == 100.0
    assert found.then.wall_s.value > 100
    assert found.then.wall_s.low < found.then.wall_s.value < found.then.wall_s.high


def test_a_forecast_that_is_kept_is_checked(subject: Subject, tmp_path: Path) -> None:
    found = what_if(subject, Conditions(mode="plain"))
    keep(found, tmp_path / "kept.json")
    assert kept(tmp_path / "kept.json") == found
    right, wrong = JobRecord(wall_s=found.then.wall_s.value), JobRecord(wall_s=10 * found.then.wall_s.value)
    right.totals.bytes_read, right.totals.read_calls = int(found.then.bytes_read.value), int(found.then.requests.value)
    record = check(found, [right, wrong])
    assert [one.is_held for one in record.checks] == [True, False]
    assert (record.coverage, record.checks[0].error, record.checks[0].bytes_error) == (0.5, 0.0, 0.0)
    assert record.checks[1].error == pytest.approx(-0.9)


def test_a_codec_that_was_not_measured_is_as_slow_as_the_slowest(subject: Subject) -> None:
    def seconds(codec: str, known: dict[str, float]) -> float:
        laid = tuple(replace(one, codec=codec) for one in subject.laid)
        rates = replace(RATES, decompress_s_per_byte=known)
        return what_if(replace(subject, laid=laid, rates=rates), Conditions()).now.wall_s.value

    both = {"zlib": 4e-9, "lz4": 1e-9}
    assert seconds("lzma", both) == seconds("zlib", both) > seconds("lz4", both)


def test_the_interval_of_a_job_is_bounded_by_the_errors_that_were_seen(subject: Subject) -> None:
    job = JobRecord(wall_s=0.1, events=60_000)
    known = replace(subject, job=job, errors=Errors(-0.1, 0.1, 20), rates=replace(RATES, spread=0.0))
    wall = what_if(known, Conditions(mode="plain", round_trip_s=0.1, bytes_per_second=1e6)).then.wall_s
    assert wall.value > 20 * job.wall_s
    assert wall.high / wall.value < 1.15


def test_what_the_model_does_not_know_stays_as_it_is(subject: Subject) -> None:
    model = what_if(subject, Conditions(round_trip_s=0.1))
    slower = JobRecord(wall_s=model.now.wall_s.value + 7.0, events=60_000)
    found = what_if(replace(subject, job=slower), Conditions(round_trip_s=0.1))
    assert found.then.wall_s.value == pytest.approx(model.then.wall_s.value + 7.0)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"forecast_version": 99}', '{"forecast_version": "x"}'])
def test_what_is_no_forecast_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(BadFileError):
        kept(tmp_path / "bad.json")


def test_rates_are_measured_on_files(subject: Subject) -> None:
    rates = measured(subject.files, ("x",), Access())
    assert rates.decode_s_per_byte > 0
    assert set(rates.decompress_s_per_byte) == {"zlib"}
    assert rates.bytes_per_second > 0
