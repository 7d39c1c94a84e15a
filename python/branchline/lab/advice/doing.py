"""Does what advice says: new files beside the old ones, verified against them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from branchline.lab.advice.advise import Advised
from branchline.lab.advice.changes import write_changed
from branchline.reading.datasets.data_file import DataFile


def do(advised: Advised, files: Sequence[DataFile], folder: Path) -> tuple[DataFile, ...]:
    """Writes the files that a piece of advice asks for into a folder, and verifies them; the old ones stay.

    Raises OptionError for advice that is an option and no file, or for files of one name; BadFileError if what was
    written is not the same; and what writing raises.
    """
    return write_changed(advised.change, files, folder, is_verified=True)
