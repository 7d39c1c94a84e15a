"""Files read through Python libraries: all protocols of fsspec, HDFS, and XRootD servers whose login requires XRootD's
own client.

The compiled module calls `open_by_fsspec`, `open_by_hdfs` and `open_by_xrootd` from its own threads. They return a
`BridgedFile` or raise `BridgeError`. `reading/datasets` lists folders with `list_by_fsspec` and `list_by_hdfs`.
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
