"""Masks of certified luminosity sections, and the sections that were processed."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

import branchline
from branchline.errors import BadFileError, DatasetError, MissingFileError, WagonError
from branchline.trains.wagons.luminosity import LumiMask, LumiSections

BYLS = """#Data tag : 23v1 , Norm tag: None
#run:fill,ls,time,beamstatus,E(GeV),delivered(/ub),recorded(/ub),avgpu,source
1:10,1:1,07/01/18 00:00:00,STABLE BEAMS,6500,1000000.0,900000.0,30.0,PXL
1:10,2:2,07/01/18 00:00:23,STABLE BEAMS,6500,1000000.0,800000.0,30.0,PXL
2:11,7:7,07/01/18 00:00:46,STABLE BEAMS,6500,1000000.0,500000.0,30.0,PXL
#Summary:
#nfill,nrun,nls,ncms,totdelivered(/ub),totrecorded(/ub)
#2,2,3,3,3000000.0,2200000.0
"""


def mask(folder: Path, content: object) -> LumiMask:
    path = folder / "golden.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return LumiMask(str(path))


def test_a_section_is_certified_from_the_first_to_the_last_of_its_range(tmp_path: Path) -> None:
    certified = mask(tmp_path, {"3": [[1, 2]], "1": [[5, 9], [2, 3], [4, 6]], "2": []})
    run = np.repeat([0, 1, 2, 3, 4], 12)
    section = np.tile(np.arange(12), 5)
    wanted = [(r == 1 and 2 <= s <= 9) or (r == 3 and 1 <= s <= 2) for r, s in zip(run, section, strict=True)]
    assert certified(run, section).tolist() == wanted
    assert certified(ak.Array(run), ak.Array(section.astype(np.uint32))).tolist() == wanted
    assert certified([], []).tolist() == []
    assert mask(tmp_path, {})(run, section).sum() == 0


@pytest.mark.peer
def test_it_is_the_mask_of_coffea(tmp_path: Path) -> None:
    lumi_tools = pytest.importorskip("coffea.lumi_tools")
    random = np.random.default_rng(7)
    content: dict[str, list[list[int]]] = {}
    for run in random.choice(400_000, 50, replace=False).tolist():
        edges = np.sort(random.choice(np.arange(1, 2000), 2 * random.integers(1, 20), replace=False)).reshape(-1, 2)
        content[str(run)] = edges.tolist()
    ours = mask(tmp_path, content)
    runs = random.choice([*map(int, content), 5], 20_000).astype(np.uint32)
    sections = random.integers(1, 2100, 20_000).astype(np.uint32)
    theirs = lumi_tools.LumiMask(str(tmp_path / "golden.json"))(runs, sections)
    assert ours(runs, sections).tolist() == np.asarray(theirs).tolist()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is not JSON"),
        ([1], "no dictionary of runs"),
        ("[" * 100_000, "is not JSON"),
        ({"9" * 5000: []}, "is not the number of a run"),
        ({"x": []}, "'x' is not the number of a run"),
        ({"1": 5}, "5 of run 1 is not a pair"),
        ({"1": [[1]]}, r"\[1\] of run 1 is not a pair"),
        ({"1": [[3, 2]]}, r"\[3, 2\] of run 1 is not a pair"),
        ({"1": [[1, 2.5]]}, r"\[1, 2.5\] of run 1 is not a pair"),
        ({"1": [[True, 2]]}, "is not a pair"),
        ({"1": [[1, 2**32]]}, "is not a pair"),
        ({str(2**32): []}, "is not the number of a run"),
    ],
)
def test_other_files_are_refused(content: object, problem: str, tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match=problem):
        mask(tmp_path, content)


@pytest.mark.parametrize(
    ("run", "section", "problem"),
    [
        ([1, 2], [1], "2 runs, but 1 luminosity sections"),
        ([1.5], [1], "the runs have the shape .* float64"),
        ([[1]], [1], "the runs have the shape"),
        ([1], [-1], "luminosity sections are between -1 and -1"),
        ([2**40], [1], "runs are between"),
        (ak.Array([[1], []]), [1, 2], "not one integer for each event"),
        (ak.Array([1, None]), [1, 2], "runs"),
        (np.ma.array([1, 1], mask=[False, True]), [1, 2], "some runs are missing"),
    ],
)
def test_other_values_are_refused(run: Any, section: Any, problem: str, tmp_path: Path) -> None:
    with pytest.raises(WagonError, match=problem):
        mask(tmp_path, {"1": [[1, 2]]})(run, section)


def test_sections_add_up_without_duplicates() -> None:
    first, second = LumiSections.of([1, 1, 2], [3, 3, 7]), LumiSections.of([1, 1], [4, 1])
    total = first + second
    assert len(total) == 4
    assert total.as_json() == {"1": [[1, 1], [3, 4]], "2": [[7, 7]]}
    assert total == second + first == pickle.loads(pickle.dumps(total))
    assert first != second
    assert LumiSections() + first == first
    assert sum([first, second]) == total
    assert LumiSections(total.keys[::-1].tolist()) == total  # type: ignore[arg-type]


def test_a_run_may_be_listed_twice(tmp_path: Path) -> None:
    certified = mask(tmp_path, '{"1": [[1, 5]], "1": [[7, 9]]}')
    assert certified([1, 1, 1, 1], [1, 6, 7, 10]).tolist() == [True, False, True, False]


def test_the_luminosity_is_the_recorded_one_of_these_sections(tmp_path: Path) -> None:
    path = tmp_path / "byls.csv"
    path.write_text(BYLS)
    sections = LumiSections.of([1, 2, 2], [2, 7, 7])
    assert sections.luminosity(path) == pytest.approx(1.3)
    path.write_text(BYLS.replace("(/ub)", "(/fb)"))
    assert sections.luminosity(path) == pytest.approx(1.3e9)
    with pytest.raises(WagonError, match="lacks 1 of 2 luminosity sections, such as 9 of run 3"):
        LumiSections.of([1, 3], [1, 9]).luminosity(path)
    for wrong in (
        "1,2,3\n",
        BYLS.replace("recorded(", "seen("),
        BYLS.replace("/ub", "/yb"),
        BYLS.replace("900000.0", "?"),
    ):
        path.write_text(wrong)
        with pytest.raises(BadFileError, match="is not a file of `brilcalc lumi --byls`"):
            sections.luminosity(path)


def test_a_train_returns_the_sections_that_it_processed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingFileError):
        branchline.lumi_mask("golden.json")
    (tmp_path / "golden.json").write_text('{"1": [[2, 3]], "2": [[1, 1]]}')
    for number in (1, 2, 3):
        with uproot.recreate(tmp_path / f"{number}.root") as file:
            file["events"] = {"run": np.full(40, number), "luminosityBlock": np.repeat(np.arange(4), 10)}

    class Certified:
        def __init__(self) -> None:
            self.certified = branchline.lumi_mask("golden.json")

        def process(self, events: Any) -> dict[str, Any]:
            good = self.certified(events.run, events.luminosityBlock)
            sections = branchline.LumiSections.of(events.run[good], events.luminosityBlock[good])
            return {"events": int(good.sum()), "sections": sections}

    for workers in (0, 2):
        found = branchline.run([Certified()], "*.root", f"out{workers}", workers=workers).outputs["Certified"]
        assert found["events"] == 30
        assert found["sections"].as_json() == {"1": [[2, 3]], "2": [[1, 1]]}
        stored = branchline.load(tmp_path / f"out{workers}")["Certified"]["sections"]
        assert LumiSections(**stored) == found["sections"]


WAGON = """
import branchline


