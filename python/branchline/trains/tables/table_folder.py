"""Where the rows of tables go while a train runs, and their files at the end."""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

from branchline.errors import StorageError

#: The folder of tables in the directory of results.
TABLES = "tables"
#: What the folder of pieces begins with; it is there only while a train runs.
PIECES = ".pieces-"


@dataclass(frozen=True)
class TableFolder:
    """The folder of pieces of tables of the results in ``out``; every worker must see it. Without a ``path`` rows are
    only counted, as in a trial, or refused if ``refused`` says why. With ``keeps`` pieces stay when they are merged,
    as for a train of which sub-jobs may be sent again.
    """

    path: str = ""
    out: str = ""
    refused: str = ""
    keeps: bool = False

    @classmethod
    def below(cls, out: Path) -> TableFolder:
        """A folder of its own for a run into ``out``; it is not made yet."""
        return cls(str(out.absolute() / f"{PIECES}{uuid.uuid4().hex[:12]}"), str(out.absolute()))

    def make(self) -> None:
        """Makes it. Raises StorageError."""
        if self.path:
            try:
                os.mkdir(self.path)
            except OSError as error:
                raise StorageError(f"cannot be made: {error.strerror}", path=self.path) from None

    def remove(self) -> None:
        """Removes it, with all that is left in it."""
        if self.path:
            shutil.rmtree(self.path, ignore_errors=True)


def clear_tables(out: Path) -> None:
    """Removes what trains left in a directory: tables, and pieces of runs that died."""
    for folder in (out / TABLES, *out.glob(f"{PIECES}*")):
        shutil.rmtree(folder, ignore_errors=True)
