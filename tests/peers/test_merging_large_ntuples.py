"""Merging RNTuples with several codecs, and with more than 2^31 entries."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

import branchline
from branchline.writing.merging.merge import merge
from branchline.writing.merging.verify import verify

CODECS = {"zstd": uproot.ZSTD(5), "lz4": uproot.LZ4(4), "none": None, "zlib": uproot.ZLIB(1), "other": uproot.ZSTD(1)}
#: Number of entries per cluster. All values are zeros, so the file has 3 KB.
CLUSTER_ENTRIES = 1 << 26


def write(folder: Path, names: list[str]) -> list[str]:
    """Write files with one RNTuple each, compressed with these codecs."""
    paths = []
    for number, name in enumerate(names):
        paths.append(str(folder / f"{number}.root"))
        count = 1000 + number
        with uproot.recreate(paths[-1], compression=CODECS[name]) as file:
            file.mkrntuple("t", {"x": np.arange(count) + number, "lists": [[number] * (k % 3) for k in range(count)]})
    return paths


def settings(root: Any, path: str | Path) -> str:
    """Return the compression setting according to ROOT's inspector, which fails if pages have several settings."""
    inspector = root.Experimental.RNTupleInspector.Create("t", str(path))
    return str(inspector.GetCompressionSettingsAsString())


@pytest.mark.parametrize(
    "names", [["zstd", "lz4"], ["lz4", "zstd", "none"], ["none", "zlib"], ["zstd", "other"]], ids=str
)
@pytest.mark.parametrize("options", [{}, {"order": "branch"}, {"cluster_events": 300}, {"codec": "lzma:1"}], ids=str)
def test_pages_of_several_codecs_get_that_of_the_first_file(
    root: Any, tmp_path: Path, names: list[str], options: dict[str, Any]
) -> None:
    inputs = write(tmp_path, names)
    merge(inputs, tmp_path / "all.root", verify=True, **options)
    # For uncompressed pages, uproot writes the setting 100, which ROOT calls zlib of level 0. ROOT and Branchline write
    # 0.
    wanted = settings(root, inputs[0]).replace("zlib (level 0)", "Undefined compression algorithm (level 0)")
    assert settings(root, tmp_path / "all.root") == ("LZMA (level 1)" if "codec" in options else wanted)
    assert verify(tmp_path / "all.root", inputs).is_same
    values = [uproot.open(path)["t"].arrays().to_list() for path in (tmp_path / "all.root", *inputs)]
    assert values[0] == [entry for one in values[1:] for entry in one]


def test_fields_that_come_late_have_the_same_codec(root: Any, tmp_path: Path) -> None:
    inputs = write(tmp_path, ["lz4", "zstd"])
    with uproot.recreate(tmp_path / "more.root", compression=uproot.ZLIB(1)) as file:
        file.mkrntuple("t", {"x": np.arange(10), "lists": [[1]] * 10, "late": np.arange(10) / 2})
    for order in ([*inputs, str(tmp_path / "more.root")], [str(tmp_path / "more.root"), *inputs]):
        merge(order, tmp_path / "all.root", fill_missing_branches=True, verify=True, force=True)
        assert settings(root, tmp_path / "all.root") == settings(root, order[0])
        merged = branchline.open(tmp_path / "all.root")["t"]
        late = merged["late"].array().to_list()
        place = 0 if order[0].endswith("more.root") else 2001
        assert late[place : place + 10] == [number / 2 for number in range(10)]
        assert not any([*late[:place], *late[place + 10 :]])


@pytest.mark.parametrize("late_first", [False, True])
def test_fields_that_come_late_are_zero_in_more_entries_than_31_bits_count(
    root: Any, tmp_path: Path, late_first: bool
) -> None:
    count = (1 << 31) // CLUSTER_ENTRIES
    with uproot.recreate(tmp_path / "0.root", compression=uproot.ZSTD(1)) as file:
        file.mkrntuple("t", {"x": np.zeros(CLUSTER_ENTRIES, bool)})
    many = [str(tmp_path / f"{number}.root") for number in range(count)]
    for path in many[1:]:
        shutil.copy(many[0], path)
    late = str(tmp_path / "late.root")
    with uproot.recreate(late, compression=uproot.ZSTD(1)) as file:
        file.mkrntuple("t", {"x": np.array([True, False]), "y": np.array([1.5, 2.5]), "z": np.array([3, 4], "i1")})
    inputs = [late, *many] if late_first else [*many, late]
    made = merge(inputs, tmp_path / "all.root", fill_missing_branches=True, verify=True)
    assert made.entries == (1 << 31) + 2
    assert (tmp_path / "all.root").stat().st_size < 1_000_000
    merged = branchline.open(tmp_path / "all.root")["t"]
    start = 0 if late_first else 1 << 31
    for name, values in (("x", [True, False]), ("y", [1.5, 2.5]), ("z", [3, 4])):
        assert merged[name].array(entry_start=start, entry_stop=start + 2).to_list() == values
        middle = merged[name].array(entry_start=1 << 30, entry_stop=(1 << 30) + 1000)
        assert not middle.to_numpy().any()
    reader = root.RNTupleReader.Open("t", str(tmp_path / "all.root"))
    assert reader.GetNEntries() == (1 << 31) + 2
    # Merged again with another file, the output has the entries of both.
    again = merge([tmp_path / "all.root", late], tmp_path / "again.root")
    assert again.entries == (1 << 31) + 4


def test_late_fields_of_a_large_cluster_are_rewritten(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "0.root", compression=uproot.ZSTD(1)) as file:
        file.mkrntuple("t", {"x": np.zeros(1 << 22, bool)})
    with uproot.recreate(tmp_path / "1.root", compression=uproot.ZSTD(1)) as file:
        file.mkrntuple("t", {"x": np.array([True]), "y": np.array([1.5])})
    inputs = [tmp_path / "0.root", tmp_path / "1.root"]
    made = merge(inputs, tmp_path / "all.root", fill_missing_branches=True, cluster_events=1 << 20, verify=True)
    assert made.entries == (1 << 22) + 1
    values = branchline.open(tmp_path / "all.root")["t"]["y"].array().to_numpy()
    assert values[-1] == 1.5
    assert np.count_nonzero(values) == 1
