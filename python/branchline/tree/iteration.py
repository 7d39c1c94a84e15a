"""Reading many files in steps: ``iterate`` and ``concatenate``."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from branchline.errors import DatasetError
from branchline.tree.arrays import Library, check_library, group_of, join
from branchline.tree.file import File, split_location
from branchline.tree.names import name_filter
from branchline.tree.stream import Chunk, ChunkStream, SkippedFile, Source, check_workers
from branchline.tree.tree import Tree, short_names


@dataclass(frozen=True)
class Report:
    """Where a step comes from, as uproot's report: entries in the tree, and counted over all files before."""

    file_path: str
    tree_path: str
    tree_entry_start: int
    tree_entry_stop: int
    global_entry_start: int
    global_entry_stop: int

    @property
    def start(self) -> int:
        """First entry, counted over all files."""
        return self.global_entry_start

    @property
    def stop(self) -> int:
        """Behind the last entry, counted over all files."""
        return self.global_entry_stop


def sources_of(files: Any) -> list[Source]:
    """Sources of paths, globs, ``path:tree``, Trees, ``{path: tree}``, or several of these. Raises DatasetError."""
    if isinstance(files, Tree):
        return [files.source()]
    if isinstance(files, Mapping):
        return [Source(one, tree) for path, tree in files.items() for one in _expanded(os.fspath(path))]
    if isinstance(files, str | os.PathLike):
        path, tree = split_location(os.fspath(files))
        return [Source(one, tree) for one in _expanded(path)]
    return [source for one in files for source in sources_of(one)]


def _expanded(path: str) -> list[str]:
    if not glob.has_magic(path) or os.path.exists(path):
        return [path]
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        raise DatasetError("no file matches", path=path, hint="check the pattern and the directory")
    return found


def iterate(
    files: Any,
    expressions: str | Sequence[str] | None = None,
    *,
    filter_name: Any = None,
    step_size: int | str = "100 MB",
    library: Library = "ak",
    workers: int | None = None,
    memory_limit: int | str = "1 GiB",
    skip_bad_files: bool = False,
    skipped: list[SkippedFile] | None = None,
    report: bool = False,
) -> Iterator[Any]:
    """Branches of many files, step by step in their order; files are read ahead by ``workers`` decoding threads.

    ``files`` as uproot takes them: paths, globs, ``"f.root:tree"``, ``{"f.root": "tree"}``, Trees, or lists. A step
    never spans two files. With ``skip_bad_files`` a file that is missing or damaged is left out, with a warning, and
    noted in the list ``skipped`` if one is given. With ``report`` each step is a pair of arrays and a Report. Raises
    DatasetError and what reading raises.
    """
    check_library(library)
    sources = sources_of(files)
    if not sources:
        raise DatasetError("no files were given")
    selected, names_in = _selection(sources, expressions, filter_name)
    return steps(
        sources,
        selected,
        names_in,
        step_size=step_size,
        library=library,
        workers=workers,
        memory_limit=memory_limit,
        skip_bad_files=skip_bad_files,
        skipped=skipped,
        report=report,
    )


def _selection(
    sources: Sequence[Source], expressions: str | Sequence[str] | None, filter_name: Any
) -> tuple[list[str] | None, Callable[[Chunk], dict[str, str]]]:
    """The branches to ask the stream for, and the fields of a chunk with the branches that they stand for."""
    if expressions is not None:
        wanted = [expressions] if isinstance(expressions, str) else list(expressions)
        return wanted, lambda chunk: dict(zip(wanted, chunk.branches, strict=True))
    if filter_name is None:
        return None, lambda chunk: short_names(chunk.branches)
    keep = name_filter(filter_name)
    first = File(sources[0].path)
    tree = Tree(first._core.tree(sources[0].tree), first.path)
    kept = [path for path in tree._core.readable() if keep(path) or keep(path.rsplit("/", 1)[-1])]
    return kept, lambda chunk: short_names(chunk.branches)


def steps(
    sources: Sequence[Source],
    branches: Sequence[str] | None,
    names_in: Callable[[Chunk], dict[str, str]],
    *,
    step_size: int | str,
    library: str,
    workers: int | None,
    memory_limit: int | str,
    skip_bad_files: bool = False,
    skipped: list[SkippedFile] | None = None,
    report: bool = False,
) -> Iterator[Any]:
    """Groups of arrays, one per chunk."""
    import warnings

    stream = ChunkStream(
        sources,
        branches,
        step_size=step_size,
        threads=check_workers(workers),
        memory_limit=memory_limit,
        skip_bad_files=skip_bad_files,
    )
    with stream:
        entries_before = 0
        for chunk in stream:
            columns = {name: chunk.column(path) for name, path in names_in(chunk).items()}
            arrays = group_of(columns, len(chunk), library)
            if report:
                yield arrays, _report(chunk, entries_before)
            else:
                yield arrays
            entries_before += len(chunk)
            del chunk, columns, arrays
        for one in stream.skipped:
            warnings.warn(f"{one.path} was skipped: {one.error}", stacklevel=2)
        if skipped is not None:
            skipped += stream.skipped


def _report(chunk: Chunk, entries_before: int) -> Report:
    return Report(
        chunk.path,
        chunk.tree_name,
        chunk.entry_start,
        chunk.entry_stop,
        entries_before,
        entries_before + len(chunk),
    )


def concatenate(
    files: Any,
    expressions: str | Sequence[str] | None = None,
    *,
    filter_name: Any = None,
    library: Library = "ak",
    workers: int | None = None,
    memory_limit: int | str = "1 GiB",
    skip_bad_files: bool = False,
) -> Any:
    """Branches of many files as one array. The parts are joined at the end: there must be room for them twice."""
    parts = iterate(
        files,
        expressions,
        filter_name=filter_name,
        step_size="1 TB",
        library=library,
        workers=workers,
        memory_limit=memory_limit,
        skip_bad_files=skip_bad_files,
    )
    return join(list(parts), library)
