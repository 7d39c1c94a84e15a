"""Files that libraries of Python read for us: anything that fsspec knows, HDFS, and XRootD where its own client must
log in.

The compiled module asks here, from threads of its own: `open_by_fsspec`, `open_by_hdfs` and `open_by_xrootd` give a
`CarriedFile`, and raise `CarrierError`. What is in a folder is asked by the room `dataset`.
"""

from branchline.bridge.carried import CarriedFile, CarrierError, in_time
from branchline.bridge.fsspec_files import list_by_fsspec, open_by_fsspec
from branchline.bridge.hdfs_files import list_by_hdfs, open_by_hdfs
from branchline.bridge.xrootd_files import open_by_xrootd

__all__ = [
    "CarriedFile",
    "CarrierError",
    "in_time",
    "list_by_fsspec",
    "list_by_hdfs",
    "open_by_fsspec",
    "open_by_hdfs",
    "open_by_xrootd",
]
