"""Samples: their description, their sums of weights, results scaled with errors, variations and cutflows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest
import uproot
from tests.branchline_command import run_branchline
from tests.unit.trains.wagons.conftest import run_in_chunks

import branchline
from branchline.errors import DatasetError, NoSuchKeyError, WagonError
from branchline.reading.datasets.data_file import Sample
from branchline.reading.datasets.dataset import Dataset
from branchline.records.report.job_summary import summary
from branchline.records.sensors.record import CutflowRecord, CutRecord
from branchline.trains.sums.cutflow import cutflow_records

EVENTS, PER_FILE = 200, 100
SUMS = (40.0, 60.5)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of simulation with generator weights and their sums, and one of data."""
    folder = tmp_path_factory.mktemp("samples")
    random = np.random.default_rng(7)
    for number, total in enumerate(SUMS):
        with uproot.recreate(folder / f"mc{number}.root") as file:
            jets = ak.unflatten(random.exponential(40, 2 * PER_FILE).astype("f4"), np.full(PER_FILE, 2))
            columns = {
                "met": random.exponential(30, PER_FILE),
                "genWeight": random.choice([0.5, -0.5, 1.5], PER_FILE),
                "up": np.full(PER_FILE, 1.1),
                "Jet": ak.zip({"pt": jets, "eta": jets * 0}),
            }
            file.mktree("Events", {name: ak.Array(one).type for name, one in columns.items()}).extend(columns)
            file.mktree("Runs", {"sumw": "float64"}).extend({"sumw": [total / 4, 3 * total / 4]})
            file["counts"] = hist.Hist.new.Reg(2, 0, 2).Double(data=[total, 7])
    with uproot.recreate(folder / "data.root") as file:
        jets = ak.unflatten(random.exponential(40, 2 * PER_FILE).astype("f4"), np.full(PER_FILE, 2))
        columns = {"met": random.exponential(30, PER_FILE), "Jet": ak.zip({"pt": jets, "eta": jets * 0})}
        file.mktree("Events", {name: ak.Array(one).type for name, one in columns.items()}).extend(columns)
    return folder


def samples(data: Path, **simulated: Any) -> Any:
    """A list of two datasets."""
    of_simulation = {"cross_section_pb": 2.0, "sum_of_weights": "Runs:sumw", "kind": "signal", **simulated}
    return {
        "measured": {
            "files": [str(data / "data.root")],
            "tree": "Events",
            "sample": {"kind": "data", "luminosity_per_fb": 5.0},
        },
        "ttbar": {
            "files": [str(data / f"mc{number}.root") for number in range(2)],
            "tree": "Events",
            "sample": of_simulation,
        },
    }


class Met:
    """The missing momentum of each sample, weighted."""

    by_dataset = True

    def process(self, events: Any) -> Any:
        """A histogram, a count, a profile of means and a text."""
        weight = np.ones(len(events)) if events.metadata["is_data"] else events.genWeight
        histogram = hist.Hist.new.Reg(5, 0, 100, name="met").Weight().fill(events.met, weight=weight)
        profile = hist.Hist.new.Reg(5, 0, 100, name="met").Mean().fill(events.met, sample=2 * events.met)
        return {"met": histogram, "count": len(events), "profile": profile, "text": "same"}


FACTOR = 1000 * 2.0 * 5.0 / sum(SUMS)


def test_simulation_is_scaled_by_its_sum_of_weights_and_data_are_not(data: Path, tmp_path: Path) -> None:
    branchline.run(Met(), samples(data), tmp_path, workers=0, pictures="none")
    results = branchline.load(tmp_path)
    raw, scaled = results["Met"], results.normalised("Met")
    of_ttbar = {one.name: one for one in results.record.samples}["ttbar"]
    assert (of_ttbar.sum_of_weights, of_ttbar.events, of_ttbar.files) == (sum(SUMS), 2 * PER_FILE, 2)
    assert of_ttbar.factor == pytest.approx(FACTOR, rel=1e-14)
    np.testing.assert_allclose(scaled["ttbar"]["met"].values(flow=True), FACTOR * raw["ttbar"]["met"].values(flow=True))
    variances = raw["ttbar"]["met"].variances(flow=True)
    np.testing.assert_allclose(scaled["ttbar"]["met"].variances(flow=True), FACTOR**2 * variances)
    assert scaled["ttbar"]["count"] == pytest.approx(2 * PER_FILE * FACTOR)
    assert scaled["ttbar"]["text"] == "same"
    assert scaled["ttbar"]["profile"] == raw["ttbar"]["profile"]
    assert scaled["measured"] == raw["measured"]
    assert "factor 99.5 for 5 / fb" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("given", "total"), [("histogram:counts[1]", sum(SUMS)), (12.5, 12.5), (None, 2.0 * PER_FILE)], ids=str
)
def test_sums_come_from_histograms_numbers_or_the_events(data: Path, given: Any, total: float) -> None:
    result = run_in_chunks(Met(), samples(data, sum_of_weights=given, scale=0.5))
    record = {one.name: one for one in result.record.samples}["ttbar"]
    assert record.sum_of_weights == total
    assert record.factor == pytest.approx(1000 * 2 * 5 * 0.5 / total)