class Certified:
    def __init__(self):
        self.certified = branchline.lumi_mask("golden.json")

    def process(self, events):
        return int(self.certified(events.run, events.luminosityBlock).sum())


class Everything:
    def process(self, events):
        return len(events)
"""
DATASETS = """
[a]
files = ["1.root", "2.root"]
sample = {kind = "data", section_luminosity_per_pb = "byls.csv"}
[b]
files = ["3.root"]
sample = {kind = "data", section_luminosity_per_pb = 0.25}
"""


@pytest.fixture
def certified_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three files with a run each, which has the sections 0 to 3, and the luminosities of some of them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "golden.json").write_text('{"1": [[1, 3]], "2": [[3, 3]], "3": [[0, 1]]}')
    (tmp_path / "byls.csv").write_text(BYLS)
    (tmp_path / "wagons.py").write_text(WAGON)
    (tmp_path / "datasets.toml").write_text(DATASETS)
    for number in (1, 2, 3):
        with uproot.recreate(tmp_path / f"{number}.root") as file:
            file["events"] = {"run": np.full(4, number), "luminosityBlock": np.arange(4)}
    # Every file is a sub-job.
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", (tmp_path / "1.root").stat().st_size)
    return tmp_path


def test_the_record_has_the_luminosity_that_each_wagon_processed_by_dataset(certified_data: Path) -> None:
    records = []
    for workers in (0, 2):
        result = branchline.run("wagons.py", "datasets.toml", f"out{workers}", workers=workers, step_size=2)
        again = branchline.run("wagons.py", "datasets.toml", f"out{workers}", workers=workers, step_size=2)
        assert again.record.subjobs_reused == again.record.subjobs
        assert again.record.luminosities == result.record.luminosities
        records.append(result.record.luminosities)
    with ThreadPoolExecutor(2) as executor:
        elsewhere = branchline.run("wagons.py", "datasets.toml", on=executor, step_size=2)
    assert records[0] == records[1] == elsewhere.record.luminosities
    first, second = records[0]
    assert (first.wagon, first.dataset, first.sections) == ("Certified", "a", 4)
    assert first.luminosity_per_pb == pytest.approx(1.7)
    assert first.source == str(certified_data / "byls.csv")
    assert (first.missing_count, first.missing) == (2, {"1": [[3, 3]], "2": [[3, 3]]})
    assert (second.dataset, second.sections, second.luminosity_per_pb, second.missing_count) == ("b", 2, 0.5, 0)
    report = (certified_data / "out0" / "report.html").read_text()
    assert "Certified of a: 4 luminosity sections, 1.7 / pb, without 2 that are not in" in report
    assert "byls.csv: 3-3 of run 1, 3-3 of run 2; Certified of b: 2 luminosity sections, 0.5 / pb" in report


def test_sections_of_a_chunk_that_failed_do_not_count(certified_data: Path) -> None:
    class Fails:
        def process(self, events: Any) -> int:
            branchline.LumiSections.of(events.run, events.luminosityBlock)
            if 2 in events.luminosityBlock:
                raise ValueError("not this")
            return len(events)

    with pytest.warns(branchline.PartialResultWarning):
        result = branchline.run(Fails(), str(certified_data / "1.root"), workers=0, step_size=2)
    [record] = result.record.luminosities
    assert (record.sections, record.luminosity_per_pb, record.source) == (2, None, "")


def test_a_file_of_luminosities_that_is_damaged_later_is_named(certified_data: Path) -> None:
    (certified_data / "byls.csv").write_text("no table")
    result = branchline.run("wagons.py:Certified", "datasets.toml", workers=0)
    first = result.record.luminosities[0]
    assert (first.sections, first.luminosity_per_pb) == (4, None)
    assert "byls.csv is not a file of `brilcalc lumi --byls`" in first.note


@pytest.mark.parametrize(
    ("sample", "problem"),
    [
        ('{kind = "data", section_luminosity_per_pb = "none.csv"}', r"the file .*none\.csv does not exist"),
        ('{section_luminosity_per_pb = "byls.csv"}', "is simulation, which has no luminosity sections"),
        ('{kind = "data", section_luminosity_per_pb = -1}', "is -1, not a positive number"),
        ('{kind = "data", section_luminosity_per_pb = ""}', "is empty, not the name of a file"),
    ],
)
def test_wrong_luminosities_of_a_dataset_are_refused(sample: str, problem: str, certified_data: Path) -> None:
    (certified_data / "wrong.toml").write_text(f'[a]\nfiles = ["1.root"]\nsample = {sample}\n')
    with pytest.raises(DatasetError, match=problem):
        branchline.Dataset.of("wrong.toml")
