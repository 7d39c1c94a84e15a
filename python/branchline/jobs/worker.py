"""A worker process: ``main``, called by a new Python, talks over the socket that it inherits, and shows what it is
at on a page that it shares with the job: both are its arguments.

It never imports the caller's main script, so a script needs no ``if __name__ == "__main__"`` and a notebook works.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import cloudpickle

from branchline.jobs.connection import WorkersEnd
from branchline.jobs.heartbeat import Heart
from branchline.jobs.interruption import SIGNALS, Interruption
from branchline.jobs.subjob import Context, Finished, SubJob, Wait, Work


def load_module(name: str, path: str) -> Any:
    """Loads a Python file as the module ``name``; what is pickled by reference to that name is then found."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def serve(line: WorkersEnd, heart: Heart) -> None:
    """Works until there are no more sub-jobs or the other side is gone."""
    number, path, modules, pickled = line.receive()
    sys.path[:] = path
    heart.at("loading the wagons")
    _load_all(modules)
    work: Work = cloudpickle.loads(pickled)

    def draw(wait: bool) -> SubJob | Wait | None:
        heart.at("waiting for a sub-job")
        line.send(("draw", wait))
        drawn: SubJob | Wait | None = line.receive()
        heart.at(f"beginning {drawn.label}" if isinstance(drawn, SubJob) else "between two sub-jobs")
        return drawn

    interruption = Interruption(patient=True)
    with interruption.installed():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        for message in work(Context(number, draw, interruption, heart.at)):
            if isinstance(message, Finished):
                heart.at("handing over a result")
                line.send(("finished", message.index, cloudpickle.dumps(message.value)))
            else:
                line.send(("note", message.value))
        line.send(("bye",))


def _load_all(modules: Sequence[tuple[str, str]]) -> None:
    for name, path in modules:
        load_module(name, path)


def main() -> None:
    """Entry point of the process."""
    line, heart = WorkersEnd(int(sys.argv[1])), Heart(int(sys.argv[2]))
    try:
        serve(line, heart)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(1)  # The job is gone: nobody is left to tell.
    except BaseException as error:  # noqa: BLE001 - whatever ends a worker is told
        _tell(line, error)
        os._exit(1)
    # The results are delivered; taking the interpreter apart would only keep the job waiting.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _tell(line: WorkersEnd, error: BaseException) -> None:
    text = traceback.format_exc()
    try:
        cloudpickle.dumps(error)
    except Exception:  # noqa: BLE001 - not every exception can be pickled, and each says so in its own way
        error = RuntimeError(f"{type(error).__name__}: {error}")
    with contextlib.suppress(OSError):
        line.send(("error", error, text))


if __name__ == "__main__":
    main()
