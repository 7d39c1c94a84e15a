"""`python -m benches links`: reading over links with latency, with Branchline and with peers at their best settings."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benches.link_reader import CACHE_BYTES, measured
from benches.places import (
    LARGE_TREE,
    SMALL_TREE,
    Place,
    Workload,
    large_event_file,
    large_file,
    served,
    small_files,
    some_branches,
    url_of,
)
from benches.tables import opening, table
from branchline._core import Proxy

ROUND_TRIPS_MS = (1, 10, 30, 63, 100)
PEERS_AT_MS = (100,)
#: Number of passes of Branchline from the local disk, and over the links with the lowest and highest latency. All other
#: measurements have a single pass.
PASSES = 3
#: Links whose CPU times are shown.
CPU_WAYS = ("0 ms", "100 ms")
NARROW = "latency=63ms,bandwidth=7.4MB/s"
NARROW_MB_PER_S = 7.4
BRANCHES = 5
TIMEOUT_S = 120
#: Shorter timeout for peers, since some take a minute for ten files.
PEER_TIMEOUT_S = 40
PEER_FILES = 10
NARROW_FILES = 20
READERS: dict[str, dict[str, Any]] = {
    "Branchline": {"reader": "branchline", "how": {}},
    "ROOT, TTreeCache and asynchronous prefetching": {
        "reader": "root",
        "how": {"cache": CACHE_BYTES, "asynchronous": True},
    },
    "uproot, vector reads": {"reader": "uproot", "how": {}},
    "xrdcp, then Branchline locally": {"reader": "copied", "how": {}},
}


@contextmanager
def link(port: int, throttle: str) -> Iterator[str]:
    """Return the URL of the server's files through a slow link."""
    proxy = Proxy("127.0.0.1:0", f"127.0.0.1:{port}", throttle, None)
    try:
        yield url_of(proxy.port)
    finally:
        proxy.close()


def row_of(
    workload: Workload,
    reader: str,
    base: str,
    way: str,
    timeout_s: float,
    *,
    passes: int = 1,
    server: Place | None = None,
) -> dict[str, Any]:
    """Return the pass with the median seconds, with the seconds of all passes, and the CPU time of the ``server`` and
    of this process, which runs the proxy.
    """
    about = {"read": workload.name, "reader": reader, "link": way, "files": len(workload.names)}
    about["round_trips"] = workload.round_trips
    done = []
    for _ in range(passes):
        before_s = (server.cpu_s() if server else 0.0, time.process_time())
        one = measured({**READERS[reader], **workload.request(base)}, timeout_s)
        if one is None:
            return about | {"limit_s": timeout_s}
        if server:
            one["server_cpu_s"] = server.cpu_s() - before_s[0]
            one["proxy_cpu_s"] = time.process_time() - before_s[1]
        done.append(one)
    all_s = sorted(one["seconds"] for one in done)
    median = next(one for one in done if one["seconds"] == statistics.median_low(all_s))
    return about | median | {"passes_s": all_s}


def fewer(workload: Workload, count: int) -> Workload:
    return replace(workload, names=workload.names[:count])


