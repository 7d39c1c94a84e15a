"""`python -m benches access`: read calls and bytes of each access mode of Branchline and ROOT, from a local disk and an
XRootD server, and the effect of client buffers of fixed size.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benches.link_reader import CACHE_BYTES, measured
from benches.places import SMALL_TREE, Workload, served, small_files, some_branches
from benches.tables import opening, table

WAYS: dict[str, dict[str, Any]] = {
    "Branchline plain": {"reader": "branchline", "how": {"mode": "plain"}},
    "Branchline cache": {"reader": "branchline", "how": {"mode": "cache"}},
    "Branchline planned": {"reader": "branchline", "how": {}},
    "Branchline prefetch": {"reader": "branchline", "how": {"mode": "prefetch"}},
    "ROOT without cache": {"reader": "root", "how": {"cache": 0}},
    "ROOT with TTreeCache": {"reader": "root", "how": {"cache": CACHE_BYTES}},
    "ROOT with TTreeCache, learning": {"reader": "root", "how": {"cache": CACHE_BYTES, "learning": True}},
}
KIB, MIB = 2**10, 2**20
BUFFERS = (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 32 * MIB, 128 * MIB)
BRANCHES = 5
TIMEOUT_S = 90
BUFFERED_FILES = 10


def size_text(size_bytes: int) -> str:
    return f"{size_bytes // MIB} MiB" if size_bytes >= MIB else f"{size_bytes // KIB} KiB"


def ways_rows(workload: Workload, bases: dict[str, str], progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """Measure every access mode at every place."""
    rows = []
    for place, base in bases.items():
        for way, asked in WAYS.items():
            progress(f"{workload.name}, {place}: {way}")
            done = measured({**asked, **workload.request(base)}, TIMEOUT_S)
            rows.append(
                {"read": workload.name, "place": place, "way": way, "files": len(workload.names)} | (done or {})
            )
    return rows


def buffer_rows(workload: Workload, base: str, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """Measure plain reads through client buffers of all sizes, and without a buffer."""
    rows = []
    for size in (None, *BUFFERS):
        progress(f"{workload.name}: a buffer of {size}")
        how = {"mode": "plain", "read_ahead": size}
        done = measured({"reader": "branchline", "how": how, **workload.request(base)}, TIMEOUT_S)
        rows.append({"read": workload.name, "buffer": size, "files": len(workload.names)} | (done or {}))
    return rows


def ways_table(rows: list[dict[str, Any]]) -> str:
    head = ["read from", "how", "calls per file", "MB per file", "seconds"]
    return table(head, [[row["place"], row["way"], *figures(row)] for row in rows])


def figures(row: dict[str, Any]) -> list[str]:
    if "seconds" not in row:
        return ["", "", f"more than {TIMEOUT_S}"]
    files = row["files"]
    return [f"{row['calls'] / files:.1f}", f"{row['bytes'] / files / 1e6:.2f}", f"{row['seconds']:.2f}"]


def draw_buffers(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw time and transferred bytes against the buffer size."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes = figure.subplots(1, 2)
    for name in dict.fromkeys(row["read"] for row in rows):
        mine = [row for row in rows if row["read"] == name and row["buffer"] and "seconds" in row]
        sizes = [row["buffer"] / MIB for row in mine]
        axes[0].plot(sizes, [row["seconds"] / row["files"] for row in mine], marker="o", label=name)
        axes[1].plot(sizes, [row["bytes"] / row["files"] / 1e6 for row in mine], marker="o", label=name)
    for one, label in zip(axes, ("seconds per file", "MB moved per file"), strict=True):
        one.set(xscale="log", yscale="log", xlabel="client buffer [MiB]", ylabel=label)
        one.legend(fontsize="small")
    figure.savefig(path.with_suffix(".svg"))
    figure.savefig(path.with_suffix(".png"), dpi=110)


def access_page(
    cache: Path, count: int, results: Path, progress: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Measure, draw the picture, and return the page and its rows."""
    files = small_files(cache, count, progress)
    few = some_branches(next(iter(files.values())), SMALL_TREE, BRANCHES)
    names = tuple(files)
    everything = Workload("all branches", names, SMALL_TREE, None)
    some = Workload(f"{len(few)} branches", names, SMALL_TREE, few)
    with served(files) as place:
        bases = {"local": str(place.folder), "root://": place.url}
        ways = [row for workload in (everything, some) for row in ways_rows(workload, bases, progress)]
        first = names[:BUFFERED_FILES]
        buffered = [Workload(one.name, first, one.tree, one.branches) for one in (everything, some)]
        buffers = [row for one in buffered for row in buffer_rows(one, place.url, progress)]
    results.mkdir(parents=True, exist_ok=True)
    draw_buffers(buffers, results / "access-buffers")
    lines = opening("Requests of each access mode", 1)
    lines += [
        f"{count} files of 100 events with 484 branches of split objects, from the local disk and from an XRootD",
        "server on the loopback interface. Each pass is a new process. Each reader counts its own calls and bytes.",
        "Branchline's include metadata but not the opening, which is one more request to a server. ROOT's cache is",
        "either given its branches, or learns them from the first entries, for which it reads all branches.",
        "Branchline's cache learns them in the same way.",
    ]
    for name in (everything.name, some.name):
        lines += ["", f"## {name}", "", ways_table([row for row in ways if row["read"] == name])]
    lines += ["", "## Plain reads over root:// through a client buffer of fixed size, as in RFIO", ""]
    head = ["read", "buffer", "calls per file", "MB per file", "seconds"]
    shown = lambda row: "none" if row["buffer"] is None else size_text(row["buffer"])  # noqa: E731
    lines += [table(head, [[row["read"], shown(row), *figures(row)] for row in buffers])]
    lines += ["", f"{BUFFERED_FILES} files. ![](access-buffers.svg)"]
    return "\n".join(lines) + "\n", [*ways, *buffers]
