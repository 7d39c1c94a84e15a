"""Data sets and jobs with one flaw, put in on purpose: it is the first advice. Of flawless ones nothing is said."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.forecast.test_planned_requests import write

from branchline.access import Access
from branchline.dataset import DataFile
from branchline.errors import OptionError
from branchline.forecast.advising import Advised, advice_of
from branchline.forecast.advising import advise as advised
from branchline.forecast.changing import Change
from branchline.forecast.doing import do
from branchline.forecast.ideas import PIECES_MAX
from branchline.forecast.laid import laid_file
from branchline.forecast.rates import Rates
from branchline.forecast.reading import ReadingRequest, read
from branchline.forecast.subject import Subject
from branchline.layout.merging import merge
from branchline.sensors.advice import Advice
from branchline.sensors.record import JobRecord

#: A quick machine beside its data: decompression costs little.
NEAR = Rates(4e-9, {"zlib": 0.5e-9, "zstd": 0.5e-9}, 0.0, 0.0, 1e9, spread=0.05)
#: The same machine, with the data on another continent.
FAR = replace(NEAR, round_trip_s=0.06, bytes_per_second=1e8)


def subject_of(paths: list[Path], rates: Rates, access: Access | None = None, **others: object) -> Subject:
    files = tuple(DataFile(str(path), "events") for path in paths)
    laid = tuple(replace(laid_file(one, ("x", "y")), is_at_a_server=rates is FAR) for one in files)
    made = Subject("a test", files, laid, ("x", "y"), access or Access(), rates, workers=1, threads=1, cores=4)
    return replace(made, **others)  # type: ignore[arg-type]


def advise(subject: Subject) -> list[Advice]:
    return advice_of(advised(subject))


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
    first, *_ = advise(subject_of(paths, FAR, Access(requests_in_flight=1)))
    assert first.id == "merge"
    assert first.gain.low <= first.gain.value <= first.gain.high
    assert "20 files" in first.what


def test_a_reader_without_a_plan_is_to_have_one(good: Path) -> None:
    # Another way of reading is tried: the way has to be long indeed, and not only in the rates.
    throttled = Access(mode="plain", throttle="latency=20ms")
    first, *_ = advise(subject_of([good], replace(FAR, round_trip_s=0.02), throttled))
    assert first.id.startswith("access-")


def test_tiny_baskets_are_to_be_larger_for_a_plain_reader(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.root", [100] * 300)
    found = advise(subject_of([path], FAR, Access(mode="plain")))
    assert "layout-baskets" in [one.id for one in found[:2]]


def test_a_slow_codec_is_to_be_another(tmp_path: Path, good: Path) -> None:
    path = tmp_path / "lzma.root"
    merge([str(good)], path, codec="lzma:8")
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
    with pytest.raises(OptionError, match="nothing is to be written"):
        do(replace(advice, change=Change(option="--workers 4")), subject.files, tmp_path / "other")


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
    command = [sys.executable, "-m", "branchline.forecast.reading", str(tmp_path / "request.json")]
    assert subprocess.run(command, check=False).returncode == 0
