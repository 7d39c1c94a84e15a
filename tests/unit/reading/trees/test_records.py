"""What a stream records: counts that uproot confirms, parts that add up to wholes, late reads."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from tests.page_cache import in_page_cache, in_page_cache_except, is_in_page_cache
from tests.unit.reading.trees.conftest import Sample

import branchline
from branchline.reading.sources import Source, StreamRecords
from branchline.reading.trees.stream import ChunkStream

# Files up to this size are read whole by one call.
WHOLE_FILE_BYTES = 8 << 20
# Ranges this near are read as one.
GAP_BYTES = 16 << 10
METADATA_BYTES = (1 << 20) + (16 << 10)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 12 MB that does not compress: 8 clusters of 6 branches of doubles."""
    path = tmp_path_factory.mktemp("large") / "large.root"
    random = np.random.default_rng(5)
    with uproot.recreate(path, compression=uproot.ZLIB(1)) as file:
        tree = file.mktree("events", dict.fromkeys("abcdef", "float64"))
        for _ in range(8):
            tree.extend({name: random.normal(size=33_000) for name in "abcdef"})
    assert path.stat().st_size > WHOLE_FILE_BYTES + (2 << 20)
    return path


def records_of(path: Path, branches: list[str] | None, **settings: Any) -> StreamRecords:
    with ChunkStream([Source(str(path))], branches, **settings) as stream:
        for chunk in stream:
            chunk.arrays()
        return stream.records()


def plain_bytes_by_uproot(path: Path, branches: list[str]) -> int:
    with uproot.open(path) as file:
        found = [file["events"][name] for name in branches]
        return sum(one.basket_key(index).fObjlen for one in found for index in range(one.num_baskets))


@pytest.mark.parametrize("branches", [None, ["energy"]])
def test_a_small_file_takes_one_call(sample: Sample, branches: list[str] | None) -> None:
    (record,) = records_of(sample.path, branches).files
    assert record.read_calls == 1
    assert record.bytes_read == record.bytes_asked == sample.path.stat().st_size
    assert record.gap_bytes == 0


@pytest.mark.parametrize("branches", [None, ["energy"], ["hits", "label"]])
def test_baskets_and_bytes_are_those_that_uproot_tells(sample: Sample, branches: list[str] | None) -> None:
    records = records_of(sample.path, branches, step_size="1 GB")
    (record,) = records.files
    with uproot.open(sample.location) as tree:
        names = branches or tree.keys()
        assert record.entries == tree.num_entries
        assert record.baskets == sum(tree[name].num_baskets for name in names)
        assert record.compressed_bytes == sum(tree[name].compressed_bytes for name in names)
    assert record.plain_bytes == plain_bytes_by_uproot(sample.path, names)
    assert {one.name for one in records.branches} == set(names)
    assert record.codec in ("zlib", "none")


@pytest.mark.parametrize("branches", [list("abcdef"), ["c"], ["a", "e"]])
@pytest.mark.parametrize("step", ["100 MB", 33_000, 66_000])
def test_a_large_file_is_read_once_and_only_where_it_is_wanted(
    large: Path, branches: list[str], step: int | str
) -> None:
    with in_page_cache(large):
        (record,) = records_of(large, branches, step_size=step).files
    with uproot.open(large) as file:
        wanted = sum(file["events"][name].compressed_bytes for name in branches)
    assert record.compressed_bytes == wanted
    assert record.bytes_read == record.bytes_asked + record.gap_bytes
    assert record.gap_bytes <= GAP_BYTES * record.baskets
    # Baskets within the last MiB come with the metadata.
    assert wanted - METADATA_BYTES <= record.bytes_asked <= wanted + METADATA_BYTES
    assert 2 < record.read_calls <= 2 + record.baskets


def test_neighbouring_baskets_of_a_large_file_come_in_one_call(large: Path) -> None:
    with in_page_cache(large):
        (record,) = records_of(large, None).files
    # Head and tail, and 12 MB in pieces of at most 8 MiB.
    assert record.read_calls <= 5


