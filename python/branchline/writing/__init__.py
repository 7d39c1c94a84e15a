"""Writes ROOT files from Python: trees, RNTuples, histograms, texts and directories, with the calls of uproot."""

from branchline.writing.file import WritableDirectory, WritableFile, create, recreate, update
from branchline.writing.graphs import as_TGraph
from branchline.writing.table import WritableTree

__all__ = ["WritableDirectory", "WritableFile", "WritableTree", "as_TGraph", "create", "recreate", "update"]
