"""Generates files with all branches of a published NanoAOD file: randomly drawn events, with new digits in their
floats.

The published events have few leptons and jets; `with_tops` adds as many as in events with top quarks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np

from benches.data import Progress

#: 947 branches, 200 simulated events with top quarks; CMS Open Data of 2015, in the collection of public ROOT files.
PUBLISHED = "nanoAOD_2015_CMS_Open_Data_ttbar.root"
TREE = "Events"
#: Events drawn and written at a time.
SLICE_EVENTS = 10_000
#: Changes the columns of a slice in place.
Change = Callable[[dict[str, Any], np.random.Generator], None]


def published() -> Path:
    """Return the file from which events are drawn."""
    return Path(os.environ.get("BRANCHLINE_SHARED", "../shared")) / "data" / "root" / PUBLISHED


def make(cache: Path, files: int, events_per_file: int, progress: Progress, change: Change | None = None) -> list[Path]:
    """Create the files unless they exist, and return them. ``change`` modifies their columns."""
    import branchline

    kind = "nano" if change is None else change.__name__.replace("_", "-")
    folder = cache / f"{kind}-{events_per_file}"
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
                if change is not None:
                    change(part, random)
                if start == 0:
                    file.mktree(TREE, part)
                else:
                    file[TREE].extend(part)
    return paths


def floats(values: Any) -> Any:
    """Return values with the precision of NanoAOD: ten bits of the mantissa."""
    return (np.asarray(values, "f4").view("u4") & np.uint32(0xFFFFE000)).view("f4")


def with_tops(columns: dict[str, Any], random: np.random.Generator) -> None:
    """Replace jets, muons and electrons, so that about one event of 20 has a lepton, four jets and a b tag."""
    for name, mean_count, mean_gev in (("Jet", 5.5, 40), ("Muon", 0.7, 25), ("Electron", 0.7, 25)):
        counts = random.poisson(mean_count, len(columns["event"]))
        total = int(counts.sum())

        def one_of(values: Any, chances: Any, count: int = total) -> Any:
            return random.choice(np.array(values), count, p=chances)

        pt = floats(random.exponential(mean_gev, total) + (15 if name == "Jet" else 5))
        made = {
            "pt": ak.flatten(ak.sort(ak.unflatten(pt, counts), ascending=False)),
            "eta": floats(random.normal(0, 1.6, total)),
            "phi": floats(random.uniform(-np.pi, np.pi, total)),
        }
        if name == "Jet":
            made["mass"] = floats(pt * random.uniform(0.05, 0.2, total))
            made["btagCSVV2"] = floats(random.uniform(0, 0.5, total) + one_of([0, 0.5], [0.8, 0.2]))
            made["jetId"] = one_of([0, 2, 6], [0.01, 0.04, 0.95])
        else:
            made["sip3d"] = floats(random.exponential(1.5, total))
        if name == "Muon":
            made["tightId"] = one_of([False, True], [0.2, 0.8])
            made["pfRelIso04_all"] = floats(random.exponential(0.15, total))
        if name == "Electron":
            made["cutBased"] = one_of([0, 1, 2, 3, 4], [0.1, 0.1, 0.1, 0.1, 0.6])
        published = ak.flatten(columns[name])
        particles = published[random.integers(0, len(published), total)]
        for part, values in made.items():
            particles[part] = values_as(values, published[part])
        columns[name] = ak.unflatten(particles, counts)


def values_as(values: Any, published: Any) -> Any:
    """Return values with the type of a published branch."""
    return ak.values_astype(values, ak.type(published).content.primitive)


def _drawn(events: Any, count: int, random: np.random.Generator) -> dict[str, Any]:
    """Draw columns of ``count`` events. Lists with the same counter become one collection, as in NanoAOD."""

    def changed(values: Any, **_: Any) -> Any:
        if not isinstance(values, ak.contents.NumpyArray) or values.dtype != np.float32:
            return None
        factors = random.normal(1, 0.01, len(values)).astype("f4")
        return ak.contents.NumpyArray(floats(np.asarray(values.data) * factors))

    drawn = random.integers(0, len(events), count)
    columns: dict[str, Any] = {}
    collections: dict[str, dict[str, Any]] = {}
    for name in events.fields:
        if name[0] == "n" and name[1].isupper():
            continue  # A counter is written with its lists.
        values = ak.transform(changed, ak.to_packed(events[name][drawn]))
        collection, _, part = name.partition("_")
        if values.ndim > 1 and part and f"n{collection}" in events.fields:
            collections.setdefault(collection, {})[part] = values
        else:
            columns[name] = values
    return columns | {name: ak.zip(parts, depth_limit=2) for name, parts in collections.items()}
