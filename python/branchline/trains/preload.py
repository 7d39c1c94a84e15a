"""Starts loading the modules of workers while the job itself starts. This module imports little, so that it loads
quickly.
"""

from __future__ import annotations

from branchline.jobs.workers.launcher import load_for_workers


def load_ahead() -> None:
    """Let the fork server load the modules of train workers in the background.

    ``run_train`` calls this function for every train with local worker processes. The command `branchline run` calls it
    even before its own imports, which take most of a second of CPU time, so that the fork server loads the modules in
    the meantime. The later call in ``run_train`` then has no effect.
    """
    load_for_workers("branchline.trains.worker.train_worker")
