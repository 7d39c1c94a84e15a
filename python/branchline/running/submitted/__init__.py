"""Trains that are submitted to a batch system: the directory of results is all that their jobs share."""

from branchline.running.submitted.handle import SubmittedTrain
from branchline.running.submitted.submitting import submit

__all__ = ["SubmittedTrain", "submit"]
