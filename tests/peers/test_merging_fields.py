"""Merging RNTuples with different fields. A field is 0 or empty in the entries of a file that lacks the field.

The expected values come from ROOT's own merger in the mode "Union", which does not support streamer fields either. If
the file with a field of booleans comes first, ROOT writes pages that it cannot read. The expected values are therefore
made with the other order of files.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import uproot
from tests.command_line import run_command
from tests.peers.ntuple_files import by_root, plain, wanted_order

import branchline
from branchline.errors import UnsupportedBranchError
from branchline.writing.merging.merge import FilledBranch, merge
from branchline.writing.merging.verify import verify

pytestmark = pytest.mark.long

#: Number of entries of each file.
ENTRIES = {"few": 20, "all": 30, "some": 25}
SEEDS = {"few": 1, "all": 2, "some": 3}
#: Fields that are streamer fields or contain streamer fields.
STREAMED = {"streamed", "has_streamed", "streamed_track", "streamed_nested", "streamed_lorentz", "streamed_tracks"}
FEW = ["int32", "string"]


def write(peers: Any, path: Path, name: str, fields: list[str], *, encodings: bool) -> str:
    """Write an RNTuple with these fields in many clusters, optionally with random column encodings."""
    layout = peers.Layout()
    layout.clusters, layout.pageBytes, layout.randomEncodings = 7, 200, encodings
    peers.Write(str(path), fields, [], ENTRIES[name], SEEDS[name], layout)
    return str(path)


@pytest.fixture(scope="module")
def fields(peers: Any) -> list[str]:
    """Return all kinds of fields that can be filled for files without the field."""
    return [name for name in map(str, peers.Names()) if name not in STREAMED]


@pytest.fixture(scope="module")
def defaults(root: Any, peers: Any, fields: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the values with which ROOT's merger fills missing fields."""
    folder = tmp_path_factory.mktemp("defaults")
    # ROOT cannot read the variants that its own merger writes. A variant without a value is None.
    found: dict[str, Any] = {"variant": None}
    many = [field for field in fields if field not in ("int32", *found)]
    for shared_field, missing_fields in (("int32", many), ("int16", ["int32"])):
        merger = root.TFileMerger(False, False)
        merger.OutputFile(str(folder / "union.root"), "RECREATE", 505)
        merger.SetMergeOptions("rntuple.MergingMode=Union")
        for name, own in (("few", [shared_field]), ("all", [shared_field, *missing_fields])):
            merger.AddFile(write(peers, folder / f"{name}.root", name, own, encodings=False), False)
        assert merger.Merge(), missing_fields
        for field in missing_fields:
            values = by_root(peers, folder / "union.root", field)[: ENTRIES["few"]]
            assert all(value == values[0] for value in values), field
            found[field] = values[0]
    return found


