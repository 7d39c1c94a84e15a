"""Files, trees and branches, and the arrays that come out of them."""

from branchline.locations import is_parquet
from branchline.tree.branch import Branch
from branchline.tree.companion_files import CompanionFile, CompanionRange
from branchline.tree.file import Directory, File, open
from branchline.tree.iteration import concatenate, iterate, num_entries
from branchline.tree.lazy import LazyRecord
from branchline.tree.nanoevents import NanoEventsMaker, nanoevents
from branchline.tree.nesting import Group
from branchline.tree.request import ReadRequest
from branchline.tree.sources import SkippedFile, Source
from branchline.tree.steps import Report
from branchline.tree.stream import Chunk, ChunkStream
from branchline.tree.stream_records import BranchReading, FileReading, ReaderWait, ReplicaReading, StreamRecords
from branchline.tree.tree import Tree

__all__ = [
    "Branch",
    "BranchReading",
    "Chunk",
    "ChunkStream",
    "CompanionFile",
    "CompanionRange",
    "Directory",
    "File",
    "FileReading",
    "Group",
    "LazyRecord",
    "NanoEventsMaker",
    "ReadRequest",
    "ReaderWait",
    "ReplicaReading",
    "Report",
    "SkippedFile",
    "Source",
    "StreamRecords",
    "Tree",
    "concatenate",
    "is_parquet",
    "iterate",
    "nanoevents",
    "num_entries",
    "open",
]
