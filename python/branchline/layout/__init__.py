"""How files lie on disk: what a tree is made of, where its baskets lie, and what that costs a reader."""

from branchline.layout.datasets import DatasetLayout, inspect_dataset
from branchline.layout.files import BranchLayout, FileLayout, inspect_file
from branchline.layout.places import Places

__all__ = ["BranchLayout", "DatasetLayout", "FileLayout", "Places", "inspect_dataset", "inspect_file"]
