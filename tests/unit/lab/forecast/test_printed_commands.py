"""What advice prints as a command or an option runs as it is printed; jobs without their files are advised, too."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.command_line import run_command
from tests.unit.lab.forecast.test_planned_requests import write
from tests.unit.records.report.conftest import make_job

from branchline.cli.parser import named_command, parse
from branchline.lab.advice.proposals import proposals
from branchline.lab.forecast.laid_file import laid_file
from branchline.lab.forecast.rates import Rates
from branchline.lab.forecast.subject import Subject
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.records.diagnosis.advice import inputs_words, pattern_of
from branchline.records.diagnosis.job_advice import advise_job
from branchline.records.sensors.record import JobRecord
from branchline.writing.merging.merge import merge

RECORDS = Path(__file__).parents[2] / "records" / "report" / "records"
#: A far place, a slow codec, and objects that are slow to decode: all that files can be changed to is proposed.
SLOW = Rates(2e-8, {"zlib": 5e-8}, 0.0, 0.06, 1e8, spread=0.05)
RUN = "branchline run wagons.py data -o out"


def checked(change: str) -> bool:
    """Whether it is a command or an option, which the parser of commands then has to take."""
    words = shlex.split(f"{RUN} {change}" if change.startswith("--") else change)
    if words[0] != "branchline":
        return False
    words = words[1 : words.index(">")] if ">" in words else words[1:]
    parse(*named_command(words))
    return True


def proposed(paths: list[Path], access: Access, branches: tuple[str, ...] = ("x", "hits")) -> Iterator[tuple[str, str]]:
    files = tuple(DataFile(str(path), "events") for path in paths)
    laid = tuple(replace(laid_file(one, branches), codec="zlib") for one in files)
    for one in proposals(Subject("a test", files, laid, branches, access, SLOW, workers=1, threads=1, cores=4)):
        yield one.id, one.words


@pytest.mark.parametrize("path", sorted(RECORDS.glob("*.json")), ids=lambda path: path.stem)
def test_commands_for_real_jobs_can_be_read(path: Path) -> None:
    for one in advise_job(JobRecord.from_dict(json.loads(path.read_text()))):
        assert checked(one.change) or not one.change.startswith(("branchline", "--"))


def test_commands_for_far_jobs_can_be_read() -> None:
    element = {"name": "root://eos.example", "files": 24, "bytes_read": 4e8, "read_calls": 96, "fetch_s": 40.0}
    far = {"site": "GSI", "storage_element": "root://far", "files": 9, "bytes_read": 9e8, "fetch_s": 90}
    near = {**far, "storage_element": "root://near", "nearness": "site", "fetch_s": 9}
    job = make_job(phases={"wait": 0.8, "wagons": 0.2})
    job["totals"] |= {"bytes_read": 400_000_000}
    found = advise_job(JobRecord.from_dict({**job, "storage_elements": [element], "sites": [near, far], "workers": 8}))
    assert {"slim", "replicas", "near-cache"} <= {one.id for one in found}
    assert all(checked(one.change) for one in found)


def test_proposed_commands_run_as_they_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "some data"
    folder.mkdir()
    paths = [write(folder / f"{number}.root", [100] * 30) for number in range(10)]
    # Jumps within the read-ahead of the kernel are free.
    merge([str(write(tmp_path / "large.root", [3000] * 10))], tmp_path / "by_branch.root", order="branch")
    found = dict(proposed(paths, Access(mode="prefetch")))
    found["layout-order"] = dict(proposed([tmp_path / "by_branch.root"], Access()))["layout-order"]
    # Branches of one size have baskets of few entries, whatever clusters are; those of different sizes end with them.
    small = dict(proposed(paths, Access(), ("x", "y")))
    found["layout-baskets"] = small["layout-baskets"]
    formats = {"format-rntuple", "format-flat"}
    assert {"merge", "layout-baskets", "layout-clusters", "layout-order", "codec", "slim"} | formats <= set(found)
    for id_, words in found.items():
        if not words.startswith("branchline"):
            assert checked(words) or not words.startswith("--")
            continue
        ran = run_command(shlex.split(words)[1:])
        assert ran.exit_code == 0, f"{words}\n{ran.output}"
        output = tmp_path / shlex.split(words)[shlex.split(words).index("-o") + 1]
        assert laid_file(DataFile(str(output), "events"), ("x",)).entries == 10 * 3000, id_


def test_the_command_for_tiny_clusters_of_an_rntuple_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "n.root", [50] * 20, ntuple=True)
    words = dict(proposed([path], Access()))["layout-clusters"]
    ran = run_command(shlex.split(words)[1:])
    assert ran.exit_code == 0, ran.output
    assert laid_file(DataFile(str(tmp_path / "clusters.root"), "events"), ("x",)).entries == 1000


def test_many_inputs_are_narrow_patterns() -> None:
    names = [f"/data/run{number // 10}/events_{number:03d}.root" for number in range(25)]
    assert inputs_words(names[:2]) == "/data/run0/events_000.root /data/run0/events_001.root"
    assert (
        inputs_words(names) == "'/data/run0/events_00*.root' '/data/run1/events_01*.root' '/data/run2/events_02*.root'"
    )
    assert inputs_words([f"/{number}/f.root" for number in range(9)]) == "'/*/f.root'"
    mixed = [f"/{number}{'/x' * (number % 2)}/f.root" for number in range(9)]
    assert shlex.split(inputs_words(mixed)) == mixed
    urls = [f"root://se//{number}/f.root" for number in range(9)]
    assert shlex.split(inputs_words(urls)) == urls
    assert pattern_of(["/a/aa.root", "/a/a.root"]) == "/a/a*.root"


def test_a_job_whose_files_are_gone_is_advised_by_its_record(tmp_path: Path) -> None:
    job = json.loads((RECORDS / "lzma.json").read_text())
    job["dataset"] = [{"path": str(tmp_path / "gone" / f"{number}.root"), "tree": "events"} for number in range(4)]
    (tmp_path / "job.json").write_text(json.dumps(job))
    shown = run_command(["advise", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert "[codec]" in shown.stdout
    assert "by the record of the job alone" in shown.stderr
    assert "gone" in shown.stderr
    assert "-o zstd.root --codec zstd:5" in shown.stdout
    followed = run_command(["advise", str(tmp_path), "--do", str(tmp_path / "better")])
    assert followed.exit_code != 0
    assert "give the current location of the files" in followed.output
    assert not (tmp_path / "better").exists()


def test_a_record_that_does_not_name_its_files_is_advised_but_not_forecast(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_bytes((RECORDS / "lzma.json").read_bytes())
    assert "[codec]" in run_command(["advise", str(tmp_path)]).stdout
    refused = run_command(["forecast", str(tmp_path), "--what-if", "rtt=10ms"])
    assert refused.exit_code != 0
    assert "does not name the files" in refused.output
