"""Creates the files for the benchmark of forecasts: two kinds of data in four layouts and four codecs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

TREE = "events"
CODECS = ("zlib", "zstd", "lz4", "lzma")
KINDS = ("numbers", "lists")
LAYOUTS = ("small files", "merged", "large baskets", "RNTuple")
#: Number of small files in a data set, and entries of each.
FILES, ENTRIES = 8, 6000
#: Entries per basket of a small file, and uncompressed size of a large basket.
BASKET_ENTRIES, LARGE_BASKET = 1000, "1 MB"
BRANCHES = 20
#: Branches of the reads that are labelled as "few branches".
FEW = ("b1", "b7", "b13")


def files_of(cache: Path, kind: str, layout: str, codec: str, progress: Callable[[str], None]) -> list[Path]:
    """Create the files of a data set, unless they exist. uproot writes the small files; Branchline creates the others
    from them.
    """
    folder = cache / "forecasts" / f"{kind}-{codec}-{layout.replace(' ', '-')}"
    count = FILES if layout == "small files" else 1
    paths = [folder / f"{number}.root" for number in range(count)]
    if not all(path.exists() for path in paths):
        progress(f"writing {kind} in {codec}: {layout}")
        folder.mkdir(parents=True, exist_ok=True)
        if layout == "small files":
            for number, path in enumerate(paths):
                _write(path, kind, codec, number, 1)
        elif layout == "RNTuple":
            _write(paths[0], kind, codec, 0, FILES, ntuple=True)
        else:
            _merge(files_of(cache, kind, "small files", codec, progress), paths[0], codec, layout)
    return paths


def _write(path: Path, kind: str, codec: str, seed: int, files: int, *, ntuple: bool = False) -> None:
    import numpy as np
    import uproot

    levels = {"zlib": uproot.ZLIB(1), "zstd": uproot.ZSTD(5), "lz4": uproot.LZ4(4), "lzma": uproot.LZMA(4)}
    random = np.random.default_rng(seed)
    temporary = path.with_suffix(".tmp")
    entries = BASKET_ENTRIES if not ntuple else ENTRIES
    steps = ENTRIES // BASKET_ENTRIES if not ntuple else files
    with uproot.recreate(temporary, compression=levels[codec]) as file:
        for step in range(steps):
            values = _values(random, kind, entries)
            if step == 0:
                (file.mkrntuple if ntuple else file.mktree)(TREE, values)
            else:
                file[TREE].extend(values)
    os.replace(temporary, path)


def _values(random: object, kind: str, entries: int) -> dict[str, object]:
    import awkward as ak
    import numpy as np

    assert isinstance(random, np.random.Generator)
    counts = random.poisson(4, entries)

    def one() -> object:
        # Values with few digits, like detector data, so that they compress.
        if kind == "lists":
            return ak.unflatten(random.normal(size=counts.sum()).astype("f2").astype("f4"), counts)
        return random.normal(size=(entries, 4)).astype("f2").astype("f4")

    return {f"b{number}": one() for number in range(BRANCHES)}


def _merge(inputs: list[Path], output: Path, codec: str, layout: str) -> None:
    from branchline.writing.merging.merge import merge

    # A new basket size requires recompression, in the same codec.
    basket_size = LARGE_BASKET if layout == "large baskets" else None
    merge([str(path) for path in inputs], output, basket_size=basket_size, sync=False, force=True)
    del codec
