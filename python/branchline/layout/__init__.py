"""How files lie on disk, and what writes them: inspect, merge, skim, slim, convert, verify."""

from typing import TYPE_CHECKING

from branchline.lazily import lazily

if TYPE_CHECKING:
    from branchline.layout.converting import ConvertResult, convert
    from branchline.layout.datasets import DatasetLayout, inspect_dataset
    from branchline.layout.extents import Extents
    from branchline.layout.files import BranchLayout, FileLayout, inspect_file
    from branchline.layout.filled import FilledBranch
    from branchline.layout.merging import MergeProgress, MergeResult, SkippedFile, merge
    from branchline.layout.skimming import skim, slim
    from branchline.layout.targets import ConvertProgress
    from branchline.layout.verifying import Verification, VerifiedTree, verify

__all__ = [
    "BranchLayout",
    "ConvertProgress",
    "ConvertResult",
    "DatasetLayout",
    "Extents",
    "FileLayout",
    "FilledBranch",
    "MergeProgress",
    "MergeResult",
    "SkippedFile",
    "Verification",
    "VerifiedTree",
    "convert",
    "inspect_dataset",
    "inspect_file",
    "merge",
    "skim",
    "slim",
    "verify",
]

__getattr__ = lazily(
    __name__,
    {
        "branchline.layout.converting": ("ConvertResult", "convert"),
        "branchline.layout.datasets": ("DatasetLayout", "inspect_dataset"),
        "branchline.layout.filled": ("FilledBranch",),
        "branchline.layout.files": ("BranchLayout", "FileLayout", "inspect_file"),
        "branchline.layout.skimming": ("skim", "slim"),
        "branchline.layout.merging": ("MergeProgress", "MergeResult", "SkippedFile", "merge"),
        "branchline.layout.extents": ("Extents",),
        "branchline.layout.verifying": ("Verification", "VerifiedTree", "verify"),
        "branchline.layout.targets": ("ConvertProgress",),
    },
)
