"""Lets workers load modules while their job starts. This module imports little, so that it loads quickly."""

from __future__ import annotations

from branchline.jobs.workers.launcher import load_for_workers


def load_ahead() -> None:
    """Let the fork server load the modules of train workers in the background.

    ``run_train`` calls this function for every train with local worker processes. The `branchline run` command calls it
    earlier, before its own imports: those take most of a second of CPU time, during which the fork server loads the
    modules. The call in ``run_train`` then has nothing left to do.
    """
    load_for_workers("branchline.trains.worker.train_worker")
