"""`python -m benches esd`: the reads of ESD-like files and their Monte Carlo truth by ROOT, with and without
TTreeCache, and by each access mode of Branchline.

Writes tables like those in the study of ALICE's analysis, and pictures. ROOT is traced with strace, Branchline records
its own reads; tests compare both with the counts of strace.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benches.conditions import root_version
from benches.data import esd_maker, shared_folder, split_object_files
from benches.tables import table
from benches.worker import REPOSITORY
from branchline.reading.access import MODES
from branchline.tracing.strace import follow
from branchline.tracing.trace import Trace, read_trace
from branchline.tracing.trace_summary import Parts, Requests, first_parts, summarise

CACHE_BYTES = 30_000_000
NAMES = ("AliESDs.root", "galice.root", "Kinematics.root", "TrackRefs.root")
COLOURS = ("#3f90da", "#ffa90e", "#bd1f01", "#832db6")
#: Calls and bytes that the study counted in its file of real collisions, from the first event on.
STUDY_CALLS, STUDY_BYTES = 483, 1_377_525
#: `--access stage` does not copy files that are on a local disk, unless their storage is throttled.
AS_IF_FAR = "bandwidth=10GB/s"


@dataclass(frozen=True)
class Way:
    """A way of reading: its name, the name of its picture, and the request to the reader."""

    name: str
    slug: str
    asked: dict[str, Any]


def ways() -> list[Way]:
    """Return all ways of reading, ROOT's first."""
    ours = [
        Way(f"Branchline, {mode}", mode, {"reader": "branchline", "how": {"mode": mode} | _far(mode)}) for mode in MODES
    ]
    return [
        Way("ROOT, no cache", "root", {"reader": "root", "cache_bytes": 0}),
        Way("ROOT, TTreeCache", "treecache", {"reader": "root", "cache_bytes": CACHE_BYTES}),
        *ours,
    ]


def _far(mode: str) -> dict[str, str]:
    return {"throttle": AS_IF_FAR} if mode == "stage" else {}


