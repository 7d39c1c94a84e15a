"""A tree path with wildcards stands for the trees of all folders that match, wherever a dataset is given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.ao2d import Folder, flat, folder, write_ao2d
from tests.command_line import run_command

import branchline
from branchline.errors import DatasetError, NoSuchKeyError
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.datasets.joins import Join, joins_of
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.trains.subjobs.shares import cut

TRACKS = "DF_*/O2track_iu"


@pytest.fixture(scope="module")
def folders() -> list[Folder]:
    # The second folder in the file has the lowest number.
    return [folder(number, count) for number, count in ((2, 20), (1, 12), (3, 0))]


@pytest.fixture(scope="module")
def path(folders: list[Folder], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_ao2d(tmp_path_factory.mktemp("folders") / "AO2D.root", folders)


def names(folders: list[Folder], table: str = "O2track_iu") -> list[str]:
    return [f"{one.name}/{table}" for one in folders]


def test_a_pattern_is_all_trees_in_the_order_of_the_keys(path: Path, folders: list[Folder]) -> None:
    for dataset in (
        Dataset.of(f"{path}:{TRACKS}"),
        Dataset.of({"a": {str(path): f"/{TRACKS}"}}),
        Dataset.of(str(path), TRACKS),
    ):
        assert [(one.tree, one.trees, one.is_unit) for one in dataset] == [(tree, 3, True) for tree in names(folders)]
        assert dataset.size_bytes == path.stat().st_size
    assert sum(one.share_bytes or 0 for one in dataset) == path.stat().st_size // 3 * 3
    assert [one.tree for one in Dataset.of(f"{path}:{folders[1].name}/O2v0*")] == [f"{folders[1].name}/O2v0_002"]
    assert [one.tree for one in Dataset.of(f"{path}:DF_*[12]/O2v?_002")] == names(folders[:2], "O2v0_002")
    assert repr(dataset).startswith("<Dataset: 1 file, ")


def test_wildcards_do_not_match_slashes(path: Path) -> None:
    (one,) = Dataset.of(f"{path}:*O2track_iu")
    assert (one.tree, one.trees) == ("*O2track_iu", 0)
    with pytest.raises(NoSuchKeyError, match=r"no tree .*did you mean"):
        branchline.concatenate(f"{path}:*O2track_iu")


def test_only_the_highest_cycle_is_read(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "cycles.root") as file:
        for count in (2, 3):
            file.mktree("DF_1/t", {"x": "f8"}).extend({"x": np.zeros(count)})
        file.mktree("DF_*", {"x": "f8"}).extend({"x": np.zeros(7)})
    place = f"{tmp_path}/cycles.root"
    assert [(one.tree, one.trees) for one in Dataset.of(f"{place}:DF_*/t")] == [("DF_1/t", 1)]
    assert list(branchline.num_entries(f"{place}:DF_*/t")) == [(place, "DF_1/t", 3)]
    assert len(branchline.concatenate(f"{place}:DF_1;1/t;1")) == 2
    # A tree whose name is the pattern is meant.
    assert [(one.tree, one.trees) for one in Dataset.of(f"{place}:DF_*")] == [("DF_*", 0)]


def test_what_cannot_be_opened_is_reported_when_it_is_read(path: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.root").write_bytes(b"no ROOT file" * 200)
    files = [f"{path}:{TRACKS}", f"{tmp_path}/bad.root:{TRACKS}", f"{tmp_path}/none.root:{TRACKS}"]
    dataset = Dataset.of(files)
    assert [one.trees for one in dataset] == [3, 3, 3, 0, 0]
    assert [one.path for one in dataset.missing] == [f"{tmp_path}/none.root"]
    with pytest.warns(UserWarning, match="was skipped"):
        assert len(branchline.concatenate(files, "fTgl", skip_bad_files=True)) > 0
    with pytest.raises(DatasetError, match="a range of entries cannot be read from all trees"):
        Dataset.of({"a": {"files": {str(path): {"object_path": TRACKS, "steps": [[0, 3]]}}}})
    with pytest.raises(DatasetError, match="twice"):
        Dataset.of([f"{path}:{TRACKS}", f"{path}:{names([folder(1, 1)])[0]}"])


def test_steps_end_with_their_tree(path: Path, folders: list[Folder]) -> None:
    values = [flat(one.tables["O2track_iu"]["fTgl"]) for one in folders]
    reports: Iterator[tuple[object, branchline.Report]] = branchline.iterate(
        f"{path}:{TRACKS}", "fTgl", step_size=50, report=True
    )
    found = [(report.tree_path, report.tree_entry_start, report.tree_entry_stop) for _, report in reports]
    assert found == [
        (tree, start, min(start + 50, len(one)))
        for tree, one in zip(names(folders), values, strict=True)
        for start in range(0, len(one), 50)
    ]
    assert flat(branchline.concatenate(f"{path}:{TRACKS}", "fTgl").fTgl) == flat(values)
    first, last = len(values[0]) - 3, len(values[0]) + 4
    part = branchline.concatenate({str(path): TRACKS}, "fTgl", entry_start=first, entry_stop=last)
    assert flat(part.fTgl) == flat(values)[first:last]
    counts = [(str(path), tree, len(one)) for tree, one in zip(names(folders), values, strict=True)]
    assert list(branchline.num_entries(f"{path}:{TRACKS}")) == counts


def test_a_file_is_opened_once_for_all_of_its_trees(path: Path, folders: list[Folder], tmp_path: Path) -> None:
    other = write_ao2d(tmp_path / "other.root", folders[:1])
    trees = [Source(str(path), name) for name in names(folders)]
    with ChunkStream([Source(str(other), names(folders)[0]), *trees], ["fTgl"], access=Access()) as stream:
        indices = [chunk.source_index for chunk in stream]
        read = stream.records().files
    assert indices == [0, 1, 2]
    assert [(one.source_index, one.path, one.read_calls) for one in read] == [(0, str(other), 1), (1, str(path), 1)]
    entries = [len(one.tables["O2track_iu"]["fTgl"]) for one in folders]
    assert [one.entries for one in read] == [entries[0], sum(entries)]
    # A tree that is not there fails at its place, and does not spoil the others.
    trees.insert(1, Source(str(path), "DF_0/nothing"))
    with ChunkStream(trees, ["fTgl"], allow_missing=True) as stream:
        assert [chunk.source_index for chunk in stream] == [0, 2]
        assert [(one.source_index, one.entries_lost) for one in stream.skipped] == [(1, None)]


def test_dask_takes_patterns(path: Path, folders: list[Folder]) -> None:
    events = branchline.dask(f"{path}:{TRACKS}")
    assert events.npartitions == 2  # one has no entries
    assert flat(events.fTgl.compute()) == flat([one.tables["O2track_iu"]["fTgl"] for one in folders])


def test_show_lists_the_trees_and_their_branches(path: Path, folders: list[Folder]) -> None:
    done = run_command(["show", f"{path}:{TRACKS}"])
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    entries = [len(one.tables["O2track_iu"]["fTgl"]) for one in folders]
    assert [line for line in lines if " TTree " in line] == [
        f"{tree} TTree {count} entries, 3 branches" for tree, count in zip(names(folders), entries, strict=True)
    ]
    assert f"3 trees, {sum(entries)} entries in all; branches of {names(folders)[0]}:" in lines
    assert any(line.startswith("fIndexCollisions int32_t") for line in lines)


def test_sub_jobs_have_whole_folders() -> None:
    many = [DataFile("a.root", f"DF_{number}/t", size_bytes=3_000_000_000, trees=300) for number in range(300)]
    shares = cut(many)
    assert [one for share in shares for one in share.files] == many
    assert {share.parts for share in shares} == {1}
    # The size of the file counts once: a sub-job has about three folders of 10 MB.
    assert 90 <= len(shares) <= 130
    assert shares[0].label.endswith("trees from a.root:DF_0/t to a.root:DF_2/t")
    small = cut([one.changed(size_bytes=3_000_000) for one in many])
    assert len(small) < 5
    assert small[0].label.startswith(f"{len(small[0].files)} trees from a.root:DF_0/t to a.root:DF_")
    joined = DataFile("a.root", "t", size_bytes=3_000_000_000, joins=(Join("T", ("u",), "i"),))
    assert [share.parts for share in cut([joined])] == [1]
    assert cut([joined.changed(joins=())])[0].parts > 1


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, ()),
        ("T=O2track_iu by fIndex", (Join("T", ("O2track_iu",), "fIndex"),)),
        ({"T": "a + b by i", "V": "{folder}/v by i"}, (Join("T", ("a", "b"), "i"), Join("V", ("v",), "i"))),
        (["T = a+sub/b by i"], (Join("T", ("a", "sub/b"), "i"),)),
        ({"T": "a by b by i"}, (Join("T", ("a by b",), "i"),)),
    ],
)
def test_joins_are_written_in_several_ways(given: object, wanted: tuple[Join, ...]) -> None:
    assert joins_of(given) == wanted  # type: ignore[arg-type]
    assert joins_of([f"{one.name}={one}" for one in wanted]) == wanted


@pytest.mark.parametrize(
    "wrong",
    [3, "a by i", "T=a", "T= by i", "T=a by ", "T=a + by i", {"a b": "t by i"}, {"T": 3}, ["T=a by i", "T=b by i"]],
)
def test_what_is_no_join_is_refused(wrong: object) -> None:
    with pytest.raises(DatasetError):
        joins_of(wrong)  # type: ignore[arg-type]
