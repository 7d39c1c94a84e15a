"""Runs trains, each in a process forked for it, which imports the modules of the train. Orders are lines of JSON."""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import branchline
import branchline.trains.run
import branchline.trains.running.train_run
import branchline.trains.worker.train_worker
from branchline.trains.subjobs import shares

# Each file is a sub-job.
shares.SUBJOB_MIN_BYTES = 16_000


def _run(order: dict[str, Any]) -> dict[str, Any]:
    os.chdir(order["folder"])
    sys.path[:0] = [order["packages"], order["folder"]]
    result = branchline.run(
        "wagons.py",
        "data",
        None if order["out"] is None else Path(order["out"]),
        workers=order["workers"],
        reuse=order["reuse"],
        force=True,
        pictures="none",
    )
    return {"outputs": dict(result.outputs), "reused": result.record.subjobs_reused}


def main() -> None:
    """Serves until there are no more orders."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                answer = _run(json.loads(line))
            except BaseException:  # noqa: BLE001 - the error is the answer
                answer = {"error": traceback.format_exc()}
            with os.fdopen(writer, "w") as file:
                json.dump(answer, file)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as file:
            content = file.read()
        os.waitpid(child, 0)
        print(content or json.dumps({"error": "the process died"}), file=answers, flush=True)


if __name__ == "__main__":
    main()