def slow_rows(workloads: list[Workload], place: Place, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """Measure Branchline from the local disk and over every link, and the peers over the slowest link."""
    folder = place.folder
    rows = []
    for workload in workloads:
        progress(f"{workload.name}: local")
        row_of(workload, "Branchline", str(folder), "local", TIMEOUT_S)  # warm the page cache
        rows.append(row_of(workload, "Branchline", str(folder), "local", TIMEOUT_S, passes=PASSES))
        for round_trip_ms in (0, *ROUND_TRIPS_MS):
            with link(place.port, f"latency={round_trip_ms}ms") as base:
                way = f"{round_trip_ms} ms"
                progress(f"{workload.name}: {way}")
                passes = PASSES if round_trip_ms in (0, max(ROUND_TRIPS_MS)) else 1
                rows.append(row_of(workload, "Branchline", base, way, TIMEOUT_S, passes=passes, server=place))
                if round_trip_ms in PEERS_AT_MS:
                    for reader in list(READERS)[1:]:
                        progress(f"{workload.name}: {way}, {reader}")
                        rows.append(row_of(fewer(workload, PEER_FILES), reader, base, way, PEER_TIMEOUT_S))
    return rows


def narrow_rows(workload: Workload, port: int, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """Measure all readers over a link of 63 ms and 7.4 MB/s."""
    rows = []
    for reader in READERS:
        progress(f"{NARROW}: {reader}")
        with link(port, NARROW) as base:
            rows.append(row_of(workload, reader, base, "63 ms, 7.4 MB/s", PEER_TIMEOUT_S))
    return rows


def seconds_text(row: dict[str, Any] | None, files: int) -> str:
    """Return the seconds scaled to this many files."""
    if row is None:
        return ""
    scale = files / row["files"]
    if "seconds" not in row:
        return f"> {row['limit_s'] * scale:.0f}"
    return f"{row['seconds'] * scale:.2f}{spread_text(row)}"


def spread_text(row: dict[str, Any]) -> str:
    """Return the shortest and longest of several passes."""
    all_s = row.get("passes_s", [])
    return f" [{all_s[0]:.2f}-{all_s[-1]:.2f}]" if len(all_s) > 1 else ""


def slow_table(rows: list[dict[str, Any]]) -> str:
    """Return a table of seconds over each link, and their ratio to the local seconds."""
    ways = list(dict.fromkeys(row["link"] for row in rows))
    lines = []
    for name in dict.fromkeys(row["read"] for row in rows):
        found = {(row["reader"], row["link"]): row for row in rows if row["read"] == name}
        local = found["Branchline", "local"]
        for reader in READERS:
            cells = []
            for way in ways:
                row = found.get((reader, way))
                text = seconds_text(row, local["files"])
                if row and reader == "Branchline" and "seconds" in row and way != "local":
                    text += f" ({row['seconds'] / local['seconds']:.2f}x)"
                cells.append(text)
            trips = str(local["round_trips"]) if reader == "Branchline" else ""
            lines.append([name, reader, trips, *cells])
    return table(["read", "reader", "round trips", *ways], lines)


def cpu_table(rows: list[dict[str, Any]]) -> str:
    """Return a table of the CPU seconds of reader, server and proxy, and the lower bound of the wall time."""
    cores = len(os.sched_getaffinity(0))
    lines = []
    for row in rows:
        if row["reader"] != "Branchline" or "cpu_s" not in row or row["link"] not in ("local", *CPU_WAYS):
            continue
        all_s = [row[name] for name in ("cpu_s", "server_cpu_s", "proxy_cpu_s") if name in row]
        trips_s = row["round_trips"] * float(row["link"].removesuffix(" ms")) / 1e3 if row["link"] in CPU_WAYS else 0.0
        texts = [f"{one:.2f}" for one in all_s] + [""] * (3 - len(all_s))
        least_s = sum(all_s) / cores + trips_s
        lines.append([row["read"], row["link"], f"{row['seconds']:.2f}", *texts, f"{least_s:.2f}"])
    head = ["read", "way", "seconds", "CPU of Branchline", "of the server", "of the proxy"]
    return table([*head, f"CPU on {cores} cores and round trips"], lines)


def narrow_table(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        if "seconds" not in row:
            lines.append([row["reader"], f"> {row['limit_s']}", "", ""])
            continue
        rate = row["bytes"] / row["seconds"] / 1e6
        share = f"{100 * rate / NARROW_MB_PER_S:.0f} %"
        lines.append([row["reader"], f"{row['seconds']:.1f}", f"{row['bytes'] / 1e6:.1f}", share])
    return table(["reader", "seconds", "MB moved", "of the link"], lines)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw Branchline's slowdown against the round trip."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for name in dict.fromkeys(row["read"] for row in rows):
        mine = {row["link"]: row for row in rows if row["read"] == name and row["reader"] == "Branchline"}
        known = [ms for ms in ROUND_TRIPS_MS if "seconds" in mine.get(f"{ms} ms", {})]
        local_s = mine["local"]["seconds"]
        axes.plot(known, [mine[f"{ms} ms"]["seconds"] / local_s for ms in known], marker="o", label=name)
    axes.axhline(1.2, color="grey", linestyle=":", label="1.2 times local")
    axes.set(xlabel="round trip [ms]", ylabel="times the seconds from the local disk", ylim=(0, None))
    axes.legend(fontsize="small")
    figure.savefig(path.with_suffix(".svg"))
    figure.savefig(path.with_suffix(".png"), dpi=110)


def links_page(
    cache: Path, sizes: tuple[int, int], results: Path, progress: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Measure, draw, and return the page with its rows. ``sizes`` has the number of small files and the bytes of a
    large one.
    """
    small = small_files(cache, sizes[0], progress)
    large = large_file(cache, sizes[1], progress)
    names = tuple(small)
    few = some_branches(next(iter(small.values())), SMALL_TREE, BRANCHES)
    few_of_large = tuple(f"b{8 * number}" for number in range(BRANCHES))
    events = large_event_file(cache, sizes[1], progress)
    large_text = f"one file of {large.stat().st_size / 1e6:.0f} MB"
    events_text = f"one file of {events.stat().st_size / 1e6:.0f} MB of split objects in zlib"
    workloads = [
        Workload(f"{len(names)} small files, all branches", names, SMALL_TREE, None, round_trips=3),
        Workload(f"{len(names)} small files, {len(few)} branches", names, SMALL_TREE, few),
        Workload(f"{large_text}, all branches", ("large.root",), LARGE_TREE, None, round_trips=5),
        Workload(f"{large_text}, {BRANCHES} branches", ("large.root",), LARGE_TREE, few_of_large, round_trips=5),
        Workload(f"{events_text}, all branches", ("events.root",), SMALL_TREE, None),
    ]
    with served({**small, "large.root": large, "events.root": events}) as place:
        rows = slow_rows(workloads, place, progress)
        narrow = narrow_rows(fewer(workloads[0], NARROW_FILES), place.port, progress)
    results.mkdir(parents=True, exist_ok=True)
    draw(rows, results / "links")
    lines = opening("Reading over links with latency", 1)
    lines += [
        "Seconds of a pass in a new process, including the first connection to the server, through a TCP proxy that",
        "adds latency; in brackets the ratio to the seconds from the local disk. Bandwidth is not limited unless",
        "stated. Server and proxy run on the same cores as the readers.",
        "",
        f"From the local disk and at 0 and {max(ROUND_TRIPS_MS)} ms, values are medians of {PASSES} passes with the",
        f"shortest and the longest; other values are single passes. Peers read {PEER_FILES} of the small files, and",
        "their seconds are scaled up. A pass that takes too long is aborted.",
        "",
        "Round trips are the minimum for a reader without prior knowledge: TCP handshake, login and open of the file,",
        "the small file or both ends of a larger one, and the parts that these refer to. The file written by uproot",
        "needs one more, since its metadata is not at its ends.",
        "",
        "The small files have 100 events each, with 484 branches of split objects in zlib. The file of split objects",
        "is made of them by `branchline merge`, with the same baskets. The other large file, written by uproot, has",
        "40 branches of 64 floats per entry, in baskets of 160 kB with zstd, which are fast to decode.",
        "",
        slow_table(rows),
        "",
        "![](links.svg)",
        "",
        "## CPU time on this machine",
        "",
        "CPU seconds in the same passes. On a real link, server and reader run on different machines. Here reader,",
        "server and proxy share the cores. The last column is therefore a lower bound for a pass: the CPU time of all",
        "three, divided evenly among the cores, plus the minimum round trips.",
        "",
        cpu_table(rows),
        "",
        f"## A link of 63 ms and 7.4 MB/s: {min(NARROW_FILES, len(names))} small files, all branches",
        "",
        narrow_table(narrow),
    ]
    return "\n".join(lines) + "\n", [*rows, *narrow]
