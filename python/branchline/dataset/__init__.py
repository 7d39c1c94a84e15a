"""Datasets: which files, trees and entries a train runs over, in an order that never depends on the machine."""

from branchline.dataset.companions import CompanionsLike
from branchline.dataset.dataset import Dataset
from branchline.dataset.files import DataFile, absolute, storage_element
from branchline.dataset.samples import Sample

__all__ = ["CompanionsLike", "DataFile", "Dataset", "Sample", "absolute", "storage_element"]
