"""Real files, written by uproot once for all tests, with the values that were put into them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

CODECS: dict[str, Any] = {
    "none": None,
    "zlib": uproot.ZLIB(1),
    "lz4": uproot.LZ4(1),
    "lzma": uproot.LZMA(1),
    "zstd": uproot.ZSTD(1),
}
KINDS = {
    "number": "int32",
    "energy": "float64",
    "is_good": "bool",
    "matrix": "2 * 3 * float32",
    "hits": "var * float32",
    "label": "string",
}


@dataclass(frozen=True)
class Sample:
    """A file with a tree, and its values; `cluster_entries` are the entries of each basket."""

    path: Path
    tree: str
    values: ak.Array
    cluster_entries: tuple[int, ...]

    @property
    def location(self) -> str:
        return f"{self.path}:{self.tree}"


def columns(entries: int, seed: int) -> dict[str, Any]:
    """A column of each kind that uproot writes."""
    random = np.random.default_rng(seed)
    counts = random.integers(0, 5, entries)
    labels = ["xyz"[: index % 4] + str(index) * (index % 5) for index in range(entries)]
    return {
        "number": np.arange(entries, dtype="i4") + 1000 * seed,
        "energy": random.normal(size=entries),
        "is_good": random.random(entries) > 0.5,
        "matrix": random.normal(size=(entries, 2, 3)).astype("f4"),
        "hits": ak.unflatten(random.normal(size=counts.sum()).astype("f4"), counts),
        "label": ak.Array([*labels, ""])[:-1],  # without a string awkward would not know their type
    }


def write_sample(
    path: Path, compression: Any, clusters: tuple[int, ...], seed: int = 1, tree: str = "events"
) -> Sample:
    """A file whose tree has clusters of so many entries."""
    parts = [columns(entries, seed + index) for index, entries in enumerate(clusters)]
    with uproot.recreate(path, compression=compression) as file:
        written = file.mktree(tree, KINDS, counter_name=lambda name: f"n_{name}")
        for part in parts:
            written.extend(part)
    values = ak.concatenate([ak.zip(part, depth_limit=1) for part in parts])
    values["n_hits"] = np.asarray([len(hits) for hits in values.hits], "i4")
    return Sample(path, tree, values, clusters)


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """A small file of three clusters."""
    return write_sample(tmp_path_factory.mktemp("sample") / "sample.root", uproot.ZLIB(1), (40, 25, 35))


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[Sample]:
    """Three files with other values and clusters each, the second with an empty tree."""
    folder = tmp_path_factory.mktemp("samples")
    clusters = [(30, 20), (0,), (25, 1, 40)]
    return [
        write_sample(folder / f"part{index}.root", uproot.ZLIB(1), sizes, seed=10 * (index + 1))
        for index, sizes in enumerate(clusters)
    ]


@pytest.fixture
def copy(sample: Sample, tmp_path: Path) -> Path:
    """A copy of the small file to do harm to."""
    return Path(shutil.copy(sample.path, tmp_path / "copy.root"))