def test_a_read_that_is_partly_in_the_page_cache_takes_one_call_more(large: Path) -> None:
    with in_page_cache(large):
        (whole,) = records_of(large, None).files
    for _ in range(3):
        with in_page_cache_except(large, range(2 << 20, 3 << 20)):
            if is_in_page_cache(large):
                pytest.skip("the file system keeps all of the file in memory")
            (partly,) = records_of(large, None).files
        # The kernel may have read the pages ahead meanwhile, for whoever reads the file beside.
        if partly.read_calls != whole.read_calls:
            break
    assert partly.read_calls == whole.read_calls + 1
    assert partly.bytes_read == whole.bytes_read


@pytest.mark.parametrize("threads", [1, 3])
def test_parts_add_up(samples: list[Sample], threads: int) -> None:
    sources = [Source(str(one.path), one.tree) for one in samples]
    with ChunkStream(sources, None, step_size=20, threads=threads) as stream:
        entries = sum(len(chunk.arrays()) for chunk in stream)
        records = stream.records()
    files, branches, wait = records.files, records.branches, records.wait
    assert [Path(one.path).name for one in files] == [one.path.name for one in samples]
    assert [one.source_index for one in files] == [0, 1, 2]
    assert sum(one.entries for one in files) == entries == 116
    for count in ("baskets", "compressed_bytes", "plain_bytes"):
        assert sum(getattr(one, count) for one in files) == sum(getattr(one, count) for one in branches), count
    for seconds in ("decompress_s", "decode_s"):
        of_files = sum(getattr(one, seconds) for one in files)
        assert of_files == pytest.approx(sum(getattr(one, seconds) for one in branches), rel=1e-9)
    parts = [wait.fetch_s, wait.decompress_s, wait.decode_s]
    assert all(part >= 0 for part in parts)
    assert sum(parts) == pytest.approx(wait.whole_s, rel=1e-9)
    assert records.threads == threads
    assert all(one.read_calls == 1 and one.open_s > 0 for one in files)
    assert pickle.loads(pickle.dumps(records)) == records


def test_records_grow_while_a_stream_is_read(samples: list[Sample]) -> None:
    with ChunkStream([Source(str(one.path)) for one in samples], ["energy"], step_size=10) as stream:
        before = -1
        for _ in stream:
            now = sum(one.entries for one in stream.records().files)
            assert now > before
            before = now
    assert before == 116


def test_a_late_read_is_counted_with_its_baskets_and_its_time(sample: Sample) -> None:
    with ChunkStream([Source(str(sample.path))], ["number"], step_size=40) as stream:
        chunk = next(stream)
        before = stream.records()
        assert chunk.late_branches == []
        assert chunk.array("energy").tolist() == sample.values.energy[:40].tolist()
        chunk.array("energy")
        after = stream.records()
    assert chunk.late_branches == ["energy"]
    (before_file,), (after_file,) = before.files, after.files
    assert (before_file.late_reads, after_file.late_reads) == (0, 1)
    assert after.wait.whole_s > before.wait.whole_s
    parts = [after.wait.fetch_s, after.wait.decompress_s, after.wait.decode_s]
    assert sum(parts) == pytest.approx(after.wait.whole_s, rel=1e-9)
    assert {one.name: one.baskets for one in after.branches}["energy"] == 1


def test_a_stream_of_no_branches_reads_late_what_is_asked_for(sample: Sample) -> None:
    with ChunkStream([Source(str(sample.path))], [], step_size=60) as stream:
        numbers = []
        for chunk in stream:
            assert chunk.branches == []
            assert "hits" in chunk.all_branches
            assert chunk.tree_entries == 100
            numbers += chunk.array("number", "np").tolist()
            with pytest.raises(branchline.NoSuchKeyError, match="did you mean number"):
                chunk.array("numbers")
        assert numbers == sample.values.number.tolist()
        assert [one.late_reads for one in stream.records().files] == [2]
