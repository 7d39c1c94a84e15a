"""Studies that compare a real server with itself, to measure the false positive rate."""

from __future__ import annotations

import math
import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benches.lab import FALSE_MOST
from benches.storage_places import NAME, Place, places
from benches.storages import make_file
from benches.tables import table
from branchline.lab.sampling.sampler import HereAtOnce
from branchline.lab.statistics import Ratio
from branchline.lab.studies.study_run import StudyRun
from branchline.lab.study import JobSettings, Study

#: A real server, read with its own protocol.
STORAGE = "XRootD"
#: Small enough for many studies, and large enough that a job is not dominated by its start.
_MEGABYTES = 8


def lab_storages_page(
    cache: Path, repeats: int, seed: int, pairs: int, say: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Return the page and a row for the storage; no row if this machine cannot run it."""
    file = make_file(cache, _MEGABYTES, say)
    with places(file, [STORAGE], say) as (made, missing):
        # Other places are the same server over HTTP.
        rows = [_row(place, repeats, seed, pairs, say) for place in made if place.name == STORAGE]
    return page(rows, missing, file.stat().st_size, seed), rows


def page(rows: list[dict[str, Any]], missing: list[str], file_bytes: int, seed: int) -> str:
    """Return the results in Markdown."""
    head = [
        "storage",
        "pairs",
        "studies",
        "false positives",
        "false positives %",
        "its 95 % interval",
        "half width of the ratios' intervals, median",
        "largest difference",
    ]
    lines = [
        "# Studies that compare a storage with itself",
        "",
        f"Both arms read the same file of {file_bytes / 1e6:.0f} MB with Branchline from a warm server on this "
        f"machine. The seeds of the sample orders start at {seed}. A false positive is an interval that excludes 1; "
        f"the goal is at most {FALSE_MOST:.0%}. The rate has a Clopper-Pearson interval. Load from other programs on "
        "this machine widens the intervals of the ratios, so that such studies detect only larger differences.",
        "",
        table(head, [_cells(one) for one in rows]),
        *(["", "## Not measured", "", *(f"- {reason}" for reason in missing)] if missing else []),
    ]
    return "\n".join(lines) + "\n"


def study_of_storage(place: Place, pairs: int) -> Study:
    """Return a study with a baseline and its control only, which ends after this many pairs."""
    return Study(
        question=f"Does {place.name} differ from itself?",
        job=JobSettings(
            where=(place.url.removesuffix(NAME),), files=(NAME,), tree="events", environment=dict(place.environment)
        ),
        precision=0.001,
        budget_s=86400.0,
        rounds_max=pairs,
        limits=False,
    )


def _row(place: Place, repeats: int, seed: int, pairs: int, say: Callable[[str], None]) -> dict[str, Any]:
    study, taker = study_of_storage(place, pairs), HereAtOnce(Path(tempfile.gettempdir()))
    found: list[Ratio] = []
    for number in range(repeats):
        if number % 20 == 0:
            say(f"lab-storages: {place.name}, study {number + 1} of {repeats}")
        folder = Path(tempfile.mkdtemp(prefix="branchline-lab-"))
        try:
            result = StudyRun(study, folder, seed + number, taker, lambda _: None).run()
        finally:
            shutil.rmtree(folder)
        found += [one.time for one in result.controls if one.time is not None]
    return {
        "storage": place.name,
        "server": place.server,
        "studies": len(found),
        "pairs": pairs,
        "alarms": sum(one.differs for one in found),
        "interval": exact_interval(sum(one.differs for one in found), len(found)),
        "ratios": [[one.value, one.low, one.high] for one in found],
    }


def exact_interval(hits: int, of: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of Clopper and Pearson for a fraction with ``hits`` of ``of`` hits."""

    def at_most(part: float, count: int) -> float:
        return sum(math.comb(of, one) * part**one * (1 - part) ** (of - one) for one in range(count + 1))

    def where(is_above: Callable[[float], bool]) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if is_above(middle) else (middle, high)
        return (low + high) / 2

    low = 0.0 if hits == 0 else where(lambda part: 1 - at_most(part, hits - 1) > 0.025)
    high = 1.0 if hits == of else where(lambda part: at_most(part, hits) < 0.025)
    return low, high


def _cells(row: dict[str, Any]) -> list[str]:
    low, high = row["interval"]
    widths = [math.sqrt(up / down) - 1 for _, down, up in row["ratios"] if down and up]
    largest = max((abs(math.log(value)) for value, _, _ in row["ratios"]), default=0.0)
    return [
        row["storage"],
        str(row["pairs"]),
        str(row["studies"]),
        str(row["alarms"]),
        f"{100 * row['alarms'] / row['studies']:.1f}" if row["studies"] else "",
        f"{100 * low:.1f} to {100 * high:.1f}",
        f"{statistics.median(widths):.1%}" if widths else "",
        f"{math.expm1(largest):.1%}",
    ]
