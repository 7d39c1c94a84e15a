"""Verifying: what is the same is said to be, whatever its layout, and what differs is named."""

from __future__ import annotations

from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.command_line import run_command

import branchline
from branchline.errors import StorageError
from branchline.reading.access import Access
from branchline.writing.merging.convert import convert
from branchline.writing.merging.merge import MergeProgress, merge
from branchline.writing.merging.skim import skim
from branchline.writing.merging.verify import verify


def write(
    path: Path, start: int, stop: int, *, step: int = 50, codec: uproot.compression.Compression | None = None
) -> str:
    """A tree and a histogram of numbers from start to stop, in baskets of so many entries."""
    with uproot.recreate(path, compression=codec) as file:
        file.mktree("events", {"x": "float64", "n": "var * int32"})
        for first in range(start, stop, step):
            numbers = np.arange(first, min(first + step, stop))
            lists = ak.values_astype(ak.Array([list(range(number % 4)) for number in numbers]), "i4")
            file["events"].extend({"x": numbers * 0.5, "n": lists})
        file["counts"] = np.histogram(np.arange(start, stop), bins=5, range=(0, 400))
    return str(path)


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    return [write(tmp_path / f"{number}.root", 100 * number, 100 * number + 100) for number in range(3)]


def test_a_merge_is_the_same_basket_by_basket(tmp_path: Path, inputs: list[str]) -> None:
    made = merge(inputs, tmp_path / "all.root", max_size=20_000)
    found = verify(list(made.paths), inputs)
    assert found.is_same
    assert [(tree.path, tree.entries, tree.baskets, tree.equal) for tree in found.trees] == [("events", 300, 18, ())]
    assert found.objects == 1


def test_another_layout_has_the_same_values(tmp_path: Path, inputs: list[str]) -> None:
    other = write(tmp_path / "other.root", 0, 300, step=70, codec=uproot.ZSTD(3))
    found = verify(other, inputs)
    assert found.is_same
    assert set(found.trees[0].equal) == {"x", "n", "nn"}


def test_what_differs_is_named(tmp_path: Path, inputs: list[str]) -> None:
    output = tmp_path / "all.root"
    merge(inputs, output)
    found = verify(output, inputs[:2])
    assert not found.is_same
    assert "it has 300 entries, but the inputs have 200" in found.trees[0].differences
    assert any("counts is not the sum" in difference for difference in found.differences)
    content = bytearray(output.read_bytes())
    seek = int(uproot.open(output)["events/x"].member("fBasketSeek")[4])
    size = int(uproot.open(output)["events/x"].member("fBasketBytes")[4])
    content[seek + size - 1] ^= 1
    output.write_bytes(content)
    found = verify(output, inputs)
    assert [difference.split(":")[0] for difference in found.trees[0].differences] == ["branch x has different values"]
    assert "basket 4, starting at entry 200, has different bytes" in found.trees[0].differences[0]
    done = run_command(["verify", str(output), *inputs])
    assert done.exit_code == 1
    assert "branch x has different values" in done.stderr


def test_the_command_says_that_all_is_the_same(tmp_path: Path, inputs: list[str]) -> None:
    merge(inputs, tmp_path / "all.root", order="branch")
    done = run_command(["verify", str(tmp_path / "all.root"), *inputs])
    assert done.exit_code == 0, done.output
    assert "events: 300 entries, 18 baskets; 3 branches with the same baskets" in done.output
    assert "identical: 1 tree and 1 other object" in done.output


@pytest.fixture
def ntuples(tmp_path: Path, inputs: list[str]) -> list[str]:
    paths = [str(tmp_path / f"ntuple{number}.root") for number in range(len(inputs))]
    for path, ntuple in zip(inputs, paths, strict=True):
        convert(path, ntuple, cluster_entries=40)
    return paths


def test_merged_rntuples_are_the_same_page_by_page_or_value_by_value(tmp_path: Path, ntuples: list[str]) -> None:
    output = tmp_path / "all.root"
    made = merge(ntuples, output, verify=True)
    assert "verified" in made.notes[-1]
    (tree,) = verify(output, ntuples).trees
    assert (tree.entries, tree.copied, tree.equal, tree.differences) == (300, 2, (), ())
    for options in ({"codec": "lz4:4"}, {"cluster_events": 77}, {"basket_size": 100, "codec": "none"}):
        merge(ntuples, output, verify=True, force=True, **options)
        found = verify(output, ntuples)
        assert found.is_same
        assert set(found.trees[0].equal) == {"x", "_collection0"}
    skim(ntuples, output, where="x < 100", force=True, verify=True)
    found = verify(output, ntuples)
    assert "it has 200 entries, but the inputs have 300" in found.trees[0].differences
    assert any(
        "field x has different values" in one or "branch x has different values" in one
        for one in found.trees[0].differences
    )


def test_an_rntuple_that_is_not_what_was_copied_gets_no_name(tmp_path: Path, ntuples: list[str]) -> None:
    harmed: list[Path] = []
    # Small records wait in memory until they are written together.
    with branchline.recreate(ntuples[0]) as file:
        file.mkrntuple("events", {"x": np.random.default_rng(1).integers(0, 1 << 60, 100_000)})
    for path in ntuples[1:]:
        with branchline.recreate(path) as file:
            file.mkrntuple("events", {"x": np.arange(100)})

    def harm(now: MergeProgress) -> None:
        """A byte of a page turns on the disk while other files are merged."""
        if now.files_done and not harmed:
            harmed.extend(tmp_path.glob(".all.root.*.part"))
            with harmed[0].open("r+b") as part:
                part.seek(500)
                byte = part.read(1)[0]
                part.seek(500)
                part.write(bytes([byte ^ 0x55]))

    with pytest.raises(StorageError, match="RNTuple events has different pages of field"):
        merge(ntuples, tmp_path / "all.root", verify=True, access=Access(throttle="requests=5/s"), progress=harm)
    assert harmed
    assert not (tmp_path / "all.root").exists()


def test_an_rntuple_of_arrays_with_one_counter_has_all_branches_of_the_tree(tmp_path: Path) -> None:
    numbers = ak.Array([[1.5], [], [2.5, 3.5]] * 40)
    for name, more in (("tree", 0.0), ("other", 1.0)):
        with uproot.recreate(tmp_path / f"{name}.root") as file:
            file.mktree("events", {"jet": "var * {pt: float64, eta: float32}", "x": "int16"})
            jets = ak.zip({"pt": numbers + more, "eta": ak.values_astype(numbers, "f4")})
            file["events"].extend({"jet": jets, "x": np.arange(120, dtype="i2")})
    tree, made = str(tmp_path / "tree.root"), str(tmp_path / "columns.root")
    convert([f"{tree}:events"], made, to="rntuple")
    found = verify(made, [tree], tree="events")
    assert found.is_same
    (compared,) = found.trees
    # The counter has another type in an RNTuple, and its numbers.
    assert sorted(compared.equal) == ["jet_eta", "jet_pt", "njet", "x"]
    (other,) = verify(made, [str(tmp_path / "other.root")], tree="events").trees
    assert other.differences == ("branch jet_pt has different values: it is a field now",)


def test_an_rntuple_without_a_branch_is_not_the_same(tmp_path: Path, inputs: list[str]) -> None:
    convert([f"{inputs[0]}:events"], tmp_path / "less.root", to="rntuple", branches=["x"])
    (compared,) = verify(tmp_path / "less.root", [inputs[0]], tree="events").trees
    assert "branch n is not in the output" in compared.differences
