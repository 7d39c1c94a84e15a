"""The state of a train by its directory, wherever it runs."""

from __future__ import annotations

from pathlib import Path

from branchline.records.sensors.status import TrainStatus
from branchline.trains.out_folder.lock import JOBS, SUBMISSION
from branchline.trains.out_folder.state import status_of


def state_of(out: Path) -> TrainStatus | None:
    """None without a record of a run. Raises BadFileError for a damaged one of a submitted train."""
    if (out / JOBS / SUBMISSION).is_file():
        # Imported here since it imports what only submitted trains need.
        from branchline.trains.submitted.handle import SubmittedTrain

        return SubmittedTrain(out).status()
    return status_of(out)