@pytest.fixture(scope="module", params=[False, True], ids=["encodings of ROOT", "random encodings"])
def inputs(
    request: pytest.FixtureRequest, peers: Any, fields: list[str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Write files with few fields, with all fields, and with some fields in another order."""
    folder = tmp_path_factory.mktemp("inputs")
    some = random.Random(1).sample(fields, len(fields) // 2)
    names = {"few": FEW, "all": fields, "some": list(dict.fromkeys([*some, *FEW]))}
    files = {name: folder / f"{name}.root" for name in names}
    return {name: write(peers, path, name, names[name], encodings=request.param) for name, path in files.items()}


def values_of(peers: Any, path: str | Path, field: str) -> list[Any]:
    values: list[Any] = wanted_order(field, by_root(peers, Path(path), field))
    return values


def expected(peers: Any, inputs: dict[str, str], order: list[str], field: str, default: Any) -> list[Any]:
    """Return the expected values of a field in these files, in the given order."""
    values = []
    for name in order:
        is_there = field in branchline.open(inputs[name])["ntuple"].keys(recursive=False)
        values += values_of(peers, inputs[name], field) if is_there else [default] * ENTRIES[name]
    return values


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("order", ["few all some", "all few some", "some few all"])
def test_all_fields_of_all_files_are_in_the_output(
    peers: Any, inputs: dict[str, str], fields: list[str], defaults: dict[str, Any], tmp_path: Path, order: str
) -> None:
    names = order.split()
    given = [inputs[name] for name in names]
    wanted = {field: expected(peers, inputs, names, field, defaults[field]) for field in fields}
    for number, options in enumerate(({}, {"codec": "lz4:4", "order": "branch"}, {"cluster_events": 11})):
        output = tmp_path / f"{number}.root"
        made = merge(given, output, fill_missing_branches=True, verify=True, **options)
        assert made.entries == sum(ENTRIES.values())
        tree = branchline.open(output)["ntuple"]
        for field in fields:
            assert values_of(peers, output, field) == wanted[field], (field, options)
            assert wanted_order(field, plain(tree[field].array().to_list())) == wanted[field], (field, options)
        filled = {branch.name: (branch.files, branch.entries) for branch in made.filled}
        assert not set(filled) & set(FEW)
        assert filled["double"] == (1, 20) if "double" in branchline.open(inputs["some"])["ntuple"] else (2, 45)
        found = verify(output, given)
        assert found.is_same, (found, options)
        assert {branch.name: (branch.files, branch.entries) for branch in found.filled} == filled


@pytest.mark.peer
def test_uproot_reads_what_is_filled(peers: Any, tmp_path: Path) -> None:
    names = ["float", "bool", "bitset", "string", "vector_float", "vector_vector_string", "array", "track", "optional"]
    few = write(peers, tmp_path / "few.root", "few", FEW, encodings=False)
    many = write(peers, tmp_path / "all.root", "all", ["int32", *names], encodings=False)
    for number, given in enumerate(([few, many], [many, few])):
        output = tmp_path / f"{number}.root"
        merge(given, output, fill_missing_branches=True)
        tree = branchline.open(output)["ntuple"]
        for name in ("int32", *names):
            assert plain(uproot.open(output)["ntuple"][name].array().to_list()) == plain(tree[name].array().to_list())


@pytest.mark.peer
def test_fields_that_show_others_are_filled_with_them(peers: Any, tmp_path: Path) -> None:
    # The writer adds the projected fields n_vector_float, n_vector_track and track_name, which have no columns.
    few = write(peers, tmp_path / "few.root", "few", FEW, encodings=False)
    many = write(peers, tmp_path / "all.root", "all", ["int32", "vector_track", "vector_float"], encodings=False)
    for number, given in enumerate(([few, many], [many, few])):
        output = tmp_path / f"{number}.root"
        made = merge(given, output, fill_missing_branches=True, verify=True)
        assert {branch.name for branch in made.filled} == {"vector_track", "vector_float", "string"}
        tree = branchline.open(output)["ntuple"]
        counts = [len(entry) for entry in by_root(peers, output, "vector_float")]
        assert tree["n_vector_float"].array().to_list() == counts
        assert counts.count(0) >= ENTRIES["few"]
        names = [[track["name"] for track in entry] for entry in by_root(peers, output, "vector_track")]
        assert tree["track_name"].array().to_list() == names


@pytest.mark.peer
def test_fields_of_streamers_are_refused_by_name(peers: Any, tmp_path: Path) -> None:
    few = write(peers, tmp_path / "few.root", "few", FEW, encodings=False)
    for name in sorted(STREAMED):
        many = write(peers, tmp_path / "all.root", "all", [*FEW, name], encodings=False)
        for given in ([few, many], [many, few]):
            with pytest.raises(UnsupportedBranchError, match=f"few.root.*field {name}.* is missing"):
                merge(given, tmp_path / "out.root", fill_missing_branches=True, force=True)
        made = merge([many, few], tmp_path / "out.root", fill_missing_branches=True, skip_bad_files=True, force=True)
        assert (made.files, len(made.skipped)) == (1, 1)


@pytest.mark.peer
def test_the_command_names_the_option_and_what_it_filled(peers: Any, tmp_path: Path) -> None:
    few = write(peers, tmp_path / "few.root", "few", FEW, encodings=False)
    many = write(peers, tmp_path / "all.root", "all", [*FEW, "vector_float"], encodings=False)
    with pytest.raises(UnsupportedBranchError, match=r"vector_float.*--fill-missing-branches"):
        merge([few, many], tmp_path / "out.root")
    output = str(tmp_path / "out.root")
    done = run_command(["merge", few, many, "-o", output, "--fill-missing-branches"])
    assert done.exit_code == 0, done.output
    assert "branch vector_float of the tree ntuple, for 20 entries of 1 file without it" in done.stderr
    made = merge([few, many], output, fill_missing_branches=True, force=True)
    assert made.filled == (FilledBranch("ntuple", "vector_float", 1, 20),)
    verified = run_command(["verify", output, few, many])
    assert (verified.exit_code, "vector_float" in verified.stderr) == (0, True)


@pytest.mark.peer
def test_verify_finds_other_values_where_zeros_belong(peers: Any, tmp_path: Path) -> None:
    few = write(peers, tmp_path / "few.root", "few", FEW, encodings=False)
    many = write(peers, tmp_path / "all.root", "all", [*FEW, "double"], encodings=False)
    wrong = write(peers, tmp_path / "some.root", "few", [*FEW, "double"], encodings=False)
    for options in ({}, {"codec": "zstd:3"}):
        merge([wrong, many], tmp_path / "out.root", force=True, **options)
        found = verify(tmp_path / "out.root", [few, many])
        assert not found.is_same
        assert any("double" in difference for difference in found.trees[0].differences)


@pytest.mark.peer
def test_fields_of_one_name_and_two_types_are_refused(peers: Any, tmp_path: Path) -> None:
    few = write(peers, tmp_path / "few.root", "few", ["int32"], encodings=False)
    with uproot.recreate(tmp_path / "other.root") as file:
        file.mkrntuple("ntuple", {"int32": [1.5], "new": [1]})
    with pytest.raises(UnsupportedBranchError, match=r"other\.root.*field int32"):
        merge([few, str(tmp_path / "other.root")], tmp_path / "out.root", fill_missing_branches=True)
