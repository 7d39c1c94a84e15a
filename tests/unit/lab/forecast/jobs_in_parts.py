"""Jobs over a file that is cut into parts, and what is planned for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import uproot

import branchline
from branchline.lab.forecast.conditions import Conditions
from branchline.lab.forecast.forecasting import changed_work
from branchline.lab.forecast.model import JobWork
from branchline.lab.forecast.subject import subject_of


def write_large(path: Path, clusters: int) -> Path:
    """A file with 400 kB in each of some clusters; 28 MB in 70 of them."""
    random = np.random.default_rng(5)
    with uproot.recreate(path, compression=None) as file:
        file.mktree("events", {"x": "f8", "y": "f8"})
        for _ in range(clusters):
            file["events"].extend({name: random.normal(size=25_000) for name in "xy"})
    return path


def total(events: Any) -> float:
    """The wagon: it reads both branches."""
    return float(np.sum(events["x"]) + np.sum(events["y"]))


def record_of(
    files: Sequence[str], out: Path, workers: int, mode: str, branches: Sequence[str] | None
) -> dict[str, Any]:
    """The record of a job over these files."""
    names = [f"{one}:events" for one in files]
    done = branchline.run(total, names, out, workers=workers, access=mode, branches=branches, reuse=False)
    return dict(done.job)


def work_of(out: Path, workers: int | None = None) -> JobWork:
    """What is planned for a job that was done, or the same with another number of workers."""
    subject = subject_of([str(out)])
    subject = subject if workers is None else replace(subject, workers=workers)
    work, _ = changed_work(subject, Conditions())
    return work


def planned_ranges(work: JobWork) -> list[tuple[int, int]]:
    """Offsets and bytes of all requests."""
    return [
        (int(offset), int(size)) for plan in work.plans for offset, size in zip(plan.offset, plan.size, strict=True)
    ]
