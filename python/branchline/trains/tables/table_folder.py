"""The folder for rows of tables during a run, and the folder for the final files."""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

from branchline.errors import StorageError

#: Name of the folder of tables in the output directory.
TABLES = "tables"
#: Prefix of the name of the folder of pieces, which exists only during a run.
PIECES = ".pieces-"


@dataclass(frozen=True)
class TableFolder:
    """The folder for pieces of tables in a run into the directory ``out``. All workers must be able to access the
    folder.

    If ``path`` is empty, rows are only counted, as in a trial. If ``refused`` is set, tables are rejected, and
    ``refused`` is the reason. With ``keeps``, merged pieces are not removed, because sub-jobs of the train may be
    submitted again.
    """

    path: str = ""
    out: str = ""
    refused: str = ""
    keeps: bool = False

    @classmethod
    def below(cls, out: Path) -> TableFolder:
        """Return a new folder for a run into ``out``, without creating it on disk."""
        return cls(str(out.absolute() / f"{PIECES}{uuid.uuid4().hex[:12]}"), str(out.absolute()))

    def make(self) -> None:
        """Create the folder. Raises StorageError."""
        if self.path:
            try:
                os.mkdir(self.path)
            except OSError as error:
                raise StorageError(f"cannot create the folder: {error.strerror}", path=self.path) from None

    def remove(self) -> None:
        """Remove the folder with its contents."""
        if self.path:
            shutil.rmtree(self.path, ignore_errors=True)


def clear_tables(out: Path) -> None:
    """Remove the tables of earlier trains from a directory, and the pieces of runs that died."""
    for folder in (out / TABLES, *out.glob(f"{PIECES}*")):
        shutil.rmtree(folder, ignore_errors=True)
