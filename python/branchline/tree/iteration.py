"""Reading many files in steps: ``iterate`` and ``concatenate``."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from branchline.access import Access
from branchline.errors import (
    BAD_FILE_ERRORS,
    DatasetError,
    NoSuchKeyError,
    OptionError,
    RecoveredFileWarning,
    SkippedFileWarning,
    UnreadableBranchWarning,
    warn,
)
from branchline.locations import files_matching, is_pattern, split_location, text_of
from branchline.tree.branch import Branch
from branchline.tree.branches import Branches, BranchFilter
from branchline.tree.file import File, recovered
from branchline.tree.libraries import NESTED, check_how, library_of
from branchline.tree.options import check_opening_options, check_reading_options
from branchline.tree.reading import Together, columns_of
from branchline.tree.selection import BranchField, Selected, Selection, left_out
from branchline.tree.stream import Chunk, ChunkStream, SkippedFile, Source, check_entries, check_workers
from branchline.tree.tree import Tree


@dataclass(frozen=True)
class Report:
    """Where a step comes from, as uproot's report: entries in the tree, and counted over all files before."""

    file_path: str
    tree_path: str
    tree_entry_start: int
    tree_entry_stop: int
    global_offset: int = 0

    @property
    def global_entry_start(self) -> int:
        """First entry, counted over all files."""
        return self.tree_entry_start + self.global_offset

    @property
    def global_entry_stop(self) -> int:
        """Behind the last entry, counted over all files."""
        return self.tree_entry_stop + self.global_offset

    @property
    def start(self) -> int:
        """First entry, counted over all files."""
        return self.global_entry_start

    @property
    def stop(self) -> int:
        """Behind the last entry, counted over all files."""
        return self.global_entry_stop

    @property
    def file(self) -> File:
        """The file, opened again."""
        return File(self.file_path)

    @property
    def tree(self) -> Tree:
        """The tree, opened again."""
        return self.file.tree(self.tree_path)


def sources_of(files: Any) -> list[Source]:
    """Sources of paths, globs, ``path:tree``, Trees, ``{path: tree}``, or several of these.

    Raises DatasetError, OptionError.
    """
    if isinstance(files, Tree):
        return [files.source()]
    if isinstance(files, Mapping):
        return [Source(one, _tree_name(tree)) for path, tree in files.items() for one in _expanded(text_of(path))]
    if isinstance(files, str | bytes | os.PathLike):
        path, name = split_location(text_of(files))
        return [Source(one, name) for one in _expanded(path)]
    if isinstance(files, Branch) or not hasattr(files, "__iter__"):
        raise OptionError(f"{files!r} are no files", hint="give paths, patterns, {path: tree}, or Trees")
    return [source for one in files for source in sources_of(one)]


def _tree_name(tree: Any) -> str | None:
    if tree is None or isinstance(tree, str):
        return tree
    raise OptionError(f"{tree!r} is no name of a tree", hint='give {"file.root": "tree"}')


def _expanded(path: str) -> list[str]:
    path = os.path.expanduser(path)
    if not is_pattern(path):
        return [path]
    found = files_matching(path)
    if not found:
        raise DatasetError("no file matches", path=path, hint="check the pattern and the directory")
    return found


def num_entries(files: Any, *, access: Access | str | None = None) -> Iterator[tuple[str, str, int]]:
    """Path, tree and entries of each of the files, which are given as to ``iterate``; nothing else is read."""
    for source in sources_of(files):
        tree = _opened(source, access)
        yield source.path, tree.path, tree.entries_count


def _opened(source: Source, access: Access | str | None = None) -> Tree:
    if isinstance(source.open_tree, Tree):
        return source.open_tree
    return File(source.path, access).tree(source.tree)


class _TellingOfSkipped:
    """Warns of each skipped file when it is skipped, or when the reading ends early."""

    def __init__(self, stream: ChunkStream, skipped: list[SkippedFile] | None) -> None:
        self._stream = stream
        self._skipped = [] if skipped is None else skipped
        self._count = 0

    def __enter__(self) -> _TellingOfSkipped:
        return self

    def __exit__(self, *_: object) -> None:
        self.catch_up()

    def catch_up(self) -> None:
        """Tells of those that are new."""
        new = self._stream.skipped[self._count :]
        self._count += len(new)
        self._skipped += new
        for one in new:
            warn(f"{one.path} was skipped: {one.error}", SkippedFileWarning)