def test_a_part_of_a_file_counts_in_proportion_and_says_so(data: Path) -> None:
    result = run_in_chunks(Met(), samples(data), max_events=PER_FILE + PER_FILE // 4)
    record = {one.name: one for one in result.record.samples}["ttbar"]
    assert record.sum_of_weights == pytest.approx(SUMS[0] + SUMS[1] / 4)
    assert "Sample ttbar: 1 file only partly read" in "\n".join(summary(result.record))


def test_what_is_missing_for_a_factor_is_said(data: Path, tmp_path: Path) -> None:
    def run(**sample: Any) -> branchline.Results:
        branchline.run(Met(), samples(data, **sample), tmp_path, workers=0, pictures="none")
        return branchline.load(tmp_path)

    with pytest.raises(DatasetError, match=r"'ttbar' cannot be normalised: its sum of weights cannot be read: .*mc0"):
        run(sum_of_weights="Runs:nothing").normalised("Met")
    with pytest.raises(DatasetError, match="it has no cross section"):
        run_without_cross_section(data, tmp_path)


def run_without_cross_section(data: Path, out: Path) -> Any:
    given = samples(data)
    del given["ttbar"]["sample"]["cross_section_pb"]
    branchline.run(Met(), given, out, workers=0, pictures="none")
    return branchline.load(out).normalised("Met")


def together(events: Any) -> Any:
    """All samples added up."""
    return hist.Hist.new.Reg(5, 0, 100, name="met").Double().fill(events.met)


def by_axis(events: Any) -> Any:
    """A histogram with the sample as a category, of counts."""
    histogram = hist.Hist.new.StrCat([], growth=True, name="dataset").Reg(5, 0, 100, name="met").Int64()
    return histogram.fill(dataset=events.metadata["dataset"], met=events.met)


def test_categories_of_an_axis_are_samples_too_and_sums_are_refused(data: Path, tmp_path: Path) -> None:
    branchline.run([by_axis, together], samples(data), tmp_path, workers=0, pictures="none")
    results = branchline.load(tmp_path)
    raw, scaled = results["by_axis"], results.normalised("by_axis")
    np.testing.assert_allclose(scaled["ttbar", :].values(), FACTOR * raw["ttbar", :].values())
    np.testing.assert_allclose(scaled["ttbar", :].variances(), FACTOR**2 * raw["ttbar", :].values())
    np.testing.assert_allclose(scaled["measured", :].values(), raw["measured", :].values())
    with pytest.raises(DatasetError, match=r"samples measured, ttbar added up .*by_dataset = True"):
        results.normalised("together")


def with_sums(events: Any) -> Any:
    return {"cuts": {"all": len(events)}, "met": by_axis(events)}


def test_what_has_samples_added_up_in_a_result_is_named_and_the_others_are_drawn(data: Path, tmp_path: Path) -> None:
    branchline.run(with_sums, samples(data), tmp_path, workers=0, pictures="none")
    with pytest.raises(DatasetError, match=r"samples measured, ttbar added up in cuts/all .*by_dataset = True"):
        branchline.load(tmp_path).normalised("with_sums")
    figure = branchline.plot(tmp_path, "with_sums/met")
    assert figure.axes[0].get_xlim() == (0, 100)


def profile_by_axis(events: Any) -> Any:
    """Means with the sample as a category."""
    profile = hist.Hist.new.StrCat([], growth=True, name="dataset").Reg(5, 0, 100, name="met").WeightedMean()
    return profile.fill(dataset=events.metadata["dataset"], met=events.met, sample=2 * events.met)


def test_means_by_sample_stay_as_they_are(data: Path, tmp_path: Path) -> None:
    branchline.run(profile_by_axis, samples(data), tmp_path, workers=0, pictures="none")
    results = branchline.load(tmp_path)
    raw, scaled = results["profile_by_axis"], results.normalised("profile_by_axis")
    assert scaled.kind == raw.kind
    assert np.any(raw["ttbar", :].values() > 0)
    for part in ("values", "variances", "counts"):
        np.testing.assert_array_equal(getattr(scaled, part)(flow=True), getattr(raw, part)(flow=True))


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ({"kind": "sim"}, "one of data, background, signal"),
        ({"crosssection_pb": 1}, "did you mean cross_section_pb"),
        ({"cross_section_pb": -1}, "not a positive number"),
        ({"cross_section_pb": "1"}, "not a positive number"),
        ({"sum_of_weights": "Runs"}, "not TREE:BRANCH"),
        ({"kind": "data", "cross_section_pb": 1.0}, "data, which has neither a cross section"),
        (["data"], "is not a mapping"),
    ],
)
def test_a_wrong_description_is_refused_with_a_sentence(data: Path, sample: Any, said: str) -> None:
    with pytest.raises(DatasetError, match=said):
        Dataset.of({"a": {"files": [str(data / "data.root")], "sample": sample}})


