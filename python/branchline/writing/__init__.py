"""Writes ROOT files from Python: trees, RNTuples, histograms, texts and directories, with the calls of uproot."""

from branchline.writing.efficiencies import NewEfficiency, as_TEfficiency
from branchline.writing.file import WritableDirectory, WritableFile, create, recreate, update
from branchline.writing.graphs import as_TGraph
from branchline.writing.sparse import NewSparse, as_THnSparse
from branchline.writing.table import WritableTree

__all__ = [
    "NewEfficiency",
    "NewSparse",
    "WritableDirectory",
    "WritableFile",
    "WritableTree",
    "as_TEfficiency",
    "as_TGraph",
    "as_THnSparse",
    "create",
    "recreate",
    "update",
]
