"""Stores the rows of tables in the ledger, next to the other results of their wagon. The pieces of a table are files,
which exist only during a run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from branchline.base.quantities import MB
from branchline.trains.subjobs.share_result import WagonShare
from branchline.trains.tables.piece_writer import name_of_pieces
from branchline.trains.tables.table import Piece, TablePieces, found, replaced
from branchline.trains.tables.table_folder import TableFolder

#: Maximum size of the rows of tables that a run adds to the ledger, and of those of a wagon in a sub-job, which pass
#: through memory. The rows are also in the output directory.
TABLES_KEPT_MAX_BYTES = 2000 * MB
ROWS_KEPT_MAX_BYTES = 100 * MB


def tables_bytes(share: WagonShare) -> int:
    """Return the size of the pieces of all tables in a result."""
    return sum(piece.size_bytes for _, rows in found(share.total, TablePieces) for piece in rows.pieces)


@dataclass(frozen=True)
class KeptTables:
    """A wagon's result for one or more sub-jobs, the first of which has the index ``first``, with the content of the
    pieces by path.
    """

    share: WagonShare
    first: int
    contents: Mapping[str, bytes]

    @classmethod
    def of(cls, share: WagonShare, first: int) -> KeptTables:
        """Read the pieces of a result. Raises OSError, also for a piece that is not complete."""
        pieces = [piece for _, rows in found(share.total, TablePieces) for piece in rows.pieces]
        contents = {one.path: Path(one.path).read_bytes() for one in pieces}
        for one in pieces:
            if len(contents[one.path]) != one.size_bytes:
                raise OSError(f"{one.path} has {len(contents[one.path])} instead of {one.size_bytes} bytes")
        return cls(share, first, contents)

    def restored(self, folder: TableFolder, first: int) -> WagonShare:
        """Write the pieces to the folder of another run, in which the first sub-job has the index ``first``, and return
        the result with these pieces. Raises OSError.
        """

        def write(piece: Piece, name: str) -> Piece:
            below, index = Path(folder.path, name_of_pieces(name)), piece.first - self.first + first
            below.mkdir(exist_ok=True)
            path = below / f"{index:08d}-{os.urandom(6).hex()}{Path(piece.path).suffix}"
            path.write_bytes(self.contents[piece.path])
            return replace(piece, path=str(path), first=index)

        def restore(_key: object, rows: TablePieces) -> TablePieces:
            return replace(rows, pieces=tuple(write(one, rows.name) for one in rows.pieces))

        return replace(self.share, total=replaced(self.share.total, TablePieces, restore))
