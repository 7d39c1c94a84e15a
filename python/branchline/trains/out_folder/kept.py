"""Shows and removes the results of sub-jobs that a directory of results keeps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from branchline.errors import MissingFileError
from branchline.jobs.ledger import LEDGER_NAME, LedgerCount, counts_in, remove_ledger
from branchline.trains.out_folder.lock import claimed


@dataclass(frozen=True)
class KeptResults:
    """The kept results by wagon, and the size of their file."""

    counts: tuple[LedgerCount, ...]
    file_bytes: int

    @property
    def results_count(self) -> int:
        """The number of results."""
        return sum(one.results_count for one in self.counts)

    @property
    def size_bytes(self) -> int:
        """The bytes of all results."""
        return sum(one.size_bytes for one in self.counts)


def kept_results(out: Path) -> KeptResults:
    """The kept results in a directory. Raises MissingFileError if there are none, LedgerError."""
    path = out / LEDGER_NAME
    if not path.is_file():
        raise MissingFileError("nothing is kept here: there is no ledger", path=str(path))
    return KeptResults(tuple(counts_in(path)), path.stat().st_size)


def remove_kept_results(out: Path) -> KeptResults:
    """Removes the kept results and returns what they were; other files stay. Raises BranchlineError during a run."""
    found = kept_results(out)
    with claimed(out, force=True):
        remove_ledger(out)
    return found
