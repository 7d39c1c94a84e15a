"""Reads ROOT files of collision events once, for every analysis step, and says where the time went."""

# The first thread that imports it counts as the main one, which Python waits for at its end: that is not to be a thread
# that reads through the bridge.
import sys
import threading  # noqa: F401
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from branchline import errors as exceptions
from branchline._core import __version__
from branchline.access import Access
from branchline.errors import (
    BadFileError,
    BatchError,
    BranchlineError,
    BranchlineWarning,
    DatasetError,
    ExpressionError,
    InternalError,
    KeyInFileError,
    MemoryLimitError,
    MissingFileError,
    MissingPackageError,
    NoSuchKeyError,
    NotHereError,
    OptionError,
    PartialResultError,
    PartialResultWarning,
    RecoveredFileWarning,
    ReportWarning,
    SkippedFileWarning,
    StorageError,
    StuckError,
    TableError,
    UnreadableBranchWarning,
    UnsupportedBranchError,
    WagonError,
)
from branchline.lazily import lazily

if TYPE_CHECKING:
    from branchline.dataset import Dataset
    from branchline.delayed import dask
    from branchline.forecast.asking import what_if
    from branchline.results import Results, load, plot, workspace
    from branchline.running import run
    from branchline.running.batch_settings import BatchSettings
    from branchline.running.submitted import SubmittedTrain
    from branchline.sensors import TrainStatus
    from branchline.tables import Table, TableFile
    from branchline.train import Cutflow, Shared, TrainResult, forecast, varied
    from branchline.tree import Branch, Directory, File, Tree, concatenate, iterate, num_entries, open
    from branchline.tree.nanoevents import nanoevents
    from branchline.writing import (
        WritableDirectory,
        WritableFile,
        WritableTree,
        as_TEfficiency,
        as_TGraph,
        as_THnSparse,
        create,
        recreate,
        update,
    )

__all__ = [
    "Access",
    "BadFileError",
    "BatchError",
    "BatchSettings",
    "Branch",
    "BranchlineError",
    "BranchlineWarning",
    "Cutflow",
    "Dataset",
    "DatasetError",
    "Directory",
    "ExpressionError",
    "File",
    "InternalError",
    "KeyInFileError",
    "MemoryLimitError",
    "MissingFileError",
    "MissingPackageError",
    "NoSuchKeyError",
    "NotHereError",
    "OptionError",
    "PartialResultError",
    "PartialResultWarning",
    "RecoveredFileWarning",
    "ReportWarning",
    "Results",
    "Shared",
    "SkippedFileWarning",
    "StorageError",
    "StuckError",
    "SubmittedTrain",
    "Table",
    "TableError",
    "TableFile",
    "TrainResult",
    "TrainStatus",
    "Tree",
    "UnreadableBranchWarning",
    "UnsupportedBranchError",
    "WagonError",
    "WritableDirectory",
    "WritableFile",
    "WritableTree",
    "__version__",
    "as_TEfficiency",
    "as_TGraph",
    "as_THnSparse",
    "concatenate",
    "create",
    "dask",
    "exceptions",
    "forecast",
    "iterate",
    "load",
    "nanoevents",
    "num_entries",
    "open",
    "plot",
    "recreate",
    "run",
    "update",
    "varied",
    "what_if",
    "workspace",
]

# What scripts look for in uproot's module, and what does the same here.
_INSTEAD = {
    "lazy": "branchline.dask reads what a computation needs, branchline.iterate reads in steps",
    "TTree": "branchline.Tree",
    "TBranch": "branchline.Branch",
    "ReadOnlyFile": "branchline.File",
    "ReadOnlyDirectory": "branchline.Directory",
    "interpretation": "branches have one interpretation, which is theirs; convert the arrays that are read",
    "AsDtype": "branches have one interpretation, which is theirs; convert the arrays that are read",
    "AsJagged": "branches have one interpretation, which is theirs; convert the arrays that are read",
    "AsObjects": "branches have one interpretation, which is theirs; convert the arrays that are read",
}


_find = lazily(
    __name__,
    {
        "branchline.dataset": ("Dataset",),
        "branchline.delayed": ("dask",),
        "branchline.forecast.asking": ("what_if",),
        "branchline.running": ("run",),
        "branchline.running.batch_settings": ("BatchSettings",),
        "branchline.results": ("Results", "load", "plot", "workspace"),
        "branchline.running.submitted": ("SubmittedTrain",),
        "branchline.sensors": ("TrainStatus",),
        "branchline.tables": ("Table", "TableFile"),
        "branchline.train": ("Cutflow", "Shared", "TrainResult", "forecast", "varied"),
        "branchline.tree": (
            "Branch",
            "Directory",
            "File",
            "Tree",
            "concatenate",
            "iterate",
            "nanoevents",
            "num_entries",
            "open",
        ),
        "branchline.writing": (
            "WritableDirectory",
            "WritableFile",
            "WritableTree",
            "as_TEfficiency",
            "as_THnSparse",
            "as_TGraph",
            "create",
            "recreate",
            "update",
        ),
    },
)


def __getattr__(name: str) -> Any:
    if name in _INSTEAD:
        raise NotHereError(f"branchline has no {name}", hint=_INSTEAD[name])
    return _find(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Root(ModuleType):
    """The package, in which ``forecast`` is the function: importing the room of that name does not replace it."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name == "forecast" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        # cloudpickle knows modules by their exact type: a wagon of a notebook that uses this one could not travel.
        return import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Root
