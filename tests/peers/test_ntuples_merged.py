"""Merged RNTuples have the values of the inputs when ROOT and uproot read them, and can be merged again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.peers.peers import missing

import branchline
from branchline.errors import BadFileError, BranchlineError, NoSuchKeyError, UnsupportedBranchError
from branchline.writing.merging.convert import convert
from branchline.writing.merging.merge import merge
from branchline.writing.merging.skim import skim, slim

# Number of entries and compression setting of each input. One input is empty. One is uncompressed, so that its pages
# have a different encoding.
INPUTS = ((700, 505), (0, 404), (1, 0), (1300, 207))
ORDERS = ("entry", "branch", "offset")
FIELDS = {
    "number": "int(rdfentry_) - 5",
    "real": "0.5 * rdfentry_",
    "flag": "rdfentry_ % 3 == 0",
    "list": "std::vector<float>(rdfentry_ % 5, 0.25f * rdfentry_)",
    "text": 'std::string("entry ") + std::to_string(rdfentry_)',
    "nested": "std::vector<std::vector<int>>(rdfentry_ % 3, std::vector<int>(rdfentry_ % 2, int(rdfentry_)))",
    "array": "std::array<double, 3>{0., 1. * rdfentry_, 2.}",
}


def write(root: Any, path: Path, entries: int, compression: int, fields: dict[str, str]) -> None:
    frame = root.RDataFrame(max(entries, 1))
    for name, expression in fields.items():
        frame = frame.Define(name, expression)
    options = root.RDF.RSnapshotOptions()
    options.fOutputFormat = root.RDF.ESnapshotOutputFormat.kRNTuple
    options.fCompressionAlgorithm, options.fCompressionLevel = divmod(compression, 100)
    frame = frame if entries else frame.Filter("false")
    frame.Snapshot("events", str(path), list(fields), options)


@pytest.fixture(scope="module")
def inputs(root: Any, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("inputs")
    paths = [folder / f"{number}.root" for number in range(len(INPUTS))]
    for path, (entries, compression) in zip(paths, INPUTS, strict=True):
        write(root, path, entries, compression, FIELDS)
    return [str(path) for path in paths]


def arrays(paths: list[str]) -> Any:
    return ak.concatenate([uproot.open(path)["events"].arrays() for path in paths])


def check(root: Any, output: Path, expected: Any) -> None:
    assert ak.array_equal(uproot.open(output)["events"].arrays(), expected)
    tree = branchline.open(output)["events"]
    for name in expected.fields:
        assert ak.to_list(tree[name].array()) == ak.to_list(expected[name]), name
    columns = root.RDataFrame("events", str(output)).AsNumpy(["number", "real", "text", "list"])
    assert np.array_equal(columns["number"], ak.to_numpy(expected["number"]))
    assert np.array_equal(columns["real"], ak.to_numpy(expected["real"]))
    assert [str(text) for text in columns["text"]] == ak.to_list(expected["text"])
    assert [list(one) for one in columns["list"]] == ak.to_list(expected["list"])


@pytest.mark.parametrize("order", ORDERS)
def test_a_merged_rntuple_is_read_like_its_inputs(root: Any, inputs: list[str], tmp_path: Path, order: Any) -> None:
    output = tmp_path / "merged.root"
    made = merge(inputs, output, order=order)
    entries = sum(entries for entries, _ in INPUTS)
    assert (made.entries, made.files, made.size_bytes) == (entries, len(INPUTS), output.stat().st_size)
    check(root, output, arrays(inputs))


@pytest.mark.parametrize("codec", ["zstd:5", "none", "lz4:4"])
def test_pages_are_compressed_again(root: Any, inputs: list[str], tmp_path: Path, codec: str) -> None:
    output = tmp_path / "merged.root"
    merge(inputs, output, codec=codec)
    check(root, output, arrays(inputs))
    settings = {"zstd:5": 505, "none": 0, "lz4:4": 404}
    inspector = root.Experimental.RNTupleInspector.Create("events", str(output))
    assert inspector.GetCompressionSettings() == settings[codec]


def test_values_come_to_clusters_and_pages_of_the_wanted_sizes(root: Any, inputs: list[str], tmp_path: Path) -> None:
    output = tmp_path / "merged.root"
    merge(inputs, output, cluster_events=300, basket_size=1000, codec="zstd:1")
    check(root, output, arrays(inputs))
    descriptor = root.Experimental.RNTupleInspector.Create("events", str(output)).GetDescriptor()
    assert descriptor.GetNClusters() == 7
    merge(inputs, output, cluster_bytes="1 MB", force=True)
    check(root, output, arrays(inputs))
    descriptor = root.Experimental.RNTupleInspector.Create("events", str(output)).GetDescriptor()
    assert descriptor.GetNClusters() == 1


def test_what_root_counts_is_what_the_inputs_have(root: Any, inputs: list[str], tmp_path: Path) -> None:
    output = tmp_path / "merged.root"
    write(root, tmp_path / "other.root", 1300, 505, FIELDS)
    same = [inputs[0], str(tmp_path / "other.root")]
    merge(same, output)
    inspect = root.Experimental.RNTupleInspector.Create
    inspectors = [inspect("events", path) for path in same]
    merged = inspect("events", str(output))
    for size in ("GetCompressedSize", "GetUncompressedSize"):
        assert getattr(merged, size)() == sum(getattr(one, size)() for one in inspectors), size
    for field in FIELDS:
        sizes = [one.GetFieldTreeInspector(field).GetCompressedSize() for one in inspectors]
        assert merged.GetFieldTreeInspector(field).GetCompressedSize() == sum(sizes), field
    assert merged.GetDescriptor().GetNEntries() == 2000


def test_root_and_branchline_merge_a_merged_file_on(root: Any, inputs: list[str], tmp_path: Path) -> None:
    merged, by_hadd, again = (tmp_path / name for name in ("merged.root", "hadd.root", "again.root"))
    merge([inputs[0]], merged)
    hadd = Path(root.__file__).parent / "bin" / "hadd"
    if not os.access(hadd, os.X_OK):
        missing(f"the command {hadd}")
    subprocess.run([hadd, "-fk", "-v", "0", by_hadd, merged, inputs[0]], check=True, capture_output=True)
    expected = arrays([inputs[0], inputs[0]])
    assert ak.array_equal(uproot.open(by_hadd)["events"].arrays(), expected)
    merge([str(by_hadd), *inputs[1:]], again)
    check(root, again, arrays([inputs[0], *inputs]))


def test_the_same_inputs_make_the_same_bytes(inputs: list[str], tmp_path: Path) -> None:
    made = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        merge(inputs, tmp_path / folder / "merged.root")
        made.append((tmp_path / folder / "merged.root").read_bytes())
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"real": None}, "field real is missing, unlike"),
        ({"more": "1"}, "there is a field more, unlike"),
        ({"number": "1.5"}, "field number has type double, unlike"),
        ({"list": "std::vector<double>(1)"}, "field list has type std::vector<double>, unlike"),
        ({"array": "std::array<double, 4>{}"}, "field array has type std::array<double,4>, unlike"),
    ],
)
def test_other_fields_are_refused_by_name(
    root: Any, inputs: list[str], tmp_path: Path, change: dict[str, str | None], message: str
) -> None:
    fields = {name: text for name, text in (FIELDS | change).items() if text is not None}
    write(root, tmp_path / "other.root", 3, 505, fields)
    with pytest.raises(UnsupportedBranchError, match=message):
        merge([inputs[0], str(tmp_path / "other.root")], tmp_path / "merged.root")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.root"]


def test_fields_may_come_in_another_order(root: Any, inputs: list[str], tmp_path: Path) -> None:
    write(root, tmp_path / "other.root", 30, 505, dict(reversed(FIELDS.items())))
    output = tmp_path / "merged.root"
    merge([inputs[0], str(tmp_path / "other.root")], output)
    expected = ak.concatenate([arrays([inputs[0]]), arrays([str(tmp_path / "other.root")])[list(FIELDS)]])
    check(root, output, expected)


def test_a_tree_and_an_rntuple_of_one_name_are_not_merged(root: Any, inputs: list[str], tmp_path: Path) -> None:
    root.RDataFrame(3).Define("number", "1").Snapshot("events", str(tmp_path / "tree.root"))
    with pytest.raises(UnsupportedBranchError, match="events is a TTree, but a ROOT::RNTuple in previous files"):
        merge([inputs[0], str(tmp_path / "tree.root")], tmp_path / "merged.root")


def test_a_damaged_page_is_told_by_its_field(inputs: list[str], tmp_path: Path) -> None:
    """After random bytes were changed, a merge either copies the values of the input or raises an error."""
    whole = Path(inputs[2]).read_bytes()
    expected = ak.to_list(arrays([inputs[2]]))
    refused = 0
    for position in range(200, whole.index(b"ROOT::RNTuple") - 60, 3):
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        (tmp_path / "damaged.root").write_bytes(damaged)
        try:
            merge([str(tmp_path / "damaged.root")], tmp_path / "merged.root", force=True)
        except BranchlineError as error:
            refused += "field" in str(error) and isinstance(error, BadFileError)
        else:
            with branchline.open(tmp_path / "merged.root") as file:
                assert ak.to_list(file["events"].arrays()) == expected, position
    assert refused > 0


def test_entries_for_which_an_expression_holds_are_read_by_root_and_uproot(
    root: Any, inputs: list[str], tmp_path: Path
) -> None:
    output = tmp_path / "skimmed.root"
    made = skim(inputs, output, where="(number % 7 == 0) | (number > 1000)", cluster_events=100)
    whole = arrays(inputs)
    expected = whole[(whole.number % 7 == 0) | (whole.number > 1000)]
    assert made.entries == len(expected)
    check(root, output, expected)
    assert root.Experimental.RNTupleInspector.Create("events", str(output)).GetDescriptor().GetNClusters() == 6
    skim(inputs, output, where="number < -10", force=True)
    assert uproot.open(output)["events"].arrays().to_list() == []
    assert root.RNTupleReader.Open("events", str(output)).GetNEntries() == 0


def test_fields_that_are_kept_are_read_by_root_and_uproot(root: Any, inputs: list[str], tmp_path: Path) -> None:
    output = tmp_path / "slimmed.root"
    slim(inputs, output, branches=["number", "real", "te*", "list"])
    check(root, output, arrays(inputs)[["number", "real", "list", "text"]])
    slim(inputs, output, drop=["nested", "array", "flag"], codec="lz4:4", force=True)
    check(root, output, arrays(inputs)[["number", "real", "list", "text"]])
    with pytest.raises(NoSuchKeyError, match="no branch of tree events matches 'none'"):
        slim(inputs, output, branches=["none"], force=True)


def test_members_and_what_shows_them_are_kept_with_what_they_need(root: Any, tmp_path: Path) -> None:
    tree, ntuple, output = (tmp_path / name for name in ("tree.root", "ntuple.root", "slimmed.root"))
    hits = ak.Array([[{"x": 1.0 * k, "y": k, "z": -k} for k in range(entry % 4)] for entry in range(50)])
    with uproot.recreate(tree) as file:
        file.mktree("events", {"hit": hits.type.content, "one": {"a": "f8", "b": "i4"}})
        file["events"].extend({"hit": hits, "one": {"a": np.arange(50) / 2, "b": np.arange(50)}})
    convert(tree, ntuple)
    slim(str(ntuple), output, branches=["hit_y"])
    assert branchline.open(output)["events"].keys() == ["_collection0", "_collection0.hit_y", "hit_y"]
    assert uproot.open(output)["events"]["hit_y"].array().to_list() == hits.y.to_list()
    values = root.RDataFrame("events", str(output)).AsNumpy(["hit_y"])["hit_y"]
    assert [list(one) for one in values] == hits.y.to_list()
    slim(str(ntuple), output, branches=["nhit"], force=True)
    values = root.RDataFrame("events", str(output)).AsNumpy(["nhit"])["nhit"]
    assert values.tolist() == ak.num(hits.x).to_list()
    slim(str(ntuple), output, drop=["hit*", "nhit", "_collection0"], force=True)
    assert branchline.open(output)["events"].keys() == ["one_a", "one_b"]


def test_items_of_pairs_are_not_left_out(root: Any, tmp_path: Path) -> None:
    fields = {"pair": "std::pair<int, float>(int(rdfentry_), 0.5f)", "number": "1"}
    root.gInterpreter.Declare("#include <utility>")
    write(root, tmp_path / "in.root", 5, 505, fields)
    with pytest.raises(UnsupportedBranchError, match=r"pair is a std::pair.*, from which items cannot be removed"):
        slim(str(tmp_path / "in.root"), tmp_path / "out.root", drop=["pair.0"])
    slim(str(tmp_path / "in.root"), tmp_path / "out.root", drop=["pair"])
    assert branchline.open(tmp_path / "out.root")["events"].keys() == ["number"]
