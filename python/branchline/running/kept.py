"""What the directory for results keeps of sub-jobs: shown and removed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from branchline.errors import MissingFileError
from branchline.jobs.ledger import LEDGER_NAME, LedgerCount, counts_in, remove_ledger
from branchline.running.claim import claimed


@dataclass(frozen=True)
class KeptResults:
    """What is kept, by the names of wagons, and the size of the file that it is in."""

    counts: tuple[LedgerCount, ...]
    file_bytes: int

    @property
    def results_count(self) -> int:
        """How many results there are."""
        return sum(one.results_count for one in self.counts)

    @property
    def size_bytes(self) -> int:
        """The bytes of all of them."""
        return sum(one.size_bytes for one in self.counts)


def kept_results(out: Path) -> KeptResults:
    """What is kept in a directory for results. Raises MissingFileError if that is nothing, LedgerError."""
    path = out / LEDGER_NAME
    if not path.is_file():
        raise MissingFileError("nothing is kept here: there is no ledger", path=str(path))
    return KeptResults(tuple(counts_in(path)), path.stat().st_size)


def remove_kept_results(out: Path) -> KeptResults:
    """Removes what is kept, and says what it was; results stay. Raises BranchlineError while a run is at work."""
    found = kept_results(out)
    with claimed(out, force=True):
        remove_ledger(out)
    return found
