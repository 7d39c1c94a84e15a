"""Converts TTrees to RNTuples, RNTuples to TTrees, and both to Parquet: chunk by chunk, in bounded memory."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import awkward as ak

from branchline import _core
from branchline.base.limits import parse_bytes
from branchline.errors import DatasetError, OptionError
from branchline.reading.access import Access
from branchline.reading.arrays.layouts import misses, whole
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.layout.dataset_layout import some_of
from branchline.reading.locations import is_parquet
from branchline.reading.trees.file import File
from branchline.reading.trees.tree import Tree
from branchline.writing.columns.columns import missing_error
from branchline.writing.columns.fields import FieldPlan, MissingValues, RenamedBranch, plan_fields
from branchline.writing.columns.output_file import (
    CLUSTER_BYTES,
    ENTRIES_END,
    PAGE_BYTES,
    ConvertProgress,
    FileSize,
    Kind,
    Layout,
    Target,
    Writer,
    check_root_name,
    kind_of_name,
)

# The approximate size of the values that are converted at a time; several of these fit into the memory limit.
STEP_BYTES_MAX = 32 * 2**20
STEPS_IN_MEMORY = 16


@dataclass(frozen=True)
class ConvertResult:
    """The result of a conversion.

    ``renamed`` are branches whose fields have other names, ``left_out`` sentences on what is not in the output.
    """

    path: str
    kind: Kind
    files: int
    entries: int
    clusters: int
    fields: int
    size_bytes: int
    renamed: tuple[RenamedBranch, ...]
    left_out: tuple[str, ...]


def convert(
    inputs: Any,
    output: str | os.PathLike[str],
    *,
    to: Kind | None = None,
    tree: str | None = None,
    branches: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    codec: str = "zstd:5",
    cluster_entries: int | None = None,
    cluster_bytes: int | str = CLUSTER_BYTES,
    page_bytes: int | str = PAGE_BYTES,
    memory_limit: int | str = "1 GiB",
    access: Access | None = None,
    force: bool = False,
    progress: Callable[[ConvertProgress], None] | None = None,
) -> ConvertResult:
    """Converts the trees of ``inputs``, which must have the same branches, to one file.

    ``to`` is what the file is to be; by default a name that ends with ``.parquet`` asks for Parquet, and else a TTree
    becomes an RNTuple and an RNTuple a TTree, in a name that ends with ``.root`` or has no ending. ``branches`` and
    ``drop`` are names or patterns of branches to keep and to leave out. ``cluster_entries``, ``cluster_bytes``
    (compressed) and ``page_bytes`` (before compression; of a TTree those of a basket) lay the file out.

    Raises `UnsupportedBranchError` for branches that cannot be read or have no equivalent, `DatasetError`,
    `StorageError` where the output cannot be written, and `OptionError`.

        >>> branchline.convert("data/*.root", "events.parquet").entries
        6
    """
    _check_kind(to, output)
    if cluster_entries is not None and not 1 <= cluster_entries < ENTRIES_END:
        raise OptionError("the number of events in a cluster is 1 to 2^63 - 1")
    files = list(Dataset.of(inputs, tree=tree) if tree else Dataset.of(inputs))
    if not files:
        raise DatasetError("there are no files to convert")
    path = Path(output)
    with_trees = [file.tree if file.tree is not None else tree for file in files]
    first = _open_tree(files[0], with_trees[0], access)
    kind = to or kind_of_name(path, "ttree" if first.outline.nests else "rntuple")
    plan = plan_fields(first, branches, drop, collect=kind == "rntuple")
    if kind == "rntuple" and all(is_parquet(file.opens) for file in files):
        # Types of Parquet say of almost every value that it may be missing: optional are fields where one is.
        plan = replace(plan, optional=frozenset())
    layout = Layout(codec, cluster_entries, parse_bytes(cluster_bytes), parse_bytes(page_bytes))
    target = Target(path, force, [file.opens for file in files], first.name, first.title)
    make = _writer_of(kind)
    others: dict[str, str] = {}
    written = _write_all(
        lambda fields, sample: make(target, layout, fields, sample),
        plan,
        lambda: first.arrays(plan.paths(), entry_stop=0),
        lambda: _chunks(files, with_trees, plan, memory_limit, access, others),
        lambda done, entries: progress and progress(ConvertProgress(done, len(files), entries)),
    )
    return ConvertResult(
        path=os.fspath(output),
        kind=kind,
        files=len(files),
        entries=written.entries,
        clusters=written.size.clusters,
        fields=len(plan.fields) + len(plan.shown),
        size_bytes=written.size.size_bytes,
        renamed=plan.renamed,
        left_out=_left_out(others),
    )


@dataclass(frozen=True)
class _Written:
    entries: int
    size: FileSize


def _check_kind(to: Kind | None, output: str | os.PathLike[str]) -> None:
    """Raises OptionError for a format that is not known, or that the output's name contradicts."""
    if to is not None and to not in get_args(Kind):
        raise OptionError(f"{to!r} is no format", hint=f"one of {', '.join(get_args(Kind))}")
    if to in ("rntuple", "ttree"):
        check_root_name(output)
    elif to == "parquet" and Path(output).suffix.lower() == ".root":
        raise OptionError(
            f"the output is a Parquet file, and {output} has the ending of a ROOT file", hint="name it OUT.parquet"
        )


