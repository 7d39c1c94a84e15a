"""Damaged files are recognised: the error names file, tree, branch and basket, and what to do.

Each file is a real one that was really damaged, for every codec that ROOT has written.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import uproot
from tests.unit.reading.trees.conftest import CODECS, Sample, write_sample

import branchline
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream

CLUSTERS = (3000, 3000, 3000)
# In front of the data of each codec: its name, method and two sizes.
RECORD_HEAD_BYTES = 9


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sample]:
    """A file for each codec."""
    folder = tmp_path_factory.mktemp("whole")
    return {name: write_sample(folder / f"{name}.root", codec, CLUSTERS) for name, codec in CODECS.items()}


def flipped(path: Path, branch: str, basket: int, into: Path) -> Path:
    """A copy in which one bit of the stored data of a basket is flipped."""
    with uproot.open(path) as file:
        key = file["events"][branch].basket_key(basket)
        assert key.fNbytes < key.fObjlen, "the basket is not compressed"
        start, stop = key.fSeekKey + key.fKeylen, key.fSeekKey + key.fNbytes
    content = bytearray(path.read_bytes())
    # ROOT and uproot write zstd frames without a checksum: only damage to their heads is always recognised.
    position = start + RECORD_HEAD_BYTES if content[start : start + 2] == b"ZS" else (start + stop) // 2
    content[position] ^= 0x10
    into.write_bytes(content)
    return into


@pytest.mark.parametrize("fault", ["missing", "empty", "not ROOT", "a pipe"])
def test_what_is_no_file_of_root_is_told(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "f.root"
    if fault == "empty":
        path.touch()
    elif fault == "not ROOT":
        path.write_text("<html>404 not found</html>")
    elif fault == "a pipe":
        os.mkfifo(path)
    error = {
        "missing": branchline.MissingFileError,
        "empty": branchline.BadFileError,
        "not ROOT": branchline.BadFileError,
    }
    for ask in (lambda: branchline.open(path), lambda: list(branchline.iterate(f"{path}:events"))):
        with pytest.raises(error.get(fault, branchline.StorageError)) as caught:
            ask()
        assert str(path) in str(caught.value)
        assert str(caught.value).count(str(path)) == 1
        assert caught.value.path == str(path)
    if fault == "missing":
        assert isinstance(caught.value, FileNotFoundError)
    if fault == "a pipe":
        assert fault in str(caught.value)
        assert isinstance(caught.value, OSError)


def test_a_directory_is_no_file_and_without_files_no_dataset(tmp_path: Path) -> None:
    path = tmp_path / "f.root"
    path.mkdir()
    with pytest.raises(branchline.StorageError, match="is a directory, not a file") as opened:
        branchline.open(path)
    with pytest.raises(branchline.DatasetError, match="contains neither") as iterated:
        list(branchline.iterate(f"{path}:events"))
    assert isinstance(opened.value, OSError)
    assert opened.value.path == iterated.value.path == str(path)


def test_a_file_that_may_not_be_read_is_told(whole: dict[str, Sample], tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read every file")
    path = Path(shutil.copy(whole["zlib"].path, tmp_path / "f.root"))
    path.chmod(0)
    with pytest.raises(branchline.StorageError, match=r"f\.root"):
        branchline.open(path)


def test_a_file_cut_short_anywhere_is_told(whole: dict[str, Sample], tmp_path: Path) -> None:
    content = whole["zlib"].path.read_bytes()
    path = tmp_path / "cut.root"
    sizes = [1, 3, 4, 40, 63, 64, 100, 300, 1000, *range(5000, len(content), 4999), len(content) - 1]
    for size in sizes:
        path.write_bytes(content[:size])
        with pytest.raises(branchline.BadFileError) as caught:
            branchline.open(path)["events"].arrays()
        assert str(path) in str(caught.value), size
    path.write_bytes(content)
    assert branchline.open(path)["events"].entries_count == sum(CLUSTERS)


def test_a_large_file_cut_short_anywhere_is_told(tmp_path: Path) -> None:
    import numpy as np

    path = tmp_path / "large.root"
    with uproot.recreate(path, compression=None) as file:
        tree = file.mktree("events", {"x": "float64"})
        for _ in range(12):
            tree.extend({"x": np.zeros(100_000)})
    for size in (9_000_000, 8_500_000, 5_000_000, 100_000):
        os.truncate(path, size)
        with pytest.raises(branchline.BadFileError, match=r"large\.root"):
            branchline.open(path)["events"].arrays()


@pytest.mark.parametrize("codec", ["zlib", "lz4", "lzma", "zstd"])
@pytest.mark.parametrize("workers", [1, 4])
def test_a_flipped_bit_is_told_with_its_basket(
    whole: dict[str, Sample], tmp_path: Path, codec: str, workers: int
) -> None:
    path = flipped(whole[codec].path, "label", 1, tmp_path / f"{codec}.root")
    with pytest.raises(branchline.BadFileError) as caught:
        list(branchline.iterate(f"{path}:events", workers=workers, step_size="1 GB"))
    message = str(caught.value)
    for part in (str(path), "tree events", "branch label", "basket 1"):
        assert part in message
    assert "copy the file again" in message
    # The others still read, and so do the other baskets of the branch.
    tree = branchline.open(path)["events"]
    values = whole[codec].values
    assert tree["energy"].array().tolist() == values.energy.tolist()
    assert tree["label"].array(entry_stop=3000).tolist() == values.label[:3000].tolist()
    assert tree["label"].array(entry_start=6000).tolist() == values.label[6000:].tolist()
    with pytest.raises(branchline.BadFileError, match="basket 1"):
        tree["label"].array(entry_start=5999)


def test_without_a_codec_the_bytes_are_taken_as_they_are(whole: dict[str, Sample], tmp_path: Path) -> None:
    path = tmp_path / "none.root"
    with uproot.open(whole["none"].location) as tree:
        key = tree["energy"].basket_key(0)
    content = bytearray(whole["none"].path.read_bytes())
    content[key.fSeekKey + key.fKeylen + 7] ^= 1
    path.write_bytes(content)
    read = branchline.open(path)["events"]["energy"].array()
    wanted = whole["none"].values.energy
    assert read[0] != wanted[0]
    assert read[1:].tolist() == wanted[1:].tolist()


def test_of_several_damaged_baskets_the_first_is_told_whoever_meets_it(
    whole: dict[str, Sample], tmp_path: Path
) -> None:
    path = flipped(whole["zlib"].path, "label", 2, tmp_path / "one.root")
    path = flipped(path, "hits", 1, tmp_path / "two.root")
    path = flipped(path, "label", 0, tmp_path / "three.root")
    messages = set()
    for _ in range(20):
        with pytest.raises(branchline.BadFileError) as caught:
            branchline.open(path)["events"].arrays(workers=4)
        messages.add(str(caught.value))
    (message,) = messages
    assert "branch hits: basket 1" in message


def test_chunks_before_a_damaged_basket_come_first(whole: dict[str, Sample], tmp_path: Path) -> None:
    path = flipped(whole["zstd"].path, "hits", 2, tmp_path / "f.root")
    with ChunkStream([Source(str(path))], None, step_size=3000, threads=3) as stream:
        assert [len(next(stream)) for _ in range(2)] == [3000, 3000]
        with pytest.raises(branchline.BadFileError, match="branch hits: basket 2"):
            next(stream)
        assert next(stream, None) is None


@pytest.mark.parametrize("threads", [1, 3])
def test_skipping_counts_the_entries_that_are_lost(whole: dict[str, Sample], tmp_path: Path, threads: int) -> None:
    good = whole["zlib"].path
    damaged = flipped(good, "hits", 1, tmp_path / "damaged.root")
    cut = tmp_path / "cut.root"
    cut.write_bytes(good.read_bytes()[:20_000])
    missing = tmp_path / "missing.root"
    sources = [Source(str(path)) for path in (good, damaged, cut, missing, good)]
    entries = [0] * len(sources)
    with ChunkStream(sources, None, step_size=1500, threads=threads, skip_bad_files=True) as stream:
        for chunk in stream:
            entries[chunk.source_index] += len(chunk)
    assert entries == [9000, 3000, 0, 0, 9000]
    found = [(Path(one.path).name, one.entries_lost) for one in stream.skipped]
    assert found == [("damaged.root", 6000), ("cut.root", None), ("missing.root", None)]
    assert "branch hits: basket 1" in stream.skipped[0].error
    by_record = {one.path: one.entries for one in stream.records().files}
    assert by_record[str(damaged)] == 3000


def test_skipping_a_part_of_a_file_counts_what_of_the_part_is_lost(whole: dict[str, Sample], tmp_path: Path) -> None:
    damaged = flipped(whole["zlib"].path, "hits", 1, tmp_path / "damaged.root")
    sources = [Source(str(damaged), "events", 1000, 4000), Source(str(damaged), "events", 7000)]
    with ChunkStream(sources, ["hits"], step_size=1000, skip_bad_files=True) as stream:
        assert [(chunk.entry_start, chunk.entry_stop) for chunk in stream] == [
            (1000, 2000),
            (2000, 3000),
            (7000, 8000),
            (8000, 9000),
        ]
    assert [one.entries_lost for one in stream.skipped] == [1000]


def test_a_late_read_of_a_damaged_basket_is_told(whole: dict[str, Sample], tmp_path: Path) -> None:
    damaged = flipped(whole["lzma"].path, "label", 0, tmp_path / "damaged.root")
    with ChunkStream([Source(str(damaged))], ["number"]) as stream:
        chunk = next(stream)
        with pytest.raises(branchline.BadFileError, match="branch label: basket 0"):
            chunk.array("label")
        assert chunk.array("energy").tolist() == whole["lzma"].values.energy.tolist()


def test_a_file_that_shrinks_while_it_is_read_is_told(tmp_path: Path) -> None:
    import numpy as np

    path = tmp_path / "shrinking.root"
    with uproot.recreate(path, compression=None) as file:
        tree = file.mktree("events", {"x": "float64"})
        for _ in range(12):
            tree.extend({"x": np.zeros(100_000)})
    tree = branchline.open(path)["events"]
    os.truncate(path, 3_000_000)
    assert tree["x"].array(entry_stop=100_000).tolist() == [0.0] * 100_000
    with pytest.raises(branchline.BadFileError, match=r"shrinking\.root"):
        tree["x"].array()
