"""The first trees of a dataset, looked at before a train begins: whether they have what the wagons name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from branchline.base.limits import LOOK_FILES
from branchline.errors import FILE_ERRORS, BranchlineError, NoSuchKeyError, UnsupportedBranchError
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.trees.tree import Tree
from branchline.records.sensors.record import FileRecord, WagonFault
from branchline.trains.subjobs.share_records import opening_of
from branchline.trains.subjobs.shares import ChunkSizes, ReadSizes, chunk_sizes, open_tree
from branchline.trains.wagons.faults import because_of
from branchline.trains.wagons.wagons import Wagon


class FirstTrees:
    """The tree of the first file; if bad files are skipped, those of the first files that have one."""

    def __init__(self, files: Sequence[DataFile], *, skip_bad_files: bool, access: Access | None = None) -> None:
        self._files = files
        self._access = access
        self._skip_bad_files = skip_bad_files
        self._opened: list[Tree] | None = None

    def faults_of(
        self, wagons: Sequence[Wagon], check: Callable[[Wagon], BranchlineError | None] = lambda _: None
    ) -> dict[str, WagonFault]:
        """The wagons that cannot run, for they name branches that are not there, do not pass the ``check``, or require
        one that cannot run.

        Raises the error of the first of them if there is no other wagon, and what opening a file raises.
        """
        faults: dict[str, WagonFault] = {}
        first_error: BranchlineError | None = None
        for wagon in wagons:
            stopped = [name for name in wagon.requires if name in faults]
            error = self._error_of(wagon) or check(wagon)
            if error is not None:
                faults[wagon.name] = WagonFault(type(error).__name__, str(error))
                first_error = first_error or error
            elif stopped:
                faults[wagon.name] = because_of(stopped[0])
        if first_error is not None and len(faults) == len(wagons):
            first_error.what = f"wagon {next(iter(faults))!r} {first_error.what}"
            raise first_error
        return faults

    def sizes(self, branches: Sequence[str], step_size: int | str | None, memory_limit_bytes: int) -> ChunkSizes:
        """How the dataset is cut, by the first tree that has all these branches."""
        for tree in self._trees():
            try:
                return chunk_sizes(ReadSizes.of(tree, branches), step_size, memory_limit_bytes)
            except NoSuchKeyError:
                if not self._skip_bad_files:
                    raise
        return ChunkSizes.of_unknown(step_size)

    def records(self) -> list[FileRecord]:
        """What the look took, by file."""
        return [record for tree in self._opened or () for record in opening_of(tree)]

    def _error_of(self, wagon: Wagon) -> BranchlineError | None:
        """Why a wagon's branches cannot be read from any of the trees; None if they can from one."""
        error: BranchlineError | None = None
        for tree in self._trees() if wagon.branches else ():
            found = _error_in(tree, wagon.branches or ())
            if found is None:
                return None
            error = error or found
        return error

    def _trees(self) -> Iterator[Tree]:
        if self._opened is None:
            self._opened = list(self._open())
        yield from self._opened

    def _open(self) -> Iterator[Tree]:
        found = 0
        for one in self._files:
            try:
                yield open_tree(one, self._access)
            except FILE_ERRORS:
                if not self._skip_bad_files:
                    raise
                continue
            found += 1
            if found == (LOOK_FILES if self._skip_bad_files else 1):
                return


def _error_in(tree: Tree, branches: Sequence[str]) -> BranchlineError | None:
    for name in branches:
        try:
            tree.check_readable(tree[name].path)
        except (NoSuchKeyError, UnsupportedBranchError) as error:
            return type(error)(f"names a branch that cannot be read: {error}", path=error.path)
    return None
