"""Functions that read many files in steps or into one array: ``iterate``, ``concatenate``, ``num_entries``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from branchline.errors import DatasetError, OptionError
from branchline.reading.access import Access, access_of
from branchline.reading.datasets.folders import is_tree_pattern, trees_by_place
from branchline.reading.locations import files_at, is_url, path_in_file, split_location, text_of, without_braces
from branchline.reading.request import ONE_STEP, ReadRequest, check_opening_options
from branchline.reading.sources import SkippedSource, Source
from branchline.reading.trees.branch import Branch, BranchFilter
from branchline.reading.trees.file import File
from branchline.reading.trees.selection import Selection
from branchline.reading.trees.tree import Tree
from branchline.reading.trees.tree_steps import Steps


def sources_of(files: object, access: Access | None = None) -> list[Source]:
    """The sources given by paths, globs, folders, ``path:tree``, Trees, ``{path: tree}``, or a list of these. For a
    pattern of trees, there is a source for each tree that matches.

    Raises DatasetError, OptionError.
    """
    return _with_folders(_given_sources(files), access)


def _given_sources(files: object) -> list[Source]:
    if isinstance(files, Tree):
        return [files.source()]
    if isinstance(files, Mapping):
        return [Source(one, _tree_name(tree)) for path, tree in files.items() for one in _expanded(text_of(path))]
    if isinstance(files, str | bytes | os.PathLike):
        path, name = split_location(text_of(files))
        return [Source(one, name) for one in _expanded(path)]
    if isinstance(files, Branch) or not hasattr(files, "__iter__"):
        raise OptionError(f"cannot read files from {files!r}", hint="give paths, patterns, {path: tree}, or Trees")
    return [source for one in files for source in _given_sources(one)]


def _with_folders(given: Sequence[Source], access: Access | None) -> list[Source]:
    """Replace each source whose tree is a pattern by one source for each tree that matches."""
    closed = {index: path_in_file(one.tree) for index, one in enumerate(given) if one.tree and one.open_tree is None}
    patterns = [(given[index].path, tree) for index, tree in closed.items() if is_tree_pattern(tree)]
    found = trees_by_place(patterns, access) if patterns else {}
    sources: list[Source] = []
    for index, one in enumerate(given):
        tree = closed.get(index, one.tree)
        sources += [replace(one, tree=name) for name in found.get((one.path, tree or ""), ()) or (tree,)]
    return sources


def _tree_name(tree: object) -> str | None:
    if tree is None or isinstance(tree, str):
        return tree
    raise OptionError(f"{tree!r} is not the name of a tree", hint='give {"file.root": "tree"}')


def _expanded(path: str) -> list[str]:
    """The files of a pattern or a folder, without duplicates. Raises DatasetError if a brace alternative matches no
    file.
    """
    alternatives = without_braces(os.path.expanduser(path))
    return list(dict.fromkeys(file for one in alternatives for file in ([one] if is_url(one) else files_at(one))))


def num_entries(files: object, *, access: Access | str | None = None) -> Iterator[tuple[str, str, int]]:
    """Yield the path, tree and number of entries of each file; ``files`` is as for ``iterate``. Reads only the metadata
    of the trees. Raises DatasetError, OptionError and the errors of opening.

        >>> list(branchline.num_entries("data/*.root"))
        [('data/a.root', 'Events', 3), ('data/b.root', 'Events', 3)]
    """
    given = access_of(access)
    sources = sources_of(files, given)
    for source, tree in zip(sources, _trees(sources, given), strict=True):
        yield source.path, tree.path, tree.entries_count


def _trees(sources: Sequence[Source], access: Access) -> Iterator[Tree]:
    """Yield the open trees of sources. A file with several trees in a row is opened once."""
    file: File | None = None
    path = ""
    for source in sources:
        if isinstance(source.open_tree, Tree):
            yield source.open_tree
            continue
        if file is None or source.path != path:
            file, path = File(source.path, access), source.path
        yield file.tree(source.tree)


def _opened(source: Source, access: Access) -> Tree:
    if isinstance(source.open_tree, Tree):
        return source.open_tree
    return File(source.path, access).tree(source.tree)


def iterate(
    files: object,
    expressions: str | Sequence[str] | None = None,
    cut: str | None = None,
    *,
    filter_name: object = None,
    filter_typename: object = None,
    filter_branch: BranchFilter | None = None,
    aliases: Mapping[str, str] | None = None,
    language: object = None,
    step_size: int | str = "100 MB",
    library: str = "ak",
    ak_add_doc: bool | Mapping[str, str] = False,
    how: object = None,
    report: bool = False,
    allow_missing: bool = False,
    workers: int | None = None,
    memory_limit: int | str = "1 GiB",
    access: Access | str | None = None,
    skip_bad_files: bool = False,
    skipped: list[SkippedSource] | None = None,
    **options: object,
) -> Iterator[Any]:
    """Read branches of many files in steps, in the order of the files; ``workers`` threads prefetch and decode.

    ``files`` is as in uproot: paths, globs, ``"f.root:tree"``, ``{"f.root": "tree"}``, Trees, or lists of these; also
    folders, and patterns of trees such as ``"AO2D.root:DF_*/O2track_iu"``. Branches are selected by the same options as
    in ``Tree.arrays``; names and filters are resolved in the first file. Each step has the type that ``Tree.arrays``
    returns: an array of records, unless ``library`` or ``how`` select another type.

    ``step_size`` is a number of entries (int) or of bytes after decompression (such as "100 MB"); a step never spans
    two trees. ``memory_limit`` is in bytes and limits the data being fetched, decompressed and decoded at any time.
    ``access`` is as for ``open``. ``skip_bad_files`` skips missing and damaged files, ``allow_missing`` skips files
    without the tree or a branch; both warn, and append to the list ``skipped`` if it is given. With ``report`` each
    step is a pair of arrays and a Report.

    Raises OptionError, ExpressionError and DatasetError for invalid arguments. The affected step raises
    MissingFileError, NoSuchKeyError, UnsupportedBranchError, BadFileError, StorageError, or MemoryLimitError for a
    basket larger than the limit; each names the file.

        >>> for events in branchline.iterate("data/*.root:Events", ["Muon_pt", "Muon_eta"], "nMuon > 1"):
        ...     print(len(events), events.Muon_pt.tolist())
        1 [[1.0, 2.0]]
        1 [[1.0, 2.0]]
    """
    check_opening_options(options)
    request = ReadRequest.of(
        expressions=expressions,
        cut=cut,
        filter_name=filter_name,
        filter_typename=filter_typename,
        filter_branch=filter_branch,
        aliases=aliases,
        language=language,
        step_size=step_size,
        library=library,
        ak_add_doc=ak_add_doc,
        how=how,
        workers=workers,
        memory_limit=memory_limit,
        access=access,
        skip_bad_files=skip_bad_files,
        allow_missing=allow_missing,
    )
    return _steps(files, request, skipped).run(report=report)


def concatenate(
    files: object,
    expressions: str | Sequence[str] | None = None,
    cut: str | None = None,
    *,
    filter_name: object = None,
    filter_typename: object = None,
    filter_branch: BranchFilter | None = None,
    aliases: Mapping[str, str] | None = None,
    language: object = None,
    entry_start: int | None = None,
    entry_stop: int | None = None,
    library: str = "ak",
    ak_add_doc: bool | Mapping[str, str] = False,
    how: object = None,
    allow_missing: bool = False,
    workers: int | None = None,
    memory_limit: int | str = "1 GiB",
    access: Access | str | None = None,
    skip_bad_files: bool = False,
    **options: object,
) -> Any:
    """Read branches of many files into one array, with the arguments of ``iterate``. The entry range counts across all
    files.

    The parts are concatenated at the end, which needs memory for two copies. Raises the errors of ``iterate``.

        >>> branchline.concatenate("data/*.root:Events", "Muon_pt", entry_stop=4).Muon_pt.tolist()
        [[1.0, 2.0], [], [3.0], [1.0, 2.0]]
    """
    check_opening_options(options)
    request = ReadRequest.of(
        expressions=expressions,
        cut=cut,
        filter_name=filter_name,
        filter_typename=filter_typename,
        filter_branch=filter_branch,
        aliases=aliases,
        language=language,
        entry_start=entry_start,
        entry_stop=entry_stop,
        step_size=ONE_STEP,
        library=library,
        ak_add_doc=ak_add_doc,
        how=how,
        workers=workers,
        memory_limit=memory_limit,
        access=access,
        skip_bad_files=skip_bad_files,
        allow_missing=allow_missing,
    )
    return _steps(files, request).together()


def _steps(files: Any, request: ReadRequest, skipped: list[SkippedSource] | None = None) -> Steps:
    """The steps over files. Names are resolved in the first file that can be opened."""
    sources = sources_of(files, request.access)
    if not sources:
        raise DatasetError("no files were given")
    if not request.add_doc and not request.is_nested and request.is_everything:
        return Steps(_within(sources, request), None, request, File, skipped=skipped)
    for index, source in enumerate(sources):
        try:
            tree = _opened(source, request.access)
            selection = tree.selection(request)
        except request.skippable:
            continue
        sources[index] = replace(source, open_tree=tree)
        return Steps(_within(sources, request), selection, request, File, tree, skipped)
    return Steps(sources, Selection({}), request, File, skipped=skipped)


def _within(sources: Sequence[Source], request: ReadRequest) -> list[Source]:
    """Restrict sources to the request's entry range, which counts across all of them and follows slice semantics."""
    if request.entry_start is None and request.entry_stop is None:
        return list(sources)
    counts = [tree.entries_count for tree in _trees(sources, request.access)]
    start, stop = request.range_in(sum(counts))
    parts = []
    for source, count in zip(sources, counts, strict=True):
        if start < count and stop > 0 and start < stop:
            parts.append(replace(source, entry_start=max(start, 0), entry_stop=min(stop, count)))
        start, stop = start - count, stop - count
    return parts
