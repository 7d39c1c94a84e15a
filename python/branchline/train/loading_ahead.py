"""Has workers load what they need while their job begins. This module itself loads little."""

from __future__ import annotations

from branchline.jobs import load_for_workers


def load_ahead() -> None:
    """For processes of this machine that will work on a train."""
    load_for_workers("branchline.train.work")