def test_a_list_in_toml_describes_samples(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "samples.toml"
    path.write_text(f'[ttbar]\nfiles = ["{data}/mc*.root"]\n[ttbar.sample]\ncross_section_pb = 831.76\nlabel = "tt"\n')
    files = Dataset.of(str(path)).files
    assert [one.sample for one in files] == 2 * [Sample(cross_section_pb=831.76, label="tt")]
    assert files[0].metadata["is_data"] is False


def momentum(events: Any) -> Any:
    """A weighted histogram of the jets, after a cut."""
    good = events[events.met > 20]
    weight = ak.flatten(ak.broadcast_arrays(good.weight, good.Jet.pt)[0])
    return hist.Hist.new.Reg(10, 0, 200, name="pt").Weight().fill(ak.flatten(good.Jet.pt), weight=weight)


def test_variations_are_those_of_the_wagon_run_by_hand(data: Path) -> None:
    varied = branchline.varied(
        momentum,
        weight=lambda events: events.genWeight,
        weights={"pileup_up": lambda events: events.up},
        columns={"jes_up": {"Jet.pt": lambda events: events.Jet.pt * 1.1}, "met_up": {"met": lambda e: e.met + 5}},
    )
    varied_data = branchline.varied(momentum)
    varied_data.name = "plain"
    result = run_in_chunks([varied, varied_data], samples(data)["ttbar"]["files"], tree="Events", step_size=30)
    found = result.outputs["momentum"]
    assert list(found) == ["nominal", "pileup_up", "jes_up", "met_up"]
    events = ak.concatenate(list(branchline.iterate([f"{path}:Events" for path in samples(data)["ttbar"]["files"]])))

    def by_hand(pt: Any, met: Any, weight: Any) -> np.ndarray:
        weights = ak.broadcast_arrays(weight, pt)[0][met > 20]
        return np.histogram(ak.flatten(pt[met > 20]), np.linspace(0, 200, 11), weights=ak.flatten(weights))[0]

    pt, met, weight = events.Jet_pt, events.met, events.genWeight
    expected = {
        "nominal": by_hand(pt, met, weight),
        "pileup_up": by_hand(pt, met, 1.1 * weight),
        "jes_up": by_hand(pt * np.float32(1.1), met, weight),
        "met_up": by_hand(pt, met + 5, weight),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(found[name].values(), values, err_msg=name)
    np.testing.assert_allclose(result.outputs["plain"]["nominal"].values(), by_hand(pt, met, weight * 0 + 1))


def test_data_are_not_varied(data: Path, tmp_path: Path) -> None:
    varied = branchline.varied(
        momentum, weight=lambda events: events.genWeight, columns={"jes_up": {"Jet.pt": lambda e: e.Jet.pt * 1.1}}
    )
    varied.thing.function.by_dataset = True
    try:
        branchline.run(varied, samples(data), tmp_path, workers=2, pictures="none")
    finally:
        del varied.thing.function.by_dataset
    found = branchline.load(tmp_path).normalised("momentum")
    assert list(found["measured"]) == ["nominal"]
    assert list(found["ttbar"]) == ["nominal", "jes_up"]


def test_what_cannot_be_varied_is_refused() -> None:
    with pytest.raises(WagonError, match="is not a wagon"):
        branchline.varied(3)
    with pytest.raises(WagonError, match="two variations are called 'a'"):
        branchline.varied(momentum, weights={"a": len}, columns={"a": {}})
    with pytest.raises(WagonError, match="'nominal'"):
        branchline.varied(momentum, weights={"nominal": len})


def flow(events: Any) -> Any:
    """A cutflow."""
    found = branchline.Cutflow.of(events.genWeight)
    found.cut("met", events.met > 20)
    mask = found.cut("jet", ak.any(events.Jet.pt > 50, axis=1))
    return {"flow": found, "left": int(np.sum(mask))}


def test_cutflows_of_chunks_add_and_come_back(data: Path, tmp_path: Path) -> None:
    given = {"ttbar": samples(data, luminosity_per_fb=5.0)["ttbar"]}
    branchline.run(flow, given, tmp_path, workers=2, step_size=30, pictures="none")
    results = branchline.load(tmp_path)
    found = results["flow"]["flow"]
    events = ak.concatenate(list(branchline.iterate([f"{path}:Events" for path in given["ttbar"]["files"]])))
    met = np.asarray(events.met > 20)
    both = met & np.asarray(ak.any(events.Jet_pt > 50, axis=1))
    assert found.names == ["all", "met", "jet"]
    assert found.events == [2 * PER_FILE, met.sum(), both.sum()]
    assert found.events[-1] == results["flow"]["left"]
    assert found.sums == pytest.approx([np.sum(events.genWeight[mask]) for mask in (met | True, met, both)])
    scaled = results.normalised("flow")["flow"]
    assert scaled.events == found.events
    assert scaled.sums == pytest.approx([FACTOR * one for one in found.sums])
    assert "jet" in str(found)


def test_a_wrong_cut_is_refused() -> None:
    found = branchline.Cutflow.of(3)
    with pytest.raises(WagonError, match="mask of cut 'a' has"):
        found.cut("a", np.ones(4, dtype=bool))
    with pytest.raises(WagonError, match="values of int64"):
        found.cut("a", np.ones(3, dtype=np.int64))
    found.cut("a", np.array([True, False, True]))
    with pytest.raises(WagonError, match="two cuts"):
        found.cut("a", np.ones(3, dtype=bool))
    assert (found + branchline.Cutflow.of(2)).events == [5, 2]


def test_a_run_prints_the_first_cutflows_and_says_how_many_more_there_are(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "events.root") as file:
        file.mktree("events", {"x": np.arange(10.0)})
    lines = ["import branchline", "def flow(events):"]
    lines += ["    return {f'region {number}': branchline.Cutflow.of(len(events)) for number in range(9)}"]
    (tmp_path / "wagon.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    arguments = ["run", f"{tmp_path / 'wagon.py'}:flow", str(tmp_path / "events.root"), "-o", str(tmp_path / "out")]
    ended = run_branchline(tmp_path, [*arguments, "--pictures", "none", "--workers", "1"])
    ended.check_returncode()
    printed = ended.stdout
    assert re.findall("cutflow/flow/region (\\d)", printed) == list("012345")
    assert f"3 more cutflows: see the report or branchline.load('{tmp_path / 'out'}')" in printed


def test_a_picture_of_a_sample_says_how_many_events_that_has(data: Path, tmp_path: Path) -> None:
    branchline.run([Met(), by_axis], samples(data), tmp_path, workers=1)
    notes = {
        row.key: (tmp_path / row.picture).read_text() for row in branchline.load(tmp_path).record.results if row.picture
    }
    of_samples = {key: re.findall(r"(\d+) events", picture.replace("\u202f", " ")) for key, picture in notes.items()}
    of_each = {"measured": ["100"], "ttbar": ["200"]}
    assert of_samples == {f"{one}/{key}": of_each[one] for one in of_each for key in ("met", "profile")} | {"": ["300"]}


def multiplicity(events: Any) -> Any:
    jets = ak.num(events.Jet.pt[events.Jet.pt > 30])
    kinds = hist.Hist.new.IntCat([0, 1, 2], name="kind").Weight().fill(jets)
    return {"jets": hist.Hist.new.Int(0, 4, name="jets").Weight().fill(jets), "kinds": kinds}


multiplicity.by_dataset = True  # type: ignore[attr-defined]


def test_numbers_of_jets_are_drawn_by_sample(data: Path, tmp_path: Path) -> None:
    branchline.run(multiplicity, samples(data), tmp_path, workers=0, pictures="none")
    figure = branchline.plot(tmp_path, "multiplicity/jets")
    assert figure.axes[0].get_ylabel() == "Events"
    assert figure.axes[0].get_xlim() == (-0.5, 3.5)
    kinds = branchline.plot(tmp_path, "multiplicity/kinds", panel="none").axes[0]
    assert [one.get_text() for one in kinds.get_xticklabels()] == ["0", "1", "2"]
    with pytest.raises(NoSuchKeyError, match="no histogram 'multiplicity/x'"):
        branchline.plot(tmp_path, "multiplicity/x")


def test_a_run_prints_cutflows_with_numbers_as_everything_else(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "events.root") as file:
        file.mktree("events", {"x": np.arange(12345.0)})
    lines = ["import branchline", "class Flow:", "    name = 'flow'", "    def process(self, events):"]
    lines += ["        found = branchline.Cutflow.of(len(events))", "        found.cut('large', events.x >= 10000)"]
    lines += ["        return {'of': {'x': found}}"]
    (tmp_path / "wagon.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    arguments = ["run", str(tmp_path / "wagon.py"), str(tmp_path / "events.root"), "-o", str(tmp_path / "out")]
    ended = run_branchline(tmp_path, [*arguments, "--pictures", "none", "--workers", "1"])
    ended.check_returncode()
    printed = ended.stdout
    assert "cutflow/flow/of/x: events, weights\n  all    12 345  12 345\n  large   2 345   2 345\n" in printed
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8").replace("\u202f", " ")
    section = page[page.index("<h2>Cutflows</h2>") :]
    section = section[: section.index("</section>")]
    assert "flow <small>of/x</small>" in section
    assert re.findall(r'<td class="n">([^<]*)</td>', section) == [
        *("12 345", "100 %", "100 %", "12 345"),
        *("2 345", "19.0 %", "19.0 %", "2 345"),
    ]


def test_a_record_has_cutflows_with_weights_that_json_can_have() -> None:
    flow = branchline.Cutflow.of(np.array([1.0, np.inf, 2.5]))
    flow.cut("finite", np.array([True, False, True]))
    [alone], left_out = cutflow_records(flow)
    assert alone == CutflowRecord("", [CutRecord("all", 3, None), CutRecord("finite", 2, 3.5)])
    assert left_out == 0
    many, left_out = cutflow_records({"by": {str(number): flow for number in range(100)}, "other": 7})
    assert [one.name for one in many][:2] == ["by/0", "by/1"]
    assert (len(many), left_out) == (20, 80)


def test_cutflows_that_a_record_leaves_out_are_counted_in_record_report_and_terminal(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "events.root") as file:
        file.mktree("events", {"x": np.arange(10.0)})
    lines = ["import branchline", "class Flow:", "    name = 'flow'", "    def process(self, events):"]
    lines += ["        return {f'of{n}': branchline.Cutflow.of(len(events)) for n in range(23)}"]
    (tmp_path / "wagon.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    arguments = ["run", str(tmp_path / "wagon.py"), str(tmp_path / "events.root"), "-o", str(tmp_path / "out")]
    ended = run_branchline(tmp_path, [*arguments, "--pictures", "none", "--workers", "1"])
    ended.check_returncode()
    printed = ended.stdout
    sentence = "job.json and the report have 20 of the 23 cutflows of flow; its results have all of them"
    assert sentence in printed.replace("\n", " ")
    assert sentence in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    [wagon] = json.loads((tmp_path / "out" / "job.json").read_text(encoding="utf-8"))["wagons"]
    assert (len(wagon["cutflows"]), wagon["cutflows_left_out"]) == (20, 3)
    assert sum(isinstance(one, branchline.Cutflow) for one in branchline.load(tmp_path / "out")["flow"].values()) == 23
