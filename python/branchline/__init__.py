"""Read, write and analyse ROOT files of particle physics, and record where the time went."""

# `threading` takes the first thread that imports it for the main thread, which Python waits for at exit. Import it
# here, so that this is never a thread that reads through the bridge.
import threading  # noqa: F401
from typing import TYPE_CHECKING

from branchline import errors as exceptions
from branchline._core import __version__
from branchline.base.imports import lazily
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
    TakenNameError,
    UnreadableBranchWarning,
    UnsupportedBranchError,
    UntrustedFileError,
    WagonError,
)
from branchline.reading.access import Access

if TYPE_CHECKING:
    from branchline.base.text_tables import TextTable
    from branchline.lab.what_if import what_if
    from branchline.reading.dask.collections import dask
    from branchline.reading.datasets.dataset import Dataset
    from branchline.reading.trees.branch import Branch
    from branchline.reading.trees.file import Directory, File, open
    from branchline.reading.trees.iteration import concatenate, iterate, num_entries
    from branchline.reading.trees.nanoevents import nanoevents
    from branchline.reading.trees.tree import Tree
    from branchline.records.sensors.status import TrainStatus
    from branchline.trains.results.datacards import datacard
    from branchline.trains.results.load import Results, load
    from branchline.trains.results.plot import plot
    from branchline.trains.results.result_tables import cutflows, largest_variations, yields
    from branchline.trains.results.systematics import Systematics
    from branchline.trains.results.workspaces import workspace
    from branchline.trains.run import run
    from branchline.trains.run_options import BatchSettings
    from branchline.trains.running.result import TrainResult
    from branchline.trains.submitted.handle import SubmittedTrain
    from branchline.trains.sums.cutflow import Cutflow
    from branchline.trains.tables.table import Table, TableFile
    from branchline.trains.testing.cost_forecast import forecast
    from branchline.trains.wagons.event_random import EventRandom, event_random
    from branchline.trains.wagons.loaded_files import loaded
    from branchline.trains.wagons.luminosity import LumiSections, lumi_mask
    from branchline.trains.wagons.variations import varied
    from branchline.trains.wagons.views import Shared
    from branchline.writing.merging.convert import convert
    from branchline.writing.merging.merge import merge
    from branchline.writing.merging.skim import skim, slim
    from branchline.writing.merging.verify import verify
    from branchline.writing.objects.efficiencies import as_TEfficiency
    from branchline.writing.objects.graphs import as_TGraph
    from branchline.writing.objects.sparse_histograms import as_THnSparse
    from branchline.writing.recreate.writable_file import WritableDirectory, WritableFile, create, recreate, update
    from branchline.writing.recreate.writable_tree import WritableTree

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
    "EventRandom",
    "ExpressionError",
    "File",
    "InternalError",
    "KeyInFileError",
    "LumiSections",
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
    "Systematics",
    "Table",
    "TableError",
    "TableFile",
    "TakenNameError",
    "TextTable",
    "TrainResult",
    "TrainStatus",
    "Tree",
    "UnreadableBranchWarning",
    "UnsupportedBranchError",
    "UntrustedFileError",
    "WagonError",
    "WritableDirectory",
    "WritableFile",
    "WritableTree",
    "__version__",
    "as_TEfficiency",
    "as_TGraph",
    "as_THnSparse",
    "concatenate",
    "convert",
    "create",
    "cutflows",
    "dask",
    "datacard",
    "event_random",
    "exceptions",
    "forecast",
    "iterate",
    "largest_variations",
    "load",
    "loaded",
    "lumi_mask",
    "merge",
    "nanoevents",
    "num_entries",
    "open",
    "plot",
    "recreate",
    "run",
    "skim",
    "slim",
    "update",
    "varied",
    "verify",
    "what_if",
    "workspace",
    "yields",
]

# Names in uproot's module that Branchline lacks, with hints for replacing them.
_INSTEAD = {
    "lazy": "branchline.dask reads what a computation needs, branchline.iterate reads in steps",
    "TTree": "branchline.Tree",
    "TBranch": "branchline.Branch",
    "ReadOnlyFile": "branchline.File",
    "ReadOnlyDirectory": "branchline.Directory",
    "interpretation": "a branch has only one interpretation; convert the arrays after reading them",
    "AsDtype": "a branch has only one interpretation; convert the arrays after reading them",
    "AsJagged": "a branch has only one interpretation; convert the arrays after reading them",
    "AsObjects": "a branch has only one interpretation; convert the arrays after reading them",
}


_find = lazily(
    __name__,
    {
        "branchline.base.text_tables": ("TextTable",),
        "branchline.lab.what_if": ("what_if",),
        "branchline.reading.dask.collections": ("dask",),
        "branchline.reading.datasets.dataset": ("Dataset",),
        "branchline.reading.trees.branch": ("Branch",),
        "branchline.reading.trees.file": ("Directory", "File", "open"),
        "branchline.reading.trees.iteration": ("concatenate", "iterate", "num_entries"),
        "branchline.reading.trees.nanoevents": ("nanoevents",),
        "branchline.reading.trees.tree": ("Tree",),
        "branchline.records.sensors.status": ("TrainStatus",),
        "branchline.trains.run_options": ("BatchSettings",),
        "branchline.trains.results.load": ("Results", "load"),
        "branchline.trains.results.datacards": ("datacard",),
        "branchline.trains.results.plot": ("plot",),
        "branchline.trains.results.result_tables": ("cutflows", "largest_variations", "yields"),
        "branchline.trains.results.systematics": ("Systematics",),
        "branchline.trains.results.workspaces": ("workspace",),
        "branchline.trains.run": ("run",),
        "branchline.trains.running.result": ("TrainResult",),
        "branchline.trains.submitted.handle": ("SubmittedTrain",),
        "branchline.trains.sums.cutflow": ("Cutflow",),
        "branchline.trains.tables.table": ("Table", "TableFile"),
        "branchline.trains.testing.cost_forecast": ("forecast",),
        "branchline.trains.wagons.event_random": ("EventRandom", "event_random"),
        "branchline.trains.wagons.loaded_files": ("loaded",),
        "branchline.trains.wagons.luminosity": ("LumiSections", "lumi_mask"),
        "branchline.trains.wagons.views": ("Shared",),
        "branchline.trains.wagons.variations": ("varied",),
        "branchline.writing.merging.convert": ("convert",),
        "branchline.writing.merging.merge": ("merge",),
        "branchline.writing.merging.skim": ("skim", "slim"),
        "branchline.writing.merging.verify": ("verify",),
        "branchline.writing.objects.efficiencies": ("as_TEfficiency",),
        "branchline.writing.objects.graphs": ("as_TGraph",),
        "branchline.writing.objects.sparse_histograms": ("as_THnSparse",),
        "branchline.writing.recreate.writable_file": (
            "WritableDirectory",
            "WritableFile",
            "create",
            "recreate",
            "update",
        ),
        "branchline.writing.recreate.writable_tree": ("WritableTree",),
    },
)


def __getattr__(name: str) -> object:
    if name in _INSTEAD:
        raise NotHereError(f"branchline has no {name}", hint=_INSTEAD[name])
    return _find(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
