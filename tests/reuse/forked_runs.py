"""Runs trains, each in a process forked for it, which imports the modules of the train. Orders are lines of JSON.

Everything that a train imports of Branchline and of libraries is loaded before the forks: most of the CPU time of a
small train is that of its imports.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

import branchline
from branchline.jobs.workers import fork_client, fork_server, launcher
from branchline.records.report import report_page
from branchline.trains.reuse import module_finder
from branchline.trains.subjobs import shares

#: How long a submitted train may take; it only ends what hangs.
SUBMITTED_S = 600
_MODULES = (
    "awkward",
    "boost_histogram",
    "hist",
    "branchline.records.diagnosis.job_advice",
    "branchline.records.output",
    "branchline.records.pictures.svg_pictures",
    "branchline.trains.run",
    "branchline.trains.running.train_run",
    "branchline.trains.worker.train_worker",
    "branchline.writing.objects.histograms",
)

# Each file is a sub-job.
shares.SUBJOB_MIN_BYTES = 16_000


def _run(order: dict[str, Any]) -> dict[str, Any]:
    os.chdir(order["folder"])
    sys.path[:0] = [order["packages"], order["folder"]]
    # That of tasks of a batch system.
    os.environ["PYTHONPATH"] = os.pathsep.join([order["packages"], os.environ.get("PYTHONPATH", "")])
    if order["workers"]:
        _fork_server()
    result = branchline.run(
        "wagons.py",
        "data",
        None if order["out"] is None else Path(order["out"]),
        workers=order["workers"],
        on=order["on"],
        reuse=order["reuse"],
        force=True,
        pictures="none",
    )
    if isinstance(result, branchline.SubmittedTrain):
        result.wait(SUBMITTED_S)
        kept = branchline.load(result.out)
        return {"outputs": dict(kept), "reused": kept.record.subjobs_reused}
    return {"outputs": dict(result.outputs), "reused": result.record.subjobs_reused}


def _fork_server() -> None:
    """Gives the launcher a fork server forked from this process, which has loaded no module of the train yet.

    A server that the launcher starts itself loads the same modules, in a second of CPU time.
    """
    requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        requests.close()
        sys.argv = ["server", str(theirs.fileno())]
        fork_server.main()
        os._exit(0)
    theirs.close()
    requests.settimeout(fork_client.FORK_SERVER_LOOK_S)
    server = launcher._server
    server._requests, server._end, server._inherited = requests, requests.close, fork_client._Inherited.now()


def main() -> None:
    """Serves until there are no more orders."""
    # What a shell starts in the background ignores Ctrl-C. A train does not, so its fork server must not either.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in (*_MODULES, *sys.argv[1:]):
        importlib.import_module(name)
    templates = report_page._environment()
    for name in templates.list_templates():
        templates.get_template(name)
    # Resolves their paths, which are cached.
    list(module_finder._loaded_files())
    # Collectors of the forked processes need not touch, and so copy, what is here.
    gc.collect()
    gc.freeze()
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
