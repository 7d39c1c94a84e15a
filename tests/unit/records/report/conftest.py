"""Records of jobs for the tests of the report: consistent numbers, as a train leaves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Job = dict[str, Any]

SHARES = {
    "start": 0.04,
    "plan": 0.01,
    "wait": 0.03,
    "decompress": 0.62,
    "decode": 0.08,
    "wagons": 0.17,
    "merge": 0.01,
    "write": 0.03,
    "idle": 0.005,
    "other": 0.005,
}


def _files(count: int, wall_s: float) -> list[Job]:
    files = []
    for index in range(count):
        weight = 1 + 0.5 * ((index * 7) % 11) / 11
        files.append(
            {
                "path": f"/data/pp14TeV/run{index // 8:03d}/collisions_{index:05d}.root",
                "store": "local",
                "storage_element": "local",
                "host": "farm-17",
                "worker": index % 4,
                "entries": 2500,
                "events": 2500,
                "size_bytes": 4_200_000,
                "codec": "zlib",
                "bytes_asked": 3_100_000,
                "bytes_read": 3_200_000,
                "read_calls": 2,
                "baskets": 63,
                "compressed_bytes": 3_050_000,
                "plain_bytes": 9_400_000,
                "open_s": 0.002,
                "fetch_s": 0.004 * weight,
                "decompress_s": 0.12 * weight,
                "decode_s": 0.02 * weight,
                "late_reads": 1 if index == 0 else 0,
                "wall_s": wall_s * 4 * weight / count / 1.25,
                "subjobs": 1,
            }
        )
    return files


def _branches(count: int, decompress_s: float, decode_s: float) -> list[Job]:
    names = ["particle_px", "particle_py", "particle_pz", "particle_energy", "particle_pdg", "particle_status"]
    names += [f"particle_extra{index:04d}" for index in range(count)]
    weights = [0.19, 0.18, 0.18, 0.16] + [0.29 / max(1, count - 4)] * max(0, count - 4)
    return [
        {
            "name": name,
            "codec": "zlib",
            "baskets": 72,
            "compressed_bytes": round(73_200_000 * weight),
            "plain_bytes": round(225_600_000 * weight),
            "decompress_s": decompress_s * weight,
            "decode_s": decode_s * weight,
        }
        for name, weight in zip(names[:count], weights[:count], strict=True)
    ]


def _wagons() -> list[Job]:
    rows = [("spectra", 0.4, 0.39, 18_432), ("jets", 0.9, 0.88, 9_216), ("correlations", 1.9, 1.86, 51_200)]
    return [
        {
            "name": name,
            "status": "finished",
            "seconds": seconds,
            "cpu_s": cpu_s,
            "events": 60_000,
            "chunks": 24,
            "misses": 1 if name == "jets" else 0,
            "output_bytes": output_bytes,
            "branches": ["particle_px", "particle_py"],
            "requires": [],
            "error": None,
        }
        for name, seconds, cpu_s, output_bytes in rows
    ]


def _timeline(wall_s: float, events: int) -> list[Job]:
    points = []
    for index in range(1, 25):
        # Starts slowly, and stumbles once.
        done = index / 24 if index != 13 else 12.2 / 24
        points.append(
            {
                "t_s": 0.08 * wall_s + 0.88 * wall_s * index / 24,
                "events": round(events * done),
                "bytes_read": round(76_800_000 * done),
                "plain_bytes": round(225_600_000 * done),
            }
        )
    return points


def make_job(
    files_count: int = 24, branches_count: int = 21, wall_s: float = 12.4, phases: dict[str, float] | None = None
) -> Job:
    """Return the record of a finished job; ``phases`` are shares of the wall time in place of the usual ones."""
    shares = dict.fromkeys(SHARES, 0.0) | (SHARES if phases is None else phases)
    seconds = {name: share * wall_s for name, share in shares.items()}
    files = _files(files_count, wall_s)
    events = sum(file["events"] for file in files)
    sums = ("bytes_asked", "bytes_read", "read_calls", "baskets", "compressed_bytes", "plain_bytes", "fetch_s")
    totals = {name: sum(file[name] for file in files) for name in sums}
    branches = _branches(branches_count, 4 * seconds["decompress"], 4 * seconds["decode"])
    totals["decompress_s"] = sum(branch["decompress_s"] for branch in branches)
    totals["decode_s"] = sum(branch["decode_s"] for branch in branches)
    element = {"name": "local", "files": files_count}
    element |= {name: totals[name] for name in ("bytes_read", "read_calls", "fetch_s")}
    return {
        "branchline": "0.1.0",
        "status": "finished",
        "interrupted": False,
        "host": "farm-17",
        "cpu_count": 8,
        "workers": 4,
        "threads": 1,
        "started": "2024-11-21T03:00:00+00:00",
        "wall_s": wall_s,
        "cpu_s": 3.7 * wall_s,
        "memory_peak_bytes": 812_000_000,
        "command": "branchline run wagons.py 'data/*.root' -o out --workers 4",
        "dataset": [
            {"path": file["path"], "tree": "events", "entries": file["entries"], "size_bytes": file["size_bytes"]}
            for file in files
        ],
        "events": events,
        "events_expected": events,
        "subjobs": files_count,
        "subjobs_done": files_count,
        "phases": seconds,
        "worker_phases": [{"worker": worker, "host": "farm-17", "wall_s": wall_s, **seconds} for worker in range(4)],
        "wagons": _wagons(),
        "files": files,
        "branches": branches,
        "storage_elements": [element],
        "skipped": [],
        "misses": {"particle_mass": 1},
        "timeline": _timeline(wall_s, events),
        "totals": totals,
        "errors": [],
    }


@pytest.fixture
def job() -> Job:
    """Return the record of an ordinary job of four workers, limited by decompression."""
    return make_job()


@pytest.fixture
def job_with() -> Callable[..., Job]:
    """Return a maker of records: ``job_with(phases={"wait": 0.8}, ...)``."""

    def make(**changes: Any) -> Job:
        names = ("files_count", "branches_count", "wall_s", "phases")
        made = {name: changes.pop(name) for name in names if name in changes}
        record = make_job(**made)
        record.update(changes)
        return record

    return make
