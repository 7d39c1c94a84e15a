"""A train over Parquet files: the results of the same events in ROOT files, with reads and bytes in its record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import pyarrow.parquet as pq
import pytest
from tests.unit.trains.wagons.conftest import run_in_chunks

from branchline.writing.merging.convert import convert


class Sums:
    """Touches two branches, one of them only in later events."""

    name = "sums"

    def process(self, events: Any) -> dict[str, Any]:
        late = float(ak.sum(events.pt)) if int(events.metadata["entrystart"]) > 500 else 0.0
        return {"px": float(ak.sum(events.px)), "late": late, "events": len(events)}


@pytest.fixture(scope="module")
def parquet(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The five files as Parquet."""
    made = tmp_path_factory.mktemp("parquet")
    for one in sorted(folder.glob("*.root")):
        convert(one, made / f"{one.stem}.parquet", branches=["px", "run", "pt"], cluster_entries=500)
    return made


@pytest.mark.parametrize("workers", [0, 2])
def test_results_are_those_of_the_same_events_in_root_files(folder: Path, parquet: Path, workers: int) -> None:
    of_root = run_in_chunks(Sums(), str(folder))
    of_parquet = run_in_chunks(Sums(), str(parquet), workers=workers)
    assert of_parquet.outputs["sums"] == of_root.outputs["sums"]
    assert of_parquet.outputs["sums"]["events"] == 5 * 1500


def test_the_record_counts_reads_and_bytes_of_each_file(parquet: Path) -> None:
    record = run_in_chunks(Sums(), str(parquet), branches=["px"]).record
    assert len(record.files) == 5
    for one in record.files:
        assert one.events == one.entries == 1500
        assert one.size_bytes == Path(one.path).stat().st_size
        assert one.bytes_read >= one.compressed_bytes > 0
        assert one.read_calls >= pq.read_metadata(one.path).num_row_groups
        assert one.late_reads > 0
    assert {one.name for one in record.branches} == {"px", "pt"}
    assert sum(one.baskets for one in record.branches) == sum(one.baskets for one in record.files)


def test_files_of_both_formats_are_one_dataset(folder: Path, parquet: Path) -> None:
    files = [str(folder / "f0.root"), str(parquet / "f1.parquet"), str(folder / "f2.root"), str(parquet / "f3.parquet")]
    expected = run_in_chunks(Sums(), [str(folder / f"f{number}.root") for number in range(4)])
    assert run_in_chunks(Sums(), files).outputs["sums"] == expected.outputs["sums"]


def test_a_branch_that_a_file_lacks_stops_the_wagon_that_wants_it(parquet: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    pq.write_table(pq.read_table(parquet / "f0.parquet", columns=["run"]), other)
    result = run_in_chunks(Sums(), [str(parquet / "f1.parquet"), str(other)])
    assert "px" in str(result.record.wagons[0].error)
