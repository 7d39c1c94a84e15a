"""The public names: adding one is deliberate, and removing one needs a deprecation (docs/reference/versioning.md)."""

from __future__ import annotations

import branchline
import branchline.trains

ROOT = [
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

TRAINS = ["add"]


def test_the_package_has_these_public_names() -> None:
    assert sorted(branchline.__all__) == ROOT
    assert all(getattr(branchline, name) is not None for name in ROOT)


def test_trains_have_these_public_names() -> None:
    assert sorted(branchline.trains.__all__) == TRAINS
    assert all(getattr(branchline.trains, name) is not None for name in TRAINS)