class Steps:
    """A selection of many trees, step by step. ``selection`` None is all that can be read of each of them."""

    def __init__(
        self,
        sources: Sequence[Source],
        selection: Selection | None,
        library: str = "ak",
        how: Any = None,
        *,
        doc: bool | Mapping[str, str] = False,
        under: Branches | None = None,
    ) -> None:
        self._sources = sources
        self._selection = selection
        self._library = library
        self._how = how
        self._doc = doc
        self._under = under
        self._all_of_chunk: tuple[list[str], Selection] = ([], Selection({}))
        self._told: set[tuple[str, ...]] = set()

    def run(self, *, report: bool = False, **reading: Any) -> Iterator[Any]:
        """Arrays, or with ``report`` pairs of arrays and a Report."""
        check_how(self._library, self._how)
        return self._arrays(report, reading)

    def together(self, **reading: Any) -> Any:
        """All steps as one."""
        check_how(self._library, self._how)
        selection, parts = self._selection or Selection({}), []
        for of_step, selected, told in self.selected(**reading):
            selection = of_step
            parts.append(_counted_over_all(selected, told.global_offset))
        return Together(selection, parts).group(self._library, self._how, self._doc, self._under)

    def _arrays(self, report: bool, reading: dict[str, Any]) -> Iterator[Any]:
        for selection, selected, told in self.selected(**reading):
            together = Together(selection, [_counted_over_all(selected, told.global_offset)])
            arrays = together.group(self._library, self._how, self._doc, self._under)
            yield (arrays, told) if report else arrays
            del selected, together, arrays

    def selected(
        self,
        *,
        step_size: int | str,
        workers: int | None,
        memory_limit: int | str,
        access: Access | str | None = None,
        skip_bad_files: bool = False,
        allow_missing: bool = False,
        skipped: list[SkippedFile] | None = None,
    ) -> Iterator[tuple[Selection, Selected, Report]]:
        """What was selected of each step, and where it comes from."""
        stream = ChunkStream(
            self._sources,
            None if self._selection is None else self._selection.paths(),
            step_size=step_size,
            threads=check_workers(workers),
            memory_limit=memory_limit,
            access=access,
            skip_bad_files=skip_bad_files,
            allow_missing=allow_missing,
        )
        with stream, _TellingOfSkipped(stream, skipped) as telling:
            offset, source, entries_of_source = 0, None, 0
            for chunk in stream:
                telling.catch_up()
                if chunk.source_index != source and chunk.recovered_count and self._is_new(chunk.source_index):
                    warn(recovered(chunk.path, chunk.recovered_count), RecoveredFileWarning)
                if chunk.source_index != source:
                    offset += entries_of_source
                    source, entries_of_source = chunk.source_index, chunk.tree_entries
                selection = self._selection or self._all_of(chunk)
                told = Report(chunk.path, chunk.tree_name, chunk.entry_start, chunk.entry_stop, offset)
                yield selection, selection.of(columns_of(chunk)), told
                del chunk

    def _is_new(self, source_index: int) -> bool:
        """Whether the tree of a source was opened for these steps, and nothing was told of its file before."""
        return self._sources[source_index].open_tree is None

    def _all_of(self, chunk: Chunk) -> Selection:
        """All branches that were read of a chunk, with one warning of those that cannot be."""
        if chunk.branches != self._all_of_chunk[0] or not self._told:
            selection = Selection({name: BranchField(path) for name, path in short_names(chunk).items()})
            self._all_of_chunk = (chunk.branches, selection)
            unreadable = chunk.unreadable()
            if unreadable and tuple(unreadable) not in self._told:
                warn(left_out(chunk.tree_name, chunk.path, unreadable), UnreadableBranchWarning)
            self._told.add(tuple(unreadable))
        return self._all_of_chunk[1]


def _counted_over_all(selected: Selected, offset: int) -> Selected:
    """The same with entries that are counted over all trees."""
    entries = selected.entries
    if isinstance(entries, range):
        return replace(selected, entries=range(entries.start + offset, entries.stop + offset))
    return replace(selected, entries=entries + offset)


def short_names(chunk: Chunk) -> dict[str, str]:
    """Paths of a chunk's branches under their own names, or under the whole path where two have the same."""
    own = chunk.own_names()
    counts = Counter(own)
    return {name if counts[name] == 1 else path: path for name, path in zip(own, chunk.branches, strict=True)}


