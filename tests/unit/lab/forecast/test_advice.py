"""Data sets and jobs with one flaw, put in on purpose: it is the first advice. Of flawless ones nothing is said."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.unit.lab.forecast.test_planned_requests import write

from branchline.cli.tables.lines import print_advice
from branchline.errors import BranchlineError, OptionError
from branchline.lab.advice.advise import Advised, advice_of, do, gains_of
from branchline.lab.advice.advise import advise as advised
from branchline.lab.advice.changes import MERGED, ORDERED, AdvisedChange, write_changed
from branchline.lab.advice.proposals import columns_of_ntuple, proposals
from branchline.lab.advice.sample_trial import (
    ONE_ROUND_NOISE,
    _shares,
    is_unsettled,
    noise_of,
    noise_of_medians,
    try_change,
)
from branchline.lab.advice.timed_read import ReadingDone, ReadingRequest, read, read_at_once_s
from branchline.lab.forecast.laid_file import laid_file, names_of
from branchline.lab.forecast.rates import Rates
from branchline.lab.forecast.subject import Subject, situated
from branchline.lab.sampling.page_cache import StillCachedError, make_cold
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.records.diagnosis.advice import MANAGER, PIECES_MAX, Advice, Gain, gain_between
from branchline.records.sensors.record import JobRecord
from branchline.writing.merging.merge import merge

#: A quick machine beside its data: decompression costs little.
NEAR = Rates(4e-9, {"zlib": 0.5e-9, "zstd": 0.5e-9}, 0.0, 0.0, 1e9, spread=0.05)
#: The same machine, with the data on another continent.
FAR = replace(NEAR, round_trip_s=0.06, bytes_per_second=1e8)


def subject_of(paths: list[Path], rates: Rates, access: Access | None = None, **others: object) -> Subject:
    files = tuple(DataFile(str(path), "events") for path in paths)
    laid = tuple(
        replace(laid_file(one, ("x", "y")), is_at_a_server=rates is FAR, is_near=rates is not FAR) for one in files
    )
    made = Subject("a test", files, laid, ("x", "y"), access or Access(), rates, workers=1, threads=1, cores=4)
    return replace(made, **others)  # type: ignore[arg-type]


def advise(subject: Subject) -> list[Advice]:
    return advice_of(gains_of(advised(subject)))


def piece(subject: Subject, id_: str) -> Advised:
    return next(one for one in advised(subject) if one.advice.id == id_)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("good") / "good.root", [100_000] * 3)


def test_of_a_good_file_nothing_is_said(good: Path) -> None:
    assert advise(subject_of([good], NEAR)) == []


def test_of_a_job_that_uses_its_cores_nothing_is_said(good: Path) -> None:
    job = JobRecord(wall_s=10.0, cpu_s=39.0, machine_cpu_s=40.0, workers=4, events=300_000)
    assert advise(subject_of([good], NEAR, job=job, workers=4)) == []


def test_small_files_far_away_are_to_be_merged(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{number}.root", [200] * 2) for number in range(20)]
    found = advise(subject_of(paths, FAR, Access(requests_in_flight=1)))
    merged = next(one for one in found if one.id == "merge")
    assert merged.gain.low <= merged.gain.value <= merged.gain.high
    assert "20 files" in merged.what
    # A copy near by saves the way as well; nothing else is said.
    assert {one.id for one in found} == {"merge", "near-cache"}


def test_a_few_files_that_are_opened_in_no_time_are_not_to_be_merged(good: Path, tmp_path: Path) -> None:
    paths = [good, *(write(tmp_path / f"{number}.root", [100_000] * 3) for number in range(3))]
    subject = subject_of(paths, replace(NEAR, open_s=5e-4))
    # Whatever a try would show: opening them is less than a hundredth of reading them.
    assert "merge" not in [one.id for one in proposals(subject)]
    slow = replace(subject, rates=replace(NEAR, open_s=0.1))
    assert "merge" in [one.id for one in proposals(slow)]


def test_one_file_is_not_tried_merged(good: Path) -> None:
    large = replace(laid_file(DataFile(str(good), "events"), ("x", "y")), size_bytes=40_000_000)
    subject = replace(subject_of([good], NEAR), laid=(large, replace(large, path="other.root")))
    subject = replace(subject, files=(*subject.files, DataFile("other.root", "events")))
    assert try_change(subject, AdvisedChange(MERGED, max_bytes=10**9)) is None


def test_a_far_mount_is_advised_as_what_is_far(good: Path) -> None:
    subject = subject_of([good], FAR)
    mounted = replace(subject, laid=tuple(replace(one, is_at_a_server=False) for one in subject.laid))
    found = {one.id for one in proposals(mounted)}
    assert {"access-prefetch", "near-cache"} <= found
    assert found == {one.id for one in proposals(subject)}
    near = replace(mounted, laid=tuple(replace(one, is_near=True) for one in mounted.laid))
    assert list(proposals(near)) == []


@pytest.mark.long
def test_small_files_are_tried_all_and_each_time_in_a_new_process(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{number}.root", [50] * 2) for number in range(12)]
    whole = subject_of(paths, NEAR)
    # Of four the metadata were read.
    trial = try_change(replace(whole, laid=whole.laid[::3]), AdvisedChange(MERGED, max_bytes=10**9))
    assert trial is not None
    assert trial.is_apart
    assert trial.part == pytest.approx(1.0)
    assert trial.growth < 0


def test_a_process_that_cannot_read_is_an_error(tmp_path: Path) -> None:
    request = ReadingRequest([str(tmp_path / "none.root")], ["events"], done=str(tmp_path / "done.json"))
    with pytest.raises(BranchlineError, match="the reading process ended with code"):
        read_at_once_s([request], tmp_path)


def test_concurrent_jobs_read_different_files_if_there_are_enough(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{number}.root", [50] * 2) for number in range(6)]
    subject = subject_of(paths, NEAR, jobs=3)
    merged, ordered = AdvisedChange(MERGED, max_bytes=10**9), AdvisedChange(ORDERED)
    shares = _shares(subject, merged, subject.files)
    assert [len(own) for own in shares] == [2, 2, 2]
    assert {one.path for own in shares for one in own} == {str(path) for path in paths}
    assert [len(own) for own in _shares(replace(subject, jobs=6), ordered, subject.files)] == [1] * 6
    # Four jobs cannot merge two files each.
    assert [len(own) for own in _shares(replace(subject, jobs=4), merged, subject.files)] == [6] * 4
    trial = try_change(subject, merged)
    assert trial is not None
    assert trial.is_apart
    assert trial.part == pytest.approx(1 / 3, rel=0.2)


def test_concurrent_jobs_begin_when_all_are_ready(tmp_path: Path) -> None:
    path = write(tmp_path / "events.root", [50] * 2)
    request = ReadingRequest([str(path)], ["events"])
    assert read_at_once_s([request] * 3, tmp_path) > 0
    assert {ReadingDone.of(tmp_path / f"done-{number}.json").entries for number in range(3)} == {100}
    bad = replace(request, files=[str(tmp_path / "none.root")])
    with pytest.raises(BranchlineError, match=r"none\.root"):
        read_at_once_s([request, bad], tmp_path)


def test_cold_files_are_evicted_before_each_read_and_changed_ones_lie_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "events.root", [50] * 2)
    evicted: list[list[str]] = []

    def noted(files: list[str]) -> None:
        make_cold(files)
        evicted.append(files)

    monkeypatch.setattr("branchline.lab.advice.sample_trial.make_cold", noted)
    subject = situated(subject_of([path], NEAR), 1, is_cold=True)
    assert try_change(subject, AdvisedChange(ORDERED)) is not None
    assert evicted[0] == [str(path)]
    changed = {Path(one) for [one] in evicted} - {path}
    assert [one.relative_to(tmp_path).parts[0][:15] for one in changed] == [".branchline-try"]
    assert len(evicted) >= 2
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a file system in memory")
def test_files_that_cannot_be_evicted_are_an_error() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        subject = situated(subject_of([write(Path(folder) / "events.root", [50] * 2)], NEAR), 1, is_cold=True)
        with pytest.raises(StillCachedError, match=r"events\.root stay in the page cache"):
            try_change(subject, AdvisedChange(ORDERED))
        assert [one.name for one in Path(folder).iterdir()] == ["events.root"]


def test_a_situation_that_cannot_be_is_refused(good: Path) -> None:
    for jobs in (0, -1, 65):
        with pytest.raises(OptionError, match=f"number of concurrent jobs: {jobs}"):
            situated(subject_of([good], NEAR), jobs, is_cold=False)
    with pytest.raises(OptionError, match="needs files on a local disk"):
        situated(subject_of([good], FAR), 1, is_cold=True)
    assert situated(subject_of([good], FAR), 4, is_cold=False).rates.bytes_per_second == FAR.bytes_per_second / 4


@pytest.mark.parametrize(
    ("gain", "answer"),
    [
        (Gain(0.1, 0.05, 0.15), "gain"),
        (Gain(0.01, -0.01, 0.029), "no gain"),
        (Gain(-0.2, -0.4, -0.1), "no gain"),
        (Gain(0.1, -0.01, 0.2), "unclear"),
        (Gain(0.02, 0.01, 0.04), "unclear"),
    ],
)
def test_there_are_three_answers(gain: Gain, answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert gain.answer == answer
    print_advice([Advice("layout-order", "it jumps", "reorder", gain, "space", MANAGER, 10.0)])
    said = capsys.readouterr().out
    if answer == "gain":
        assert said.startswith("1. it jumps")
    else:
        low, high = (f"{100 * one:.0f}" for one in (gain.low, gain.high))
        assert said == (f"No known change would save 3 % of the time.\n{answer}: layout-order ({low} to {high} %)\n")


def test_the_noise_of_medians_is_that_of_their_ratio() -> None:
    assert noise_of_medians([1.0, 1.0], [0.5, 0.5]) == ONE_ROUND_NOISE
    # A machine that is twice as busy for a round is so for both.
    assert noise_of_medians([1.0, 2.0, 1.0], [0.5, 1.0, 0.5]) == pytest.approx(0.0)
    assert noise_of_medians([1.0, 2.0, 1.0], [0.5, 0.5, 0.5]) > 0.2


def test_rounds_that_differ_make_a_gain_uncertain() -> None:
    assert noise_of([1.0], [0.9]) == ONE_ROUND_NOISE
    assert noise_of([1.0, 1.0, 4.0], [0.5, 0.5, 2.0]) == pytest.approx(0.0)
    # One round in which the machine did something else says nothing.
    assert noise_of([1.0, 1.0, 9.0, 1.0, 1.0], [0.5, 0.52, 0.5, 0.48, 0.51]) < 0.05
    unsteady = noise_of([1.0, 1.2, 1.3, 1.5], [0.9, 1.1, 1.2, 1.9])
    assert unsteady > 0.1
    assert gain_between(1.0, 0.9, 0.1, unsteady).low < 0


def test_a_try_goes_on_where_other_programs_hide_a_gain() -> None:
    # One quick round among slow ones: the gain is large, and doubtful.
    assert is_unsettled([0.56, 0.9, 0.8, 1.1, 0.9], [0.16, 0.3, 0.4, 0.3, 0.5])
    assert not is_unsettled([0.56, 0.57, 0.8, 1.1, 0.9], [0.16, 0.165, 0.4, 0.3, 0.5])
    # Nothing is gained, so that no round more would say so.
    assert not is_unsettled([0.5, 0.9, 0.9], [0.5, 0.8, 0.9])
    assert not is_unsettled([0.5, 0.9, 0.9], [0.6, 0.8, 0.9])


def test_a_reader_without_a_plan_is_to_have_one(good: Path) -> None:
    # Another way of reading is tried: the way has to be long indeed, and not only in the rates.
    throttled = Access(mode="plain", throttle="latency=20ms")
    first, *_ = advise(subject_of([good], replace(FAR, round_trip_s=0.02), throttled))
    assert first.id.startswith("access-")


def whole_subject_of(path: Path, rates: Rates, access: Access, memory_limit_bytes: int) -> Subject:
    subject = subject_of([path], rates, access, branches=None, memory_limit_bytes=memory_limit_bytes)
    near = subject.laid[0].is_near
    laid = replace(laid_file(subject.files[0], None), is_at_a_server=not near, is_near=near)
    return replace(subject, laid=(laid,))


def test_files_too_large_for_the_memory_are_to_be_copied_if_most_of_them_is_wanted(good: Path) -> None:
    def modes(subject: Subject) -> list[str]:
        return [one.id for one in proposals(subject) if one.id.startswith("access-")]

    access, little = Access(mode="cache"), good.stat().st_size * 4
    assert modes(whole_subject_of(good, FAR, access, 2**30)) == ["access-planned", "access-prefetch"]
    assert modes(whole_subject_of(good, FAR, access, little)) == ["access-planned", "access-stage"]
    # A third of the file is wanted.
    assert modes(subject_of([good], FAR, access, memory_limit_bytes=little)) == ["access-planned"]
    assert modes(whole_subject_of(good, NEAR, access, little)) == ["access-planned"]


def test_a_copy_is_proposed_with_the_room_that_it_takes_and_can_be_tried(good: Path) -> None:
    far = Access(mode="plain", throttle="latency=20ms")
    subject = whole_subject_of(good, replace(FAR, round_trip_s=0.02), far, good.stat().st_size * 4)
    # What a throttle slows down counts as far, too.
    (proposal,) = (one for one in proposals(subject) if one.id == "access-stage")
    assert proposal.words == "--access stage"
    assert "has no room for files of 14.3 MB" in proposal.what
    assert proposal.cost == "a local disk for files of 14.3 MB, each time"
    assert try_change(subject, proposal.change) is not None


def test_tiny_baskets_are_to_be_larger_for_a_plain_reader(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.root", [100] * 300)
    found = advise(subject_of([path], FAR, Access(mode="plain")))
    assert "layout-baskets" in [one.id for one in found[:2]]


@pytest.mark.long
def test_a_slow_codec_is_to_be_another(tmp_path: Path, good: Path) -> None:
    path = tmp_path / "lzma.root"
    merge([str(good)], path, codec="lzma:1")
    slow = replace(NEAR, decompress_s_per_byte={"lzma": 100e-9})
    subject = subject_of([path], slow)
    subject = replace(subject, laid=tuple(replace(one, codec="lzma") for one in subject.laid))
    first, *_ = advise(subject)
    assert first.id == "codec"
    assert "recompress" in first.change


def test_one_worker_on_idle_cores_is_to_have_company(good: Path, tmp_path: Path) -> None:
    paths = [good, *(write(tmp_path / f"{number}.root", [100_000] * 3) for number in range(3))]
    job = JobRecord(wall_s=40.0, cpu_s=39.0, machine_cpu_s=39.5, workers=1, events=10**6)
    first, *_ = advise(subject_of(paths, NEAR, job=job))
    assert (first.id, first.change) == ("workers", "--workers 4")
    busy = replace(job, machine_cpu_s=160.0)
    assert advise(subject_of(paths, NEAR, job=busy)) == []


def test_files_without_a_flaw_may_be_tried_as_ntuples_in_their_codec(good: Path, tmp_path: Path) -> None:
    flat, slow = tmp_path / "flat.root", replace(NEAR, decode_s_per_byte=1e-5)
    with uproot.recreate(flat, compression=uproot.LZ4(4)) as file:
        file.mktree("events", {"x": np.float32, "y": np.float32})
        file["events"].extend({name: np.round(np.arange(300_000) / 100).astype(np.float32) for name in ("x", "y")})
    subject = subject_of([flat], slow)
    (proposal,) = columns_of_ntuple(subject)
    assert (proposal.id, proposal.what.partition(":")[0]) == ("format-rntuple", "no flaw")
    assert "--to rntuple --codec lz4:4" in proposal.words
    trial = try_change(subject, proposal.change)
    assert trial is not None
    (written,) = write_changed(proposal.change, subject.files, tmp_path / "new", is_verified=True)
    sizes = [Path(one.path).stat().st_size for one in (written, *subject.files)]
    assert trial.growth == pytest.approx(sizes[0] / sizes[1] - 1, abs=0.01)
    # What is read in no time is not worth it, nothing is known of what is far, and what is an RNTuple stays one.
    assert list(columns_of_ntuple(replace(subject, rates=NEAR))) == []
    far = replace(subject_of([good], FAR), rates=replace(FAR, decode_s_per_byte=1e-5))
    assert list(columns_of_ntuple(far)) == []
    assert list(columns_of_ntuple(subject_of([Path(written.path)], slow))) == []


def test_arrays_with_a_counter_become_columns_under_their_names(good: Path, tmp_path: Path) -> None:
    subject = subject_of([good], replace(NEAR, decode_s_per_byte=1e-5))
    (proposal,) = columns_of_ntuple(subject)
    assert try_change(subject, proposal.change) is not None
    # Compared with the old file: x, y, z, hits and what counts these.
    (written,) = write_changed(proposal.change, subject.files, tmp_path / "new", is_verified=True)
    assert {"x", "y", "z", "hits", "nhits"} <= set(names_of(written))


def test_fewer_workers_have_threads_on_cores_that_are_left_over(good: Path) -> None:
    job = JobRecord(wall_s=40.0, cpu_s=160.0, machine_cpu_s=160.0, workers=5, threads=1, events=300_000)
    busy = replace(NEAR, decode_s_per_byte=1e-4)
    subject = subject_of([good] * 5, busy, job=job, workers=5, cores=8)
    (found,) = [one for one in advised(subject) if one.advice.id.startswith("workers")]
    assert (found.advice.id, found.advice.change) == ("workers-threads", "--workers 4")
    # Eight threads in place of five, for what is decoded; with a file for each of four workers, and one more.
    assert 0.03 < found.advice.gain.value < 1 - 5 / 8 + 0.05
    assert "5 workers with 1 decoding thread each on 8 cores" in found.advice.what
    even = replace(subject, workers=4, threads=2)
    assert [one.id for one in proposals(even) if one.id == "workers-threads"] == []
    shared = replace(subject, job=replace(job, machine_cpu_s=320.0))
    assert [one.id for one in proposals(shared) if one.id.startswith("workers")] == []


def test_advice_is_short_and_sorted(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{number}.root", [100] * 20) for number in range(5)]
    found = advise(subject_of(paths, FAR, Access(mode="plain")))
    gains = [one.gain.value for one in found]
    assert gains == sorted(gains, reverse=True)
    assert 0 < len(found) <= PIECES_MAX
    assert min(gains) >= 0.03


def test_advice_that_is_followed_writes_the_same_entries_beside_the_old_files(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{number}.root", [200] * 2) for number in range(6)]
    subject = subject_of(paths, FAR, Access(requests_in_flight=1))
    advice = piece(subject, "merge")
    (merged,) = do(advice, subject.files, tmp_path / "better")
    assert laid_file(merged, None).entries == 6 * 400
    assert all(path.exists() for path in paths)
    with pytest.raises(OptionError, match="which writes no files"):
        do(replace(advice, change=AdvisedChange(option="--workers 4")), subject.files, tmp_path / "other")


def test_tiny_baskets_become_larger_when_that_is_followed(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.root", [100] * 100)
    subject = subject_of([path], FAR, Access(mode="plain"))
    advice = piece(subject, "layout-baskets")
    (better,) = do(advice, subject.files, tmp_path / "better")
    before, after = (sum(map(len, laid_file(one, None).extents)) for one in (subject.files[0], better))
    assert after < before / 10


def test_a_request_to_read_is_read_in_another_process(good: Path, tmp_path: Path) -> None:
    request = ReadingRequest([str(good)], ["events"], ["x"], mode="plain")
    request.write(tmp_path / "request.json")
    assert read(request) == 300_000
    command = [sys.executable, "-m", "branchline.lab.advice.timed_read", str(tmp_path / "request.json")]
    assert subprocess.run(command, check=False).returncode == 0
