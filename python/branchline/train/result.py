"""What a train run gives back: results, the record of the job, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from branchline.sensors import rows_of
from branchline.train.exit_codes import EXIT_ERROR, EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_OK
from branchline.train.faults import WagonFault
from branchline.train.share_result import FAILED, JobError


@dataclass
class TrainResult:
    """``outputs`` are the postprocessed sums by wagon, ``job`` is the record that becomes job.json.

    ``errors`` say what stopped the job and why wagons failed, one sentence each; ``out`` is where results were written.
    """

    outputs: dict[str, Any]
    job: dict[str, Any]
    stopped_by: JobError | None = None
    out: Path | None = None
    written: list[Path] = field(default_factory=list)
    _close_clock: Callable[[dict[str, Any]], None] | None = None

    @property
    def sensors(self) -> list[dict[str, Any]]:
        """The rows that become sensors.parquet."""
        return rows_of(self.job)

    @property
    def errors(self) -> list[str]:
        """Each thing that went wrong, in one sentence."""
        sentences = [str(error["message"]) for error in self.job["errors"]]
        stopped = [wagon for wagon in self.job["wagons"] if wagon["error"] is not None]
        sentences += [WagonFault(**wagon["error"]).sentence(wagon["name"]) for wagon in stopped]
        for skipped in self.job["skipped"]:
            lost = skipped["entries_lost"]
            events = "an unknown number of events" if lost is None else f"{lost} events"
            sentences.append(f"skipped {skipped['path']}, {events} lost: {skipped['error']}")
        return sentences

    @property
    def exit_code(self) -> int:
        """0 if all is well; 1 if an error stopped the job or nothing was processed; 3 if a wagon failed or files were
        skipped; 130 if interrupted.
        """
        if self.job["interrupted"]:
            return EXIT_INTERRUPTED
        if self.job["errors"] or self.job["status"] == FAILED:
            return EXIT_ERROR
        failed = any(wagon["error"] is not None for wagon in self.job["wagons"])
        return EXIT_INCOMPLETE if failed or self.job["skipped"] else EXIT_OK

    def close_clock(self) -> None:
        """Brings the wall time, CPU time and phase "write" of the job up to now; called before job.json is written."""
        if self._close_clock is not None:
            self._close_clock(self.job)

    def raise_error(self) -> None:
        """Raises what stopped the job, if something did."""
        if self.stopped_by is not None:
            raise self.stopped_by.error