def iterate(
    files: Any,
    expressions: str | Sequence[str] | None = None,
    cut: str | None = None,
    *,
    filter_name: Any = None,
    filter_typename: Any = None,
    filter_branch: BranchFilter | None = None,
    aliases: Mapping[str, str] | None = None,
    language: Any = None,
    step_size: int | str = "100 MB",
    library: str = "ak",
    ak_add_doc: bool | Mapping[str, str] = False,
    how: Any = None,
    report: bool = False,
    allow_missing: bool = False,
    workers: int | None = None,
    memory_limit: int | str = "1 GiB",
    access: Access | str | None = None,
    skip_bad_files: bool = False,
    skipped: list[SkippedFile] | None = None,
    **options: Any,
) -> Iterator[Any]:
    """Branches of many files, step by step in their order; files are read ahead by ``workers`` decoding threads.

    ``files`` as uproot takes them: paths, globs, ``"f.root:tree"``, ``{"f.root": "tree"}``, Trees, or lists. What is
    read of them is said as to ``Tree.arrays``; names and filters are looked up in the first file. A step never spans
    two files. ``access`` is as for ``open``. With ``skip_bad_files`` a file that is missing or damaged is left out,
    with ``allow_missing`` one without the tree or a branch: with a warning, and noted in the list ``skipped`` if one is
    given. With ``report`` each step is a pair of arrays and a Report. Raises DatasetError and what reading raises.
    """
    check_opening_options(options)
    check_reading_options(language, ak_add_doc)
    steps = _steps(
        files,
        (expressions, cut, filter_name, filter_typename, filter_branch, aliases),
        allowed=(BAD_FILE_ERRORS if skip_bad_files else ()) + ((NoSuchKeyError,) if allow_missing else ()),
        library=library_of(library),
        how=how,
        doc=ak_add_doc,
        access=access,
    )
    return steps.run(
        step_size=step_size,
        workers=workers,
        memory_limit=memory_limit,
        access=access,
        skip_bad_files=skip_bad_files,
        allow_missing=allow_missing,
        skipped=skipped,
        report=report,
    )


def _steps(
    files: Any,
    asked: tuple[Any, ...],
    *,
    allowed: tuple[type[BaseException], ...],
    limits: tuple[int | None, int | None] = (None, None),
    how: Any = None,
    doc: bool | Mapping[str, str] = False,
    access: Access | str | None = None,
    **result: Any,
) -> Steps:
    """The steps over files, of which the first that opens says what names stand for."""
    sources = sources_of(files)
    if not sources:
        raise DatasetError("no files were given")
    if not doc and how != NESTED and all(one is None for one in asked):
        return Steps(_within(sources, limits, access), None, how=how, **result)
    for index, source in enumerate(sources):
        try:
            tree = _opened(source, access)
            selection = tree.selection(*asked)
        except allowed:
            continue
        sources[index] = replace(source, open_tree=tree)
        return Steps(_within(sources, limits, access), selection, how=how, doc=doc, under=tree, **result)
    return Steps(sources, Selection({}), how=how, **result)


def concatenate(
    files: Any,
    expressions: str | Sequence[str] | None = None,
    cut: str | None = None,
    *,
    filter_name: Any = None,
    filter_typename: Any = None,
    filter_branch: BranchFilter | None = None,
    aliases: Mapping[str, str] | None = None,
    language: Any = None,
    entry_start: int | None = None,
    entry_stop: int | None = None,
    library: str = "ak",
    ak_add_doc: bool | Mapping[str, str] = False,
    how: Any = None,
    allow_missing: bool = False,
    workers: int | None = None,
    memory_limit: int | str = "1 GiB",
    access: Access | str | None = None,
    skip_bad_files: bool = False,
    **options: Any,
) -> Any:
    """Branches of many files as one array. The parts are joined at the end: there must be room for them twice."""
    check_opening_options(options)
    check_reading_options(language, ak_add_doc)
    steps = _steps(
        files,
        (expressions, cut, filter_name, filter_typename, filter_branch, aliases),
        limits=(entry_start, entry_stop),
        allowed=(BAD_FILE_ERRORS if skip_bad_files else ()) + ((NoSuchKeyError,) if allow_missing else ()),
        library=library_of(library),
        how=how,
        doc=ak_add_doc,
        access=access,
    )
    return steps.together(
        step_size="1 TB",
        workers=workers,
        memory_limit=memory_limit,
        access=access,
        skip_bad_files=skip_bad_files,
        allow_missing=allow_missing,
    )


def _within(
    sources: Sequence[Source], limits: tuple[int | None, int | None], access: Access | str | None
) -> list[Source]:
    """The parts of sources between two entries, counted over all of them as in a slice."""
    if limits == (None, None):
        return list(sources)
    counts = [_opened(source, access).entries_count for source in sources]
    start, stop = check_entries(*limits, sum(counts))
    parts = []
    for source, count in zip(sources, counts, strict=True):
        if start < count and stop > 0 and start < stop:
            parts.append(replace(source, entry_start=max(start, 0), entry_stop=min(stop, count)))
        start, stop = start - count, stop - count
    return parts
