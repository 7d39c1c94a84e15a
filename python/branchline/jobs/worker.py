"""A worker process: ``main``, called by a new Python, talks over the socket that it inherits as its argument.

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
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle

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


def serve(connection: Connection) -> None:
    """Works until there are no more sub-jobs or the other side is gone."""
    number, path, modules, pickled = cloudpickle.loads(connection.recv_bytes())
    sys.path[:] = path
    _load_all(modules)
    work: Work = cloudpickle.loads(pickled)

    def draw(wait: bool) -> SubJob | Wait | None:
        connection.send_bytes(cloudpickle.dumps(("draw", wait)))
        drawn: SubJob | Wait | None = cloudpickle.loads(connection.recv_bytes())
        return drawn

    interruption = Interruption(patient=True)
    with interruption.installed():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        for message in work(Context(number, draw, interruption)):
            if isinstance(message, Finished):
                content = ("finished", message.index, cloudpickle.dumps(message.value))
                connection.send_bytes(cloudpickle.dumps(content))
            else:
                connection.send_bytes(cloudpickle.dumps(("note", message.value)))
        connection.send_bytes(cloudpickle.dumps(("bye",)))


def _load_all(modules: Sequence[tuple[str, str]]) -> None:
    for name, path in modules:
        load_module(name, path)


def main() -> None:
    """Entry point of the process."""
    connection = Connection(int(sys.argv[1]))
    try:
        serve(connection)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(1)  # The job is gone: nobody is left to tell.
    except BaseException as error:  # noqa: BLE001 - whatever ends a worker is told
        _tell(connection, error)
        os._exit(1)
    # The results are delivered; taking the interpreter apart would only keep the job waiting.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _tell(connection: Connection, error: BaseException) -> None:
    text = traceback.format_exc()
    try:
        content = cloudpickle.dumps(("error", error, text))
    except Exception:  # noqa: BLE001 - not every exception can be pickled, and each says so in its own way
        content = cloudpickle.dumps(("error", RuntimeError(f"{type(error).__name__}: {error}"), text))
    with contextlib.suppress(OSError):
        connection.send_bytes(content)


if __name__ == "__main__":
    main()
