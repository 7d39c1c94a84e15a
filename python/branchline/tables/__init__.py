"""Tables that wagons return: rows that become one TTree, one RNTuple or one Parquet dataset of the train."""

from typing import TYPE_CHECKING

from branchline.lazily import lazily

if TYPE_CHECKING:
    from branchline.tables.folder import TableFolder
    from branchline.tables.pieces import Piece, TableFile, TablePieces
    from branchline.tables.table import Table

__all__ = ["Piece", "Table", "TableFile", "TableFolder", "TablePieces"]

__getattr__ = lazily(
    __name__,
    {
        "branchline.tables.folder": ("TableFolder",),
        "branchline.tables.pieces": ("Piece", "TableFile", "TablePieces"),
        "branchline.tables.table": ("Table",),
    },
)
