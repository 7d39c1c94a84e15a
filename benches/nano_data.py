"""Files with all branches of a published NanoAOD file: its events, drawn at random, with new digits in their floats."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from benches.data import Progress

#: 947 branches, 200 simulated events with top quarks; CMS Open Data of 2015, in the collection of public ROOT files.
PUBLISHED = "nanoAOD_2015_CMS_Open_Data_ttbar.root"
TREE = "Events"
#: Events that are drawn and written together.
SLICE_EVENTS = 10_000


def published() -> Path:
    """The file whose events are drawn."""
    return Path(os.environ.get("BRANCHLINE_SHARED", "../shared")) / "data" / "root" / PUBLISHED


def make(cache: Path, files: int, events_per_file: int, progress: Progress) -> list[Path]:
    """The files, made unless they are there."""
    import branchline

    folder = cache / f"nano-{events_per_file}"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"nano-{number}.root" for number in range(files)]
    for number, path in enumerate(paths):
        if path.exists():
            continue
        events = branchline.open(published())[TREE].arrays()
        random = np.random.default_rng(number)
        with branchline.recreate(path) as file:
            for start in range(0, events_per_file, SLICE_EVENTS):
                progress(f"making {path.name}: {start} of {events_per_file} events")
                part = _drawn(events, min(SLICE_EVENTS, events_per_file - start), random)
                if start == 0:
                    file.mktree(TREE, part)
                else:
                    file[TREE].extend(part)
    return paths


def _drawn(events: Any, count: int, random: np.random.Generator) -> dict[str, Any]:
    """Columns of so many of the events. Lists that one branch counts are written as one collection, as NanoAOD has
    them.
    """
    import awkward as ak

    def changed(values: Any, **_: Any) -> Any:
        if not isinstance(values, ak.contents.NumpyArray) or values.dtype != np.float32:
            return None
        factors = random.normal(1, 0.01, len(values)).astype("f4")
        # As NanoAOD has them: ten bits of the mantissa.
        data = ((np.asarray(values.data) * factors).view("u4") & np.uint32(0xFFFFE000)).view("f4")
        return ak.contents.NumpyArray(data)

    drawn = random.integers(0, len(events), count)
    columns: dict[str, Any] = {}
    collections: dict[str, dict[str, Any]] = {}
    for name in events.fields:
        if name[0] == "n" and name[1].isupper():
            continue  # It counts lists, and is written with them.
        values = ak.transform(changed, ak.to_packed(events[name][drawn]))
        collection, _, part = name.partition("_")
        if values.ndim > 1 and part and f"n{collection}" in events.fields:
            collections.setdefault(collection, {})[part] = values
        else:
            columns[name] = values
    return columns | {name: ak.zip(parts, depth_limit=2) for name, parts in collections.items()}
