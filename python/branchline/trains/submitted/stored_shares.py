"""The sub-jobs of a submitted train, in files with a few hundred each. A task reads only the files with its own units,
because all sub-jobs of a dataset with a million files need hundreds of MB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, overload

from branchline.base.limits import FOLD_FAN_IN
from branchline.trains.subjobs.shares import Share
from branchline.trains.submitted.submission_folder import BatchFolder, framed, read_framed, write_first

_KIND = "shares"
#: Number of sub-jobs per file, as many as a node of the tree that folds results covers.
SHARES_AT_A_TIME = FOLD_FAN_IN**2
_FILES_KEPT = 2
Slice: TypeAlias = "slice[int | None, int | None, int | None]"


@dataclass(frozen=True)
class _Group:
    """The sub-jobs in a file."""

    shares: tuple[Share, ...]


class StoredShares(Sequence[Share]):
    """The sub-jobs in the folder of a train. Reading one raises MissingFileError, StorageError or BadFileError if its
    file cannot be read. While the output directory is not available, it waits.
    """

    def __init__(self, folder: BatchFolder, count: int) -> None:
        self._folder = folder
        self._count = count
        # The files that were read last, the newest one last.
        self._read: dict[int, tuple[Share, ...]] = {}

    @classmethod
    def write(cls, folder: BatchFolder, shares: Sequence[Share]) -> None:
        """Write sub-jobs, replacing the files of an earlier train. Raises StorageError."""
        for path in folder.shares.iterdir():
            path.unlink()
        for number, start in enumerate(range(0, len(shares), SHARES_AT_A_TIME)):
            group = _Group(tuple(shares[start : start + SHARES_AT_A_TIME]))
            write_first(folder.shares / str(number), framed(_KIND, group), for_all=False)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Share: ...

    @overload
    def __getitem__(self, index: Slice) -> list[Share]: ...

    def __getitem__(self, index: int | Slice) -> Share | list[Share]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(self._count))]
        if not 0 <= index < self._count:
            raise IndexError(f"the train has no sub-job {index}")
        number, position = divmod(index, SHARES_AT_A_TIME)
        if number not in self._read:
            if len(self._read) >= _FILES_KEPT:
                del self._read[next(iter(self._read))]
            path = self._folder.shares / str(number)
            self._read[number] = self._folder.retried(lambda: read_framed(path, _KIND, _Group)).shares
        return self._read[number][position]