def _write_all(
    begin: Callable[[FieldPlan, ak.Array], Writer],
    plan: FieldPlan,
    empty: Callable[[], ak.Array],
    chunks: Callable[[], Generator[tuple[int, ak.Array], None, None]],
    report: Callable[[int, int], Any],
) -> _Written:
    """Writes all chunks, from the first on again where a value is missing of a field that was not optional."""
    while True:
        try:
            with closing(chunks()) as all_of_them:
                return _write(functools.partial(begin, plan), plan, empty, all_of_them, report)
        except MissingValues as met:
            plan = replace(plan, optional=(plan.optional or frozenset()) | met.fields)


def _write(
    begin: Callable[[ak.Array], Writer],
    plan: FieldPlan,
    empty: Callable[[], ak.Array],
    chunks: Iterator[tuple[int, ak.Array]],
    report: Callable[[int, int], Any],
) -> _Written:
    """Writes all chunks."""
    done, chunk = next(chunks, (0, None))
    # The types of objects are known from objects only: they are those of the first entries, if there are any.
    writer = begin(chunk if chunk is not None else empty())
    entries = 0
    try:
        while chunk is not None:
            writer.fill(plan, chunk)
            entries += len(chunk)
            report(done, entries)
            del chunk
            done, chunk = next(chunks, (0, None))
        return _Written(entries, writer.finish())
    except BaseException:
        writer.abandon()
        raise


def _left_out(others: dict[str, str]) -> tuple[str, ...]:
    if not others:
        return ()
    return (f"other objects than the trees: {some_of([f'{name} ({others[name]})' for name in others])}",)


def _writer_of(kind: Kind) -> Callable[[Target, Layout, FieldPlan, Any], Writer]:
    """The class that writes files of a kind."""
    if kind != "parquet":
        return functools.partial(RootFile, kind)
    # Imported here: trains write tables to ROOT files by this module, also without pyarrow.
    from branchline.writing.columns.parquet_writer import ParquetFile

    return ParquetFile


def _open_tree(file: DataFile, tree: str | None, access: Access | None) -> Tree:
    return File(file.opens, access).tree(tree)


def _chunks(
    files: Sequence[DataFile],
    trees: Sequence[str | None],
    plan: FieldPlan,
    memory_limit: int | str,
    access: Access | None,
    others: dict[str, str],
) -> Generator[tuple[int, ak.Array], None, None]:
    """The number of files that are done, and arrays of the branches of the plan. Fills ``others`` with the classes of
    all other objects of the files by their names.
    """
    step = min(STEP_BYTES_MAX, parse_bytes(memory_limit) // STEPS_IN_MEMORY)
    for number, (file, tree) in enumerate(zip(files, trees, strict=True)):
        opened = _open_tree(file, tree, access)
        classes = opened.file.classnames(cycle=False)
        others.update({name: classes[name] for name in classes if _is_left(name, classes[name], opened)})
        stop = file.entry_stop
        for chunk in opened.iterate(
            plan.paths(),
            entry_start=file.entry_start,
            entry_stop=stop,
            step_size=f"{step} B",
            memory_limit=memory_limit,
        ):
            yield number, chunk


def _is_left(name: str, class_name: str, tree: Tree) -> bool:
    return name != tree.path and not class_name.startswith("TDirectory") and class_name != "TProcessID"


class RootFile:
    """Writes a ROOT file with an RNTuple or a TTree."""

    def __init__(self, kind: Kind, target: Target, layout: Layout, plan: FieldPlan, sample: ak.Array) -> None:
        self._is_tree = kind == "ttree"
        names, columns = [field.name for field in plan.fields], plan.columns(self._layouts(plan, sample))
        try:
            if kind == "rntuple":
                self._core = _core.ColumnsFile.ntuple(target, layout, names, columns, list(plan.shown))
            else:
                self._core = _core.ColumnsFile.tree(target, layout, names, columns)
        except ValueError as error:
            raise OptionError(str(error)) from None

    def fill(self, plan: FieldPlan, chunk: ak.Array) -> None:
        """Adds a chunk."""
        layouts = self._layouts(plan, chunk)
        if self._is_tree:
            missing = [field.name for field, layout in zip(plan.fields, layouts, strict=True) if misses(layout)]
            if missing:
                names = ",".join(missing)
                raise missing_error(names, f"convert to an RNTuple, with to='rntuple', or leave out: --drop '{names}'")
        self._core.fill(plan.columns(layouts), len(chunk))

    def _layouts(self, plan: FieldPlan, chunk: ak.Array) -> list[ak.contents.Content]:
        layouts = plan.layouts(chunk)
        return [whole(layout) for layout in layouts] if self._is_tree else layouts

    def finish(self) -> FileSize:
        """Ends the file."""
        made = self._core.finish()
        return FileSize(made.clusters, made.size_bytes)

    def abandon(self) -> None:
        """Removes the unfinished file."""
        self._core.abandon()
