"""The record of a job: everything that was measured, in the one dictionary that all reports are drawn from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from branchline.access import Access
from branchline.dataset import DataFile, Dataset
from branchline.jobs import Lost
from branchline.sensors import (
    __version__,
    added_troubles,
    cpu_count,
    cpu_s,
    host,
    joined_links,
    machine_cpu_s,
    memory_peak_bytes,
    take_troubles,
)
from branchline.train.clock import PHASES, PhaseClock
from branchline.train.faults import fault_of, reason
from branchline.train.merging import Merged
from branchline.train.pickling import CannotPickleError, pickled_bytes
from branchline.train.records import TOTALS, companions_missing, skipped_files, storage_elements, storage_remarks
from branchline.train.share_result import FAILED, FINISHED, PARTIAL, JobError, WagonShare, WorkerTimes
from branchline.train.wagons import Wagon


def postprocess(wagons: Sequence[Wagon], merged: Merged) -> dict[str, Any]:
    """The results by wagon. Where ``postprocess`` raises, the sum is kept as it is and the wagon has an error."""
    outputs = {wagon.name: merged.wagons[wagon.name].total for wagon in wagons}
    for wagon in wagons:
        share = merged.wagons[wagon.name]
        if share.chunks == 0:
            continue
        try:
            outputs[wagon.name] = wagon.postprocess(share.total)
        except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001 - a wagon may raise anything
            share.error = share.error or replace(fault_of(error, wagon), message=f"in postprocess: {reason(error)}")
    return outputs


@dataclass
class JobRecord:
    """What is known of a job beside what its sub-jobs brought back."""

    wagons: tuple[Wagon, ...]
    dataset: Dataset
    missing: list[DataFile]
    workers: int
    threads: int
    started: datetime
    clock: PhaseClock
    cpu_begin_s: float
    machine_cpu_begin_s: float | None
    times: dict[int, WorkerTimes]
    timeline: list[dict[str, Any]]
    subjobs: int
    step_entries: int
    interrupted: bool
    lost: list[Lost]
    command: str
    access: Access

    def as_dict(self, merged: Merged, outputs: Mapping[str, Any], stopped_by: JobError | None) -> dict[str, Any]:
        """The job, all of it plain dictionaries, lists, numbers and texts."""
        files = merged.files.as_list()
        missing = [{"path": one.path, "entries_lost": None, "error": "there is no such file"} for one in self.missing]
        skipped = skipped_files([*missing, *merged.skipped])
        datasets = self._datasets(files)
        wagons = [self._wagon(one, merged.wagons[one.name], outputs[one.name]) for one in self.wagons]
        job: dict[str, Any] = {
            "branchline": __version__,
            "host": host(),
            "cpu_count": cpu_count(),
            "machine_cpu_count": os.cpu_count(),
            "workers": self.workers,
            "threads": self.threads,
            "started": self.started.isoformat(),
            "memory_peak_bytes": self._memory_peak_bytes(),
            "command": self.command,
            "access": self.access.chosen(),
            "interrupted": self.interrupted,
            "step_entries": self.step_entries,
            "subjobs": self.subjobs,
            "subjobs_done": merged.subjobs_done,
            "dataset": datasets,
            "events": merged.events,
            "events_expected": _events_expected(self.dataset, files, skipped),
            "wagons": wagons,
            "files": files,
            "branches": merged.branches.as_list(),
            "storage_elements": storage_elements(files),
            "storage_remarks": storage_remarks(files),
            "links": joined_links(merged.links),
            "troubles": added_troubles([*merged.troubles, *take_troubles()]),
            "skipped": skipped,
            "workers_lost": [vars(one) | {"subjobs": list(one.subjobs)} for one in self.lost],
            "companions_missing": companions_missing(merged.companions_missing),
            "recovered": [{"path": path, "keys": count} for path, count in merged.recovered.items()],
            "misses": _misses(merged),
            "timeline": self.timeline,
            "totals": {field: merged.files.total(field) for field in TOTALS},
            "errors": [] if stopped_by is None else [stopped_by.as_dict()],
        }
        self._check_ledger(job)
        is_whole = not (job["errors"] or job["skipped"] or self.interrupted)
        for wagon in wagons:
            wagon["status"] = _wagon_status(wagon, is_whole=is_whole)
        is_whole = is_whole and all(wagon["error"] is None for wagon in wagons)
        job["status"] = FINISHED if is_whole else PARTIAL if merged.events else FAILED
        self.close_clock(job)
        return job

    def close_clock(self, job: dict[str, Any]) -> None:
        """Sets the wall time, the CPU time and the phases to what they are now."""
        seconds = self.clock.seconds()
        run_s = seconds.pop("run", 0.0)
        job["worker_phases"] = [self._worker_phases(worker, run_s) for worker in range(self.workers)]
        phases = {}
        for phase in PHASES:
            of_workers = sum(one[phase] for one in job["worker_phases"]) / self.workers
            phases[phase] = seconds.get(phase, 0.0) + of_workers
        job["phases"] = phases
        job["wall_s"] = sum(seconds.values()) + run_s
        job["cpu_s"] = cpu_s() - self.cpu_begin_s
        if self.workers > 1:
            job["cpu_s"] += sum(one.cpu_s for one in self.times.values())
        now_s = machine_cpu_s()
        if now_s is not None and self.machine_cpu_begin_s is not None:
            job["machine_cpu_s"] = now_s - self.machine_cpu_begin_s

    def _worker_phases(self, worker: int, run_s: float) -> dict[str, Any]:
        """The timeline of a worker. From its last word to the end of the run it is idle, and one that never said
        anything is so all the time; what its clock does not tell otherwise is in no phase that has a name.
        """
        times = self.times.get(worker)
        if times is None:
            phases = dict.fromkeys(PHASES, 0.0) | {"idle": run_s}
        else:
            phases = dict(times.phases)
            phases["idle"] += min(run_s, max(0.0, self.clock.ended_s("run") - times.until_s))
        phases["other"] += max(0.0, run_s - sum(phases.values()))
        return {"worker": worker, "host": times.host if times else host(), "wall_s": run_s, **phases}

    def _memory_peak_bytes(self) -> int:
        processes = [] if self.workers == 1 else [one.memory_peak_bytes for one in self.times.values()]
        return memory_peak_bytes() + sum(processes)

    def _datasets(self, files: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        entries = {one["path"]: one.get("entries") for one in files}
        return [
            {
                "path": one.path,
                "tree": one.tree,
                "dataset": one.dataset,
                "entries": entries.get(one.path),
                "size_bytes": one.size_bytes,
            }
            for one in self.dataset
        ]

    def _wagon(self, wagon: Wagon, share: WagonShare, output: Any) -> dict[str, Any]:
        return {
            "name": wagon.name,
            "seconds": share.seconds,
            "cpu_s": share.cpu_s,
            "core_wait_s": share.core_wait_s,
            "events": share.events,
            "chunks": share.chunks,
            "misses": sum(share.misses.values()),
            "output_bytes": _output_bytes(output),
            "branches": sorted(share.touched),
            "requires": list(wagon.requires),
            "error": None if share.error is None else share.error.as_dict(),
        }

    def _check_ledger(self, job: dict[str, Any]) -> None:
        """Every event of the dataset has to have been seen exactly once, or it has to be said why not."""
        all_stopped = all(wagon["error"] is not None for wagon in job["wagons"])
        if job["errors"] or job["skipped"] or self.interrupted or all_stopped:
            return
        unread = [one["path"] for one in job["dataset"] if one["entries"] is None]
        if unread:
            what = f"the train never read {len(unread)} files of its dataset, the first is {unread[0]}"
            job["errors"].append({"type": "LedgerError", "message": what, "path": unread[0], "traceback": ""})
        if job["events_expected"] is None:
            return
        if job["events"] != job["events_expected"]:
            what = f"the train saw {job['events']} events where its files hold {job['events_expected']}"
            job["errors"].append({"type": "LedgerError", "message": what, "path": None, "traceback": ""})


def _wagon_status(wagon: Mapping[str, Any], *, is_whole: bool) -> str:
    """``is_whole`` says whether the job brought it all events."""
    if wagon["error"] is not None:
        return PARTIAL if wagon["events"] else "stopped"
    return FINISHED if is_whole else PARTIAL


def _misses(merged: Merged) -> dict[str, int]:
    misses: dict[str, int] = {}
    for share in merged.wagons.values():
        for branch, count in share.misses.items():
            misses[branch] = misses.get(branch, 0) + count
    return misses


def _events_expected(
    dataset: Dataset, files: Sequence[Mapping[str, Any]], skipped: Sequence[Mapping[str, Any]]
) -> int | None:
    """The events of the dataset, those of skipped files among them as far as they are known; None if another file was
    not opened, or if trees of one file cannot be told apart.
    """
    entries = {record["path"]: record.get("entries") for record in files}
    lost = {record["path"]: record["entries_lost"] for record in skipped}
    if len({(one.path, one.tree) for one in dataset}) > len({one.path for one in dataset}):
        return None
    events = {record["path"]: record["events"] for record in files}
    total = sum(
        (entries.get(path) or 0) if entries_lost is None else events.get(path, 0) + entries_lost
        for path, entries_lost in lost.items()
    )
    for one in dataset:
        count = entries.get(one.path)
        if one.path in lost:
            continue
        if count is None:
            return None
        stop = count if one.entry_stop is None else min(count, one.entry_stop)
        total += max(0, stop - one.entry_start)
    return total


def _output_bytes(output: Any) -> int:
    try:
        return pickled_bytes(output)
    except CannotPickleError:
        return 0  # what postprocess returns need not travel any more
