"""Files that libraries of Python read for us: anything that fsspec knows, HDFS, and XRootD where its own client must
log in.

The compiled module calls `open_by_fsspec`, `open_by_hdfs` and `open_by_xrootd` from threads of its own. They give a
`BridgedFile` and raise `BridgeError`. `reading/datasets` lists folders with `list_by_fsspec` and `list_by_hdfs`.
"""

from branchline.reading.bridge.bridged_file import BridgedFile, BridgeError, ListedFile, in_time
from branchline.reading.bridge.fsspec_files import list_by_fsspec, open_by_fsspec
from branchline.reading.bridge.hdfs_files import HeldBytes, list_by_hdfs, locate_by_hdfs, open_by_hdfs
from branchline.reading.bridge.xrootd_files import locate_by_xrootd, open_by_xrootd

__all__ = [
    "BridgeError",
    "BridgedFile",
    "HeldBytes",
    "ListedFile",
    "in_time",
    "list_by_fsspec",
    "list_by_hdfs",
    "locate_by_hdfs",
    "locate_by_xrootd",
    "open_by_fsspec",
    "open_by_hdfs",
    "open_by_xrootd",
]
