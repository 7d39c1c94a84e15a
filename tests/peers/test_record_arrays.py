"""Fixed-size arrays of records in RNTuples: ROOT and uproot read the lengths and values that were written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.peers.generator.written_cases import PRINTED

import branchline
from branchline.writing.merging.convert import convert
from branchline.writing.merging.skim import skim, slim


def fixed(content: ak.Array, size: int) -> ak.Array:
    """Group values into arrays of ``size``."""
    return ak.to_regular(ak.unflatten(content, size), axis=1)


NUMBERS = np.arange(30, dtype=np.int64)
RECORDS = ak.zip({"x": NUMBERS + 0.5, "y": NUMBERS})
ARRAYS = {
    "arrays": fixed(RECORDS[:15], 3),
    "of_one": fixed(RECORDS[:5], 1),
    "of_arrays": fixed(fixed(RECORDS, 2), 3),
    "of_lists": fixed(ak.unflatten(RECORDS[:9], [0, 1, 2] * 3 + [0]), 2),
    "in_lists": ak.unflatten(fixed(RECORDS[:20], 2), [0, 1, 2, 3, 4]),
    "of_tuples": fixed(ak.zip((NUMBERS[:10], RECORDS[:10]), depth_limit=1), 2),
}
ARRAYS["in_records"] = ak.zip({"a": ARRAYS["arrays"], "n": NUMBERS[:5]}, depth_limit=1)
ARRAYS["of_records"] = fixed(
    ak.zip(
        {"a": fixed(RECORDS[:20], 2), "l": ak.unflatten(RECORDS[:10], [0, 1, 2, 3, 0, 1, 0, 1, 1, 1])}, depth_limit=1
    ),
    2,
)
TYPES = {
    "arrays": "3 * {x: float64, y: int64}",
    "of_one": "1 * {x: float64, y: int64}",
    "of_arrays": "3 * 2 * {x: float64, y: int64}",
    "of_lists": "2 * var * {x: float64, y: int64}",
    "in_lists": "var * 2 * {x: float64, y: int64}",
    "of_tuples": "2 * (int64, {x: float64, y: int64})",
    "in_records": "{a: 3 * {x: float64, y: int64}, n: int64}",
    "of_records": "2 * {a: 2 * {x: float64, y: int64}, l: var * {x: float64, y: int64}}",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with branchline.recreate(tmp_path / "arrays.root") as file:
        file.mkrntuple("t", ARRAYS)
    return tmp_path / "arrays.root"


def by_root(root: Any, path: Path) -> list[dict[str, Any]]:
    """Return all entries, parsed from the text that ROOT prints."""
    if not hasattr(root, "peers") or not hasattr(root.peers, "printedEntries"):
        root.gInterpreter.Declare(PRINTED)
    text = bytes.fromhex(str(root.peers.printedEntries(str(path), "t"))).decode()
    return [json.loads(f"{{{entry}}}") for entry in text.strip()[1:-1].split("}\n{")]


def check(root: Any, path: Path, arrays: dict[str, Any]) -> None:
    """Compare the RNTuple ``t`` with values of the columns above, as Branchline, uproot and ROOT read it."""
    tree = branchline.open(path)["t"]
    entries = by_root(root, path)
    with uproot.open(path) as file:
        for name, array in arrays.items():
            for found in (tree[name].array(), file["t"][name].array()):
                assert str(found.type) == f"{len(array)} * {TYPES[name]}"
                assert found.to_list() == array.to_list()
            assert [entry[name] for entry in entries] == printed(array.to_list())


def printed(value: Any) -> Any:
    """Convert a value to the form that ROOT prints: the members of a tuple have the names of their fields."""
    if isinstance(value, tuple):
        return {f"_{place}": printed(one) for place, one in enumerate(value)}
    if isinstance(value, dict):
        return {name: printed(one) for name, one in value.items()}
    return [printed(one) for one in value] if isinstance(value, list) else value


@pytest.mark.peer
def test_arrays_of_records_keep_their_lengths(root: Any, path: Path) -> None:
    check(root, path, ARRAYS)


@pytest.mark.peer
def test_members_of_arrays_are_read_alone(root: Any, path: Path) -> None:
    tree = branchline.open(path)["t"]
    assert str(tree["of_arrays.x"].array().type) == "5 * 3 * 2 * float64"
    frame = root.RDataFrame("t", str(path))
    for name in ("arrays.x", "in_records.a.x", "of_one.y"):
        found = [list(one) for one in frame.Take[f"ROOT::RVec<{'double' if name[-1] == 'x' else 'Long64_t'}>"](name)]
        assert found == tree[name].array().to_list()


@pytest.mark.peer
def test_entries_of_a_declared_class_are_read_by_root(root: Any, path: Path) -> None:
    assert root.gInterpreter.Declare("""
        namespace branchline { struct record_arrays { double x; std::int64_t y; }; }
        double sumOfRecordArrays(const char* path) {
          auto reader = ROOT::RNTupleReader::Open("t", path);
          auto view = reader->GetView<std::array<branchline::record_arrays, 3>>("arrays");
          double sum = 0;
          for (auto entry : reader->GetEntryRange()) for (auto& one : view(entry)) sum += one.x * 100 + one.y;
          return sum;
        }""")
    assert root.sumOfRecordArrays(str(path)) == sum((n + 0.5) * 100 + n for n in range(15))


@pytest.mark.peer
def test_further_entries_and_fields_keep_the_lengths(root: Any, path: Path) -> None:
    first = {name: array[:3] for name, array in ARRAYS.items() if name != "of_one"}
    path.unlink()
    with branchline.recreate(path) as file:
        file.mkrntuple("t", first).extend(first)
    with branchline.update(path) as file:
        file["t"].add_fields({"of_one": ARRAYS["of_one"].type.content})
        file["t"].extend(ARRAYS)
    added = ak.concatenate([ak.Array([[{"x": 0.0, "y": 0}]] * 6), ARRAYS["of_one"]])
    expected = {name: ak.concatenate([values[:3], values[:3], values]) for name, values in ARRAYS.items()}
    check(root, path, expected | {"of_one": ak.to_regular(added)})


def merged(path: Path, output: Path) -> Callable[[ak.Array], ak.Array]:
    other = Path(shutil.copy(path, path.with_name("other.root")))
    branchline.merge([path, other], output)
    return lambda values: ak.concatenate([values, values])


def converted(path: Path, output: Path) -> Callable[[ak.Array], ak.Array]:
    convert(path, output, to="rntuple", cluster_entries=2)
    return lambda values: values


def skimmed(path: Path, output: Path) -> Callable[[ak.Array], ak.Array]:
    skim([str(path)], output, where="in_records.n > 1")
    return lambda values: values[2:]


def slimmed(path: Path, output: Path) -> Callable[[ak.Array], ak.Array]:
    slim([str(path)], output, branches=list(ARRAYS))
    return lambda values: values


@pytest.mark.peer
@pytest.mark.parametrize("make", [merged, converted, skimmed, slimmed])
def test_files_made_of_others_keep_the_lengths(root: Any, path: Path, tmp_path: Path, make: Any) -> None:
    expected = make(path, tmp_path / "made.root")
    check(root, tmp_path / "made.root", {name: expected(values) for name, values in ARRAYS.items()})


def test_paths_that_make_the_same_class_name_get_different_classes(tmp_path: Path) -> None:
    records, others = fixed(RECORDS[:4], 2), fixed(ak.zip({"z": NUMBERS[:4]}), 2)
    with branchline.recreate(tmp_path / "a.root") as file:
        file.mkrntuple("t", {"a_b": records, "a": ak.zip({"b": others, "c": others}, depth_limit=1), "a-b": others})
    with uproot.open(tmp_path / "a.root") as file:
        names = {field.type_name for field in file["t"].header.field_records if "array" in field.type_name}
    assert len(names) == 4
    tree = branchline.open(tmp_path / "a.root")["t"]
    assert [tree[name].array().to_list() for name in ("a_b", "a.b", "a-b")] == [
        one.to_list() for one in (records, others, others)
    ]


def test_variants_of_records_are_refused_by_name(tmp_path: Path) -> None:
    # ROOT crashes on a std::variant of a class without a dictionary, and cannot open an RNTuple with a variant field
    # whose type name is empty.
    values = ak.concatenate([ARRAYS["arrays"], ak.Array(["one", "two"])])
    with (
        pytest.raises(branchline.UnsupportedBranchError, match="v: a field cannot store variants of records"),
        branchline.recreate(tmp_path / "a.root") as file,
    ):
        file.mkrntuple("t", {"v": values})
