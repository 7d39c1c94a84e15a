"""Skims of files with several TTrees and RNTuples. Entries of one of them are selected, and all others are copied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import pytest
import uproot

from branchline.errors import BadFileError
from branchline.writing.merging.merge import merge
from branchline.writing.merging.skim import skim
from branchline.writing.merging.verify import verify

ENTRIES = {"events": 400, "runs": 60, "vectors": 300, "lumi": 50}
SEEDS = (1, 2)


def write(root: Any, path: Path, seed: int) -> str:
    """Write a file with two TTrees, events and runs, and two RNTuples, vectors and lumi."""
    formats = root.RDF.ESnapshotOutputFormat
    for number, (name, entries) in enumerate(ENTRIES.items()):
        options = root.RDF.RSnapshotOptions()
        options.fMode = "RECREATE" if number == 0 else "UPDATE"
        if name in ("events", "runs"):
            options.fOutputFormat, options.fAutoFlush = formats.kTTree, 30
        else:
            options.fOutputFormat = formats.kRNTuple
        frame = root.RDataFrame(entries).Define("x", f"1000. * {seed} + rdfentry_")
        frame = frame.Define("list", f"std::vector<int>(rdfentry_ % 4, {seed} + int(rdfentry_))")
        frame.Snapshot(name, str(path), ["x", "list"], options)
    return str(path)


@pytest.fixture(scope="module")
def inputs(root: Any, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("inputs")
    return [write(root, folder / f"{seed}.root", seed) for seed in SEEDS]


@pytest.mark.parametrize("cut", ["events", "vectors"])
def test_all_other_trees_are_copied_as_bytes_and_read_equal(
    root: Any, inputs: list[str], tmp_path: Path, cut: str
) -> None:
    output = tmp_path / "out.root"
    skim(inputs, output, where="x % 3 == 0", tree=cut, verify=True)
    found = {tree.path: tree for tree in verify(output, inputs).trees}
    for name, entries in ENTRIES.items():
        expected = ak.concatenate([uproot.open(path)[name].arrays(["x", "list"]) for path in inputs])
        if name == cut:
            expected = expected[expected.x % 3 == 0]
        else:
            tree = found[name]
            assert (tree.entries, tree.copied, tree.equal, tree.differences) == (2 * entries, 2, (), ()), name
        assert ak.array_equal(uproot.open(output)[name].arrays(["x", "list"]), expected, check_parameters=False), name
        columns = root.RDataFrame(name, str(output)).AsNumpy(["x", "list"])
        assert columns["x"].tolist() == expected.x.to_list(), name
        assert [list(one) for one in columns["list"]] == expected["list"].to_list(), name


def test_an_input_is_not_left_out_when_a_part_of_it_is_in_the_output(
    root: Any, inputs: list[str], tmp_path: Path
) -> None:
    damaged = Path(write(root, tmp_path / "damaged.root", 3))
    content = bytearray(damaged.read_bytes())
    # The RNTuple comes last: the trees of the file are already in new baskets when this page is read.
    content[uproot.open(damaged)["lumi"].page_link_list[0][0].pages[0].locator.offset + 5] ^= 0xFF
    damaged.write_bytes(bytes(content))
    given = [inputs[0], str(damaged), inputs[1]]
    with pytest.raises(BadFileError, match=r"damaged\.root.*remove it from the inputs"):
        merge(given, tmp_path / "all.root", cluster_events=50, skip_bad_files=True)
    assert not (tmp_path / "all.root").exists()
    made = merge(given, tmp_path / "all.root", skip_bad_files=True)
    assert made.files == 2
    assert uproot.open(tmp_path / "all.root")["events"].num_entries == 2 * ENTRIES["events"]
