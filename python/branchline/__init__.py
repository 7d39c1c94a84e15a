"""Reads ROOT files of collision events once, for every analysis step, and says where the time went."""

from branchline._core import __version__
from branchline.dataset import Dataset
from branchline.errors import (
    BadFileError,
    BranchlineError,
    DatasetError,
    MissingFileError,
    NoSuchKeyError,
    StorageError,
    UnsupportedBranchError,
    WagonError,
)
from branchline.running import run
from branchline.train import TrainResult, forecast
from branchline.tree import Branch, File, Tree, concatenate, iterate, open

__all__ = [
    "BadFileError",
    "Branch",
    "BranchlineError",
    "Dataset",
    "DatasetError",
    "File",
    "MissingFileError",
    "NoSuchKeyError",
    "StorageError",
    "TrainResult",
    "Tree",
    "UnsupportedBranchError",
    "WagonError",
    "__version__",
    "concatenate",
    "forecast",
    "iterate",
    "open",
    "run",
]