def traced(way: Way, files: list[Path], *, truth: bool, folder: Path) -> Trace:
    """Return the trace of a pass in a separate process."""
    asked = {**way.asked, "files": [str(path) for path in files], "truth": truth}
    command = [sys.executable, "-m", "benches.esd_readers"]
    if asked["reader"] == "root":
        found = follow([*command, json.dumps(asked)])
        if found.job.exit_code:
            raise RuntimeError(f"{way.name} failed")
        return found
    path = folder / f"{way.slug}.parquet"
    ended = subprocess.run(
        [*command, json.dumps(asked | {"trace": str(path)})],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(f"{way.name} failed: {ended.stderr[-2000:]}")
    return read_trace(path)


def make_set(cache: Path, progress: Callable[[str], None]) -> Path:
    """Create a folder with the four files of a hundred events, unless it exists."""
    maker = esd_maker()
    folder = cache / "esd-set"
    if not all((folder / "000" / name).exists() for name in NAMES):
        progress("creating a set of ESD-like files with their truth")
        command = [sys.executable, str(maker), "--out", str(folder), "--cache", str(cache / "split-loops")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / "000"


def by_name(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the rows of the four files by file name."""
    return {row["file"].rpartition("/")[2]: row for row in found["files"]}


def number(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ")


def files_table(found: dict[str, dict[str, Any]]) -> str:
    """Return a table like table 3 of the study: read calls and bytes of each file."""
    head = ["", *(cell for name in NAMES for cell in (f"{name} calls", "bytes"))]
    rows = []
    for name, one in found.items():
        files = by_name(one)
        nothing = {"read_calls": 0, "read_bytes": 0}
        own = [files.get(file, nothing) for file in NAMES]
        rows.append([name, *(number(row[key]) for row in own for key in ("read_calls", "read_bytes"))])
    return table(head, rows)


def chain_table(found: dict[str, dict[str, Any]], files: int, events: int) -> str:
    """Return a table like table 2 of the study: read calls and bytes of a chain of files, per file and per event."""
    head = ["", "read calls", "bytes", "calls per file", "bytes per file", "calls per event", "seeks", "unused bytes"]
    rows = []
    for name, one in found.items():
        totals = one["totals"]
        calls, read = totals["read_calls"], totals["read_bytes"]
        cells = [number(calls), number(read), f"{calls / files:.1f}", number(read / files), f"{calls / events:.2f}"]
        rows.append([name, *cells, number(totals["seeks"]), number(totals["unwanted_bytes"])])
    return table(head, rows)


def baskets_read(trace: Trace) -> Counter[tuple[str, int]]:
    """Count the requests that begin with each basket."""
    requests = Requests.of(trace)
    parts = Parts.of(trace, requests.files)
    first = first_parts(requests, parts)
    rows = first[first >= 0]
    rows = rows[parts.is_any("basket")[rows]]
    return Counter((parts.branches[parts.branch[row]], int(parts.basket[row])) for row in rows.tolist())


def difference(root: Trace, plain: Trace) -> list[str]:
    """Describe, for each branch, the baskets that one of two traces reads more often."""
    theirs, ours = baskets_read(root), baskets_read(plain)
    names = sorted({*theirs, *ours})
    more = [(key, ours[key] - theirs[key]) for key in names if ours[key] != theirs[key]]
    same = len(names) - len(more)
    said = [f"both read {same} baskets equally often"]
    for (branch, basket), times in more:
        word = "more" if times > 0 else "less"
        said.append(
            f"basket {basket} of `{branch}` {abs(times)} time{'s' if abs(times) > 1 else ''} {word} by Branchline"
        )
    return said


def draw(way: Way, trace: Trace, path: Path) -> None:
    """Draw the position of each read call, and the number of calls per event."""
    from matplotlib.figure import Figure

    requests = Requests.of(trace)
    parts = Parts.of(trace, requests.files)
    events = {one["file"].rpartition("/")[2]: one for one in summarise(trace).as_json()["events"]}
    at = {one: place for place, one in enumerate(requests.number.tolist())}
    call = np.array([at.get(one, -1) for one in parts.request.tolist()])
    figure = Figure(figsize=(10, 5.6), layout="constrained")
    axes = figure.subplots(len(NAMES), 2, gridspec_kw={"width_ratios": (3, 2)})
    for (where, each), name, colour in zip(axes, NAMES, COLOURS, strict=True):
        numbers = [number for number, file in enumerate(requests.files) if file.endswith("/" + name)]
        mine = np.isin(parts.file, numbers) & (call >= 0) & (parts.offset >= 0)
        begin, end = parts.offset[mine] / 1e6, (parts.offset + parts.size)[mine] / 1e6
        where.vlines(call[mine], begin, np.maximum(end, begin + 0.06), colors=colour, linewidth=1.4, rasterized=True)
        where.set(ylabel=f"{name}\n[MB]", xlim=(0, max(len(requests), 2)))
        counts = events.get(name, {}).get("read_calls", [])
        each.bar(range(len(counts)), counts, width=1.0, color=colour)
        each.set(xlim=(-0.5, 99.5), ylim=(0, 1.1 * max([1, *counts])), ylabel="calls")
        for one in (where, each):
            one.tick_params(labelsize=8)
            one.spines[["top", "right"]].set_visible(False)
            if name != NAMES[-1]:
                one.tick_params(labelbottom=False)
            one.yaxis.label.set_size(8)
    axes[0][0].set_title("position of each read call", fontsize=9, loc="left")
    axes[0][1].set_title("read calls that start with a basket of the event", fontsize=9, loc="left")
    axes[-1][0].set_xlabel("read call", fontsize=9)
    axes[-1][1].set_xlabel("event", fontsize=9)
    figure.suptitle(f"{way.name}: {number(len(requests))} read calls, {number(requests.got.sum())} bytes", fontsize=11)
    figure.savefig(path, dpi=90, metadata={"Software": None})


def esd_page(cache: Path, folder: Path, chain: int, progress: Callable[[str], None]) -> str:
    """Measure, write the pictures to the folder, and return the page."""
    cache.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    one_set = make_set(cache, progress)
    files = split_object_files(cache, chain, progress)
    whole, chained = {}, {}
    for way in ways():
        progress(f"{way.name}: a set with its truth, and {chain} files")
        trace = traced(way, [one_set / NAMES[0]], truth=True, folder=cache)
        draw(way, trace, folder / f"reads-of-esd-{way.slug}.png")
        whole[way.name] = summarise(trace).as_json()
        chained[way.name] = summarise(traced(way, files, truth=False, folder=cache)).as_json()
    lines = ["# Reads of ESD-like files", "", *INTRODUCTION, ""]
    lines += [f"Written by `python -m benches esd`, with ROOT {root_version()}.", ""]
    lines += ["## A hundred events with their truth", "", files_table(whole), "", *READING, ""]
    lines += [f"## A chain of {chain} files without the truth", "", chain_table(chained, chain, 100 * chain), ""]
    lines += real_file(cache, progress)
    lines += ["## Pictures", "", *PICTURES]
    lines += [f"\n![{way.name}](reads-of-esd-{way.slug}.png)" for way in ways()]
    return "\n".join(lines) + "\n"


def real_file(cache: Path, progress: Callable[[str], None]) -> list[str]:
    """Return the section about the file of the study, if that file is available."""
    shared = shared_folder()
    path = shared / "data" / "root" / "AliESDs-0.root" if shared else None
    if path is None or not path.exists():
        return []
    found = {}
    for way in ways():
        progress(f"{way.name}: the file of the study")
        found[way.name] = traced(way, [path], truth=False, folder=cache)
    rows = []
    for name, trace in found.items():
        totals = summarise(trace).as_json()["totals"]
        rows.append([name, *(number(totals[key]) for key in ("read_calls", "read_bytes", "basket_read_calls",
                                                             "basket_read_bytes", "again_bytes"))])  # fmt: skip
    head = ["", "read calls", "bytes", "calls for baskets", "bytes for baskets", "bytes read again"]
    said = difference(found["ROOT, no cache"], found["Branchline, plain"])
    lines = ["## The file of the original study", "", *REAL, "", table(head, rows), ""]
    lines += ["Baskets that Branchline reads with `plain`, compared with ROOT without a cache:", ""]
    return [*lines, *(f"- {one}" for one in said), ""]


INTRODUCTION = (
    "This page counts the reads of an analysis of ALICE-like files, with ROOT and with each `--access` mode of",
    "Branchline.",
    "",
    "- **Files.** The files are simulated, with the layout of real ones. `AliESDs.root` contains the events. The",
    "  truth is in `galice.root`, `Kinematics.root` and `TrackRefs.root`, which have one tree per event, each in its",
    "  own directory.",
    "- **Analysis.** It reads every event, with 440 of the 484 branches (without FMD and CaloClusters), and its",
    "  truth.",
    "- **Calls.** A call is a system call that reads (`pread64`, `read`). Opening a file and reading its trees is",
    "  included.",
    "",
    "An earlier study of ALICE's analysis counted the same with strace and with counters in the framework.",
)
READING = (
    "- ROOT's caches learn from one entry, as in the study. The study had no cache for the trees of single",
    "  events.",
    "- `planned` reads a small file completely if nearly all of its bytes are needed. `prefetch` and `stage`",
    "  always do.",
    "- The process that plans the train also opens the first file. This is the second call of `planned` and",
    "  `prefetch`.",
    "- `stage` does not copy files that are already on a local disk. Here the disk is treated as remote: each file",
    "  is read once and then its copy is read, and both are counted.",
)
REAL = (
    f"`AliESDs-0.root` contains real collisions and has 2 866 469 bytes. The study counted {STUDY_CALLS} calls and",
    f"{number(STUDY_BYTES)} bytes, starting with the first event. This table also includes opening the file.",
)
PICTURES = (
    "Left: the byte range of every read call, in the order of the calls. Right: the number of calls that start",
    "with a basket of each event.",
)
