"""Tree: our handle on a TTree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from branchline.errors import NoSuchKeyError
from branchline.limits import parse_bytes
from branchline.tree.arrays import Library, array_of, check_library, group_of, join
from branchline.tree.branch import Branch
from branchline.tree.names import name_filter, with_near_names
from branchline.tree.show import table
from branchline.tree.stream import ChunkStream, Source, check_entries, check_workers


class Tree:
    """Columns of events in a file. ``tree["branch"]`` is a Branch; reading is done by ``arrays`` and ``iterate``."""

    def __init__(self, core: Any, path: str) -> None:
        self._core = core
        self.file_path = path
        self.path: str = core.path
        self.name: str = self.path.rsplit("/", 1)[-1]
        self.title: str = core.title
        self.entries_count: int = core.entries_count
        self._paths: list[str] = core.paths()
        self._branches: dict[int, Branch] = {}

    def __repr__(self) -> str:
        return f"<Tree {self.path!r} of {self.file_path}: {len(self._paths)} branches, {self.entries_count} entries>"

    def __len__(self) -> int:
        return self.entries_count

    @property
    def num_entries(self) -> int:
        """Entries, under uproot's name."""
        return self.entries_count

    def keys(self, *, filter_name: Any = None, recursive: bool = True) -> list[str]:
        """Paths of the branches, a parent before its children."""
        keep = name_filter(filter_name)
        paths = self._paths if recursive else [path for path in self._paths if "/" not in path]
        return [path for path in paths if keep(path) or keep(path.rsplit("/", 1)[-1])]

    def values(self) -> list[Branch]:
        """The branches."""
        return [self._branch(index) for index in range(len(self._paths))]

    def items(self) -> list[tuple[str, Branch]]:
        """Paths and branches."""
        return list(zip(self._paths, self.values(), strict=True))

    def typenames(self) -> dict[str, str]:
        """C++ types of the branches."""
        return {path: branch.typename for path, branch in self.items()}

    @property
    def branches(self) -> list[Branch]:
        """The branches."""
        return self.values()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        try:
            self[str(name)]
        except NoSuchKeyError:
            return False
        return True

    def __getitem__(self, name: str) -> Branch:
        """A branch by its path, or by its name if only one has it. Raises NoSuchKeyError."""
        with with_near_names(name, self._core.paths):
            return self._branch(self._core.find(name))

    def _branch(self, index: int) -> Branch:
        if index not in self._branches:
            self._branches[index] = Branch(self, self._core.branch(index))
        return self._branches[index]

    def show(self, *, file: Any = None) -> None:
        """Prints branch, type, entries, baskets, compressed and plain size of every branch."""
        print(table(self), file=file)

    def arrays(
        self,
        expressions: str | Sequence[str] | None = None,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        *,
        filter_name: Any = None,
        library: Library = "ak",
        workers: int | None = None,
        memory_limit: int | str = "1 GiB",
    ) -> Any:
        """Branches (all that can be read) over a range of entries, together.

        ``"ak"`` gives a record array, ``"np"`` a dict of arrays, ``"arrow"`` a table, ``"pd"`` a frame. ``workers`` is
        the number of decoding threads. Beside the result at most the memory limit is needed, unless what is stored
        exceeds it: then the parts are joined, and there must be room for them twice. Raises NoSuchKeyError,
        UnsupportedBranchError, BadFileError, StorageError.
        """
        check_library(library)
        names = self.named(expressions, filter_name)
        parts = self.column_parts(list(names.values()), entry_start, entry_stop, workers, memory_limit)
        return parts.group(names, library)

    def iterate(
        self,
        expressions: str | Sequence[str] | None = None,
        *,
        filter_name: Any = None,
        step_size: int | str = "100 MB",
        entry_start: int | None = None,
        entry_stop: int | None = None,
        library: Library = "ak",
        workers: int | None = None,
        memory_limit: int | str = "1 GiB",
        report: bool = False,
    ) -> Iterator[Any]:
        """Branches in steps of entries (an int) or bytes (as "100 MB"). As uproot's ``iterate``."""
        from branchline.tree.iteration import steps

        check_library(library)
        start, stop = check_entries(entry_start, entry_stop, self.entries_count)
        names = self.named(expressions, filter_name)
        return steps(
            [self.source(start, stop)],
            list(names.values()),
            lambda _: names,
            step_size=step_size,
            library=library,
            workers=workers,
            memory_limit=memory_limit,
            report=report,
        )

    def named(self, expressions: str | Sequence[str] | None, filter_name: Any = None) -> dict[str, str]:
        """Field names and the paths that they stand for; the names are those asked for, else the branches' own."""
        if expressions is None:
            return short_names([path for path in self._core.readable() if _is_kept(path, filter_name)])
        wanted = [expressions] if isinstance(expressions, str) else list(expressions)
        keep = name_filter(filter_name)
        return {name: self[name].path for name in wanted if filter_name is None or keep(name)}

    def basket_borders(self) -> list[int]:
        """Entries at which the baskets of the branch with most bytes begin."""
        borders: list[int] = self._core.basket_borders()
        return borders

    def source(self, entry_start: int = 0, entry_stop: int | None = None) -> Source:
        """A range of its entries as a source of a stream, which reads without opening it again."""
        return Source(self.file_path, self.path, entry_start, entry_stop, self._core)

    def column_parts(
        self,
        paths: Sequence[str],
        entry_start: int | None,
        entry_stop: int | None,
        workers: int | None,
        memory_limit: int | str,
    ) -> ColumnParts:
        """Reads branches over a range of entries: at once if what is stored of it fits the memory limit, so that the
        values are decoded where they stay; else chunk by chunk.
        """
        for path in paths:
            self._core.check_readable(path)
        start, stop = check_entries(entry_start, entry_stop, self.entries_count)
        unique = list(dict.fromkeys(paths))
        if start == stop:
            return ColumnParts([(0, dict(zip(unique, self._core.empty_columns(unique), strict=True)))])
        stored_bytes = self._core.bytes_per_entry([self._core.find(path) for path in unique])[0] * (stop - start)
        with ChunkStream(
            [self.source(start, stop)],
            unique,
            step_size=stop - start if stored_bytes <= parse_bytes(memory_limit) else "1 TB",
            threads=check_workers(workers),
            memory_limit=memory_limit,
        ) as stream:
            return ColumnParts([(len(chunk), {path: chunk.column(path) for path in unique}) for chunk in stream])


class ColumnParts:
    """The columns of the chunks of one reading, joined when an array is wanted."""

    def __init__(self, parts: list[tuple[int, dict[str, Any]]]) -> None:
        self._parts = parts

    def single(self, path: str, library: str) -> Any:
        """One branch."""
        return join([array_of(columns[path], library) for _, columns in self._parts], library)

    def group(self, names: dict[str, str], library: str) -> Any:
        """Several branches under these names."""
        groups = []
        for entries_count, columns in self._parts:
            named = {name: columns[path] for name, path in names.items()}
            groups.append(group_of(named, entries_count, library))
        return join(groups, library)


def _is_kept(path: str, filter_name: Any) -> bool:
    keep = name_filter(filter_name)
    return keep(path) or keep(path.rsplit("/", 1)[-1])


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """Paths under the branches' own names, or under the whole path where two have the same."""
    own = [path.rsplit("/", 1)[-1] for path in paths]
    counts = Counter(own)
    return {name if counts[name] == 1 else path: path for name, path in zip(own, paths, strict=True)}
