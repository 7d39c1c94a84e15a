"""Folders of Parquet files, as dask, pyarrow and Spark write them, are datasets in the order of their parts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from tests.branchline_command import run_branchline

import branchline
from branchline.errors import BranchlineWarning, DatasetError, OptionError
from branchline.reading.datasets.dataset import Dataset
from branchline.writing.merging.convert import convert

PARTS, ROWS = 12, 10


def part(number: int) -> pa.Table:
    return pa.table({"x": np.arange(number * ROWS, (number + 1) * ROWS)})


def as_dask(folder: Path) -> None:
    """``part.0.parquet``, without leading zeros, and two files of metadata."""
    folder.mkdir()
    collected: list[pq.FileMetaData] = []
    for number in range(PARTS):
        pq.write_table(part(number), folder / f"part.{number}.parquet", metadata_collector=collected)
    for number, one in enumerate(collected):
        one.set_file_path(f"part.{number}.parquet")
    pq.write_metadata(part(0).schema, folder / "_metadata", metadata_collector=collected)
    pq.write_metadata(part(0).schema, folder / "_common_metadata")


def as_arrow(folder: Path) -> None:
    """``part-0.parquet``, as pyarrow's own writer of datasets names them; its threads write rows in any order."""
    table = pa.concat_tables(map(part, range(PARTS)))
    groups = {"max_rows_per_file": ROWS, "max_rows_per_group": ROWS}
    pa.dataset.write_dataset(table, folder, format="parquet", use_threads=False, **groups)


def as_spark(folder: Path) -> None:
    """Parts with an identifier of the job, checksums that are hidden, a mark of success and what a task left."""
    folder.mkdir()
    for number in range(PARTS):
        name = f"part-{number:05}-9a1c6f9e-0b1a-4c7e-8d55-3f2f6ad0a7b1-c000.snappy.parquet"
        pq.write_table(part(number), folder / name)
        (folder / f".{name}.crc").write_bytes(b"crc\0")
    (folder / "_SUCCESS").touch()
    (folder / "._SUCCESS.crc").touch()
    (folder / "._part-00000.parquet").write_bytes(b"what another system left")
    for hidden in ("_temporary/0", ".staging"):
        (folder / hidden).mkdir(parents=True)
        (folder / hidden / "part-00000.parquet").write_bytes(b"not whole")


@pytest.fixture(params=[as_dask, as_arrow, as_spark])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    write: Callable[[Path], None] = request.param
    write(tmp_path / "data.parquet")
    return tmp_path / "data.parquet"


def counted(events: ak.Array) -> dict[str, list[int]]:
    """The first value of each chunk."""
    return {"n": [len(events)], "sum": [int(np.sum(events.x))]}


@pytest.mark.parametrize("ending", ["", "/", ":Events", "/:Events"])
def test_a_folder_is_read_in_the_order_of_its_parts(folder: Path, ending: str) -> None:
    given = f"{folder}{ending}"
    assert [one.tree for one in Dataset.of(given)] == ["Events" if ":" in ending else None] * PARTS
    steps = list(branchline.iterate(given, step_size=ROWS))
    assert [step.x[0] for step in steps] == list(range(0, PARTS * ROWS, ROWS))
    assert branchline.concatenate(given, "x", entry_start=5, entry_stop=25).x.to_list() == list(range(5, 25))
    assert [count for _, _, count in branchline.num_entries(folder)] == [ROWS] * PARTS


def test_a_train_and_a_conversion_take_it(folder: Path, tmp_path: Path) -> None:
    result = branchline.run(counted, folder, workers=1)
    assert sum(result.outputs["counted"]["n"]) == PARTS * ROWS
    assert result.outputs["counted"]["sum"] == [sum(range(n * ROWS, (n + 1) * ROWS)) for n in range(PARTS)]
    assert convert(folder, tmp_path / "all.root").files == PARTS
    assert branchline.open(tmp_path / "all.root")["Events"]["x"].array().to_list() == list(range(PARTS * ROWS))


def test_commands_take_it(folder: Path) -> None:
    printed = run_branchline(folder, ["inspect", folder]).stdout
    assert f"{PARTS} files, {PARTS * ROWS} entries" in printed


def test_opening_it_says_how_it_is_read(folder: Path) -> None:
    for what in (branchline.open, lambda path: branchline.open(f"{path}:Events")):
        with pytest.raises(OptionError, match="a folder of 12 Parquet files") as refused:
            what(folder)
        assert "branchline.iterate" in str(refused.value)


def test_a_folder_among_files_and_in_a_list(folder: Path, tmp_path: Path) -> None:
    pq.write_table(part(PARTS), tmp_path / "more.parquet")
    (tmp_path / "list.txt").write_text("data.parquet\nmore.parquet\n", encoding="utf-8")
    assert len(Dataset.of(tmp_path / "list.txt")) == PARTS + 1
    assert len(branchline.concatenate([folder, tmp_path / "more.parquet"])) == (PARTS + 1) * ROWS
    assert len(branchline.concatenate({folder: "Events", tmp_path / "more.parquet": None})) == (PARTS + 1) * ROWS


def test_a_pattern_of_folders_is_that_of_their_files(tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet"):
        as_dask(tmp_path / name)
    names = [one.path for one in Dataset.of(f"{tmp_path}/*.parquet")]
    assert names == [f"{tmp_path}/{name}/part.{n}.parquet" for name in ("a.parquet", "b.parquet") for n in range(PARTS)]
    assert len(branchline.concatenate(f"{tmp_path}/{{a,b}}.parquet")) == 2 * PARTS * ROWS


def test_columns_in_the_names_of_folders_are_named(tmp_path: Path) -> None:
    for year in (2017, 2018):
        (tmp_path / "data" / f"year={year}").mkdir(parents=True)
        pq.write_table(part(0), tmp_path / "data" / f"year={year}" / "0.parquet")
    with pytest.warns(BranchlineWarning, match="year from the names of its folders is not read as a branch"):
        assert len(Dataset.of(tmp_path / "data")) == 2


def test_a_folder_without_parts_says_so(tmp_path: Path) -> None:
    (tmp_path / "data.parquet").mkdir()
    (tmp_path / "data.parquet" / "_SUCCESS").touch()
    for what in (Dataset.of, lambda path: list(branchline.iterate(path))):
        with pytest.raises(DatasetError, match=r"contains neither \*.root nor \*.parquet"):
            what(tmp_path / "data.parquet")


def test_a_folder_of_root_files_is_as_it_was(tmp_path: Path) -> None:
    for name in ("x10.root", "x2.root", "_x.root"):
        with branchline.recreate(tmp_path / name) as file:
            file.mktree("events", {"x": [1.0]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [Path(one.path).name for one in Dataset.of(tmp_path)] == ["_x.root", "x10.root", "x2.root"]
        assert len(branchline.concatenate(tmp_path)) == 3
