"""Reads ROOT files of collision events once, for every analysis step, and says where the time went."""

from branchline._core import __version__
from branchline.dataset import Dataset
from branchline.running import run
from branchline.train import TrainResult, forecast
from branchline.tree import Branch, File, Tree, concatenate, iterate, open

__all__ = [
    "Branch",
    "Dataset",
    "File",
    "TrainResult",
    "Tree",
    "__version__",
    "concatenate",
    "forecast",
    "iterate",
    "open",
    "run",
]
