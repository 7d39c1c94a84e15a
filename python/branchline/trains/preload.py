"""Has workers load what they need while their job begins. This module itself loads little."""

from __future__ import annotations

from branchline.jobs.workers.launcher import load_for_workers


def load_ahead() -> None:
    """For processes of this machine that will work on a train.

    ``run_train`` calls it for all who run one. `branchline run` does so before it imports what its settings need: that
    takes most of a second of CPU time, in which the starter loads the same. The second call then finds it loaded.
    """
    load_for_workers("branchline.trains.worker.train_worker")
