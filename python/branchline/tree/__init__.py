"""Files, trees and branches, and the arrays that come out of them."""

from branchline.tree.beside import Beside, BesideRange
from branchline.tree.branch import Branch
from branchline.tree.directory import Directory
from branchline.tree.file import File, open
from branchline.tree.iteration import Report, concatenate, iterate, num_entries
from branchline.tree.lazy import LazyRecord
from branchline.tree.nanoevents import NanoEventsMaker, nanoevents
from branchline.tree.stream import Chunk, ChunkStream, SkippedFile, Source, entries_in
from branchline.tree.tree import Tree

__all__ = [
    "Beside",
    "BesideRange",
    "Branch",
    "Chunk",
    "ChunkStream",
    "Directory",
    "File",
    "LazyRecord",
    "NanoEventsMaker",
    "Report",
    "SkippedFile",
    "Source",
    "Tree",
    "concatenate",
    "entries_in",
    "iterate",
    "nanoevents",
    "num_entries",
    "open",
]
