"""How files lie on disk: what a tree is made of, where its baskets lie, what that costs a reader; and merged ones."""

from branchline.layout.datasets import DatasetLayout, inspect_dataset
from branchline.layout.files import BranchLayout, FileLayout, inspect_file
from branchline.layout.merging import MergeProgress, MergeResult, SkippedFile, merge
from branchline.layout.places import Places

__all__ = [
    "BranchLayout",
    "DatasetLayout",
    "FileLayout",
    "MergeProgress",
    "MergeResult",
    "Places",
    "SkippedFile",
    "inspect_dataset",
    "inspect_file",
    "merge",
]
