"""A process that holds one reader and runs a pass for each line of JSON.

Imports, compilation and ROOT's start are complete before the process answers "ready", so that they are not measured.
The process is bound to its cores before it imports anything that counts them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benches.arms import Arm

REPOSITORY = Path(__file__).resolve().parent.parent


class Worker:
    """The parent's handle to a worker process."""

    def __init__(self, arm: Arm, setup: dict[str, Any]) -> None:
        self.arm = arm
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benches.worker"],
            cwd=REPOSITORY,
            env={**os.environ, **arm.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._send({"arm": asdict(arm), "setup": setup})

    def wait_ready(self) -> None:
        """Block until imports and compilation are complete."""
        self._receive()

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run a pass and return the fields of readers.Pass. Raises RuntimeError with the worker's message."""
        self._send(request)
        return self._receive()

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            msg = f"the worker of {self.arm.key} ended with exit code {self._process.wait()}"
            raise RuntimeError(msg)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            msg = f"{self.arm.key}: {answer['error']}"
            raise RuntimeError(msg)
        return answer


def bind_to_cores(count: int) -> None:
    """Restrict this process and its threads to the first `count` of its allowed cores."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < count:
        msg = f"{count} cores are needed, but only {len(allowed)} are available"
        raise RuntimeError(msg)
    os.sched_setaffinity(0, set(allowed[:count]))


def serve() -> None:
    """Run the loop of the worker. Answers use a separate channel, since libraries may print to standard output."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(message: dict[str, Any]) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    first = json.loads(sys.stdin.readline())
    try:
        bind_to_cores(first["arm"]["cores"])
        from benches import readers
        from benches.root_loops import Column

        columns = {name: [Column(**c) for c in many] for name, many in first["setup"]["columns"].items()}
        setup = readers.Setup(first["setup"]["cache"], columns)
        arm = first["arm"]
        read = readers.MAKERS[arm["reader"]](arm["options"], arm["cores"], setup)
    except Exception as error:  # noqa: BLE001 - the parent raises it
        answer({"error": f"{type(error).__name__}: {error}"})
        return
    answer({"ready": True})
    for line in sys.stdin:
        try:
            answer(asdict(read(readers.Request(**json.loads(line)))))
        except Exception as error:  # noqa: BLE001 - the parent raises it
            answer({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    serve()
