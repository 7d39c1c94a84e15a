"""python -m tests.faults.batch_trains SYSTEM KIND...: submits a train with each kind of faulty wagon to a batch system,
all of them side by side, and prints what came of each as a line of JSON, in their order.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.faults.kinds import wagons
from tests.faults.one_train import answer_of, each_file_is_a_subjob

import branchline
from branchline.errors import BranchlineError
from branchline.trains.submitted.handle import SubmittedTrain

#: Seconds of silence after which a worker is ended: more than at other places, as many tasks share few cores.
TIMEOUT_S = 10.0
#: How long all trains may take.
TRAINS_S = 1500


def submitted(system: str, kind: str, out: Path) -> SubmittedTrain | str:
    """Submits the train of a kind into a directory of its own; the error if it is refused."""
    try:
        return branchline.run(
            wagons(kind or None),
            "data/*.root",
            out,
            tree="events",
            step_size=200,
            worker_timeout=TIMEOUT_S,
            on=system,
            batch=branchline.BatchSettings(tasks=1, retries=0),
            pictures="none",
        )
    except BranchlineError as error:
        return str(error)


def answer(train: SubmittedTrain | str) -> dict[str, Any]:
    """What came of a train, once its jobs have ended."""
    if isinstance(train, str):
        return failed(train)
    try:
        train.wait(TRAINS_S)
        results = branchline.load(train.out, partial=True)
    except BranchlineError as error:
        with suppress(BranchlineError):
            train.cancel()
        return failed(str(error))
    return answer_of(results, results.record)


def failed(error: str) -> dict[str, Any]:
    """The answer of a train without results."""
    return {"faults": {}, "digests": {}, "errors": [error]}


def main() -> None:
    system, *kinds = sys.argv[1:]
    each_file_is_a_subjob()
    trains = [submitted(system, kind, Path(f"out{number}")) for number, kind in enumerate(kinds)]
    for train in trains:
        print(json.dumps(answer(train)), flush=True)


if __name__ == "__main__":
    main()
