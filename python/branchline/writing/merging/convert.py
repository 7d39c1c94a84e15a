"""Converts TTrees to RNTuples, RNTuples to TTrees, and both to Parquet, chunk by chunk in bounded memory.

Objects stay objects where the format has them, or become flat columns.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import awkward as ak

from branchline import _core
from branchline.base.codecs import DEFAULT_CODEC
from branchline.base.quantities import MIB, counted, parse_bytes
from branchline.errors import BadFileError, DatasetError, OptionError
from branchline.reading.access import Access
from branchline.reading.arrays.layouts import misses, whole
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.layout.dataset_layout import some_of
from branchline.reading.locations import is_parquet
from branchline.reading.trees.file import File
from branchline.reading.trees.tree import Tree
from branchline.writing.columns.columns import missing_error
from branchline.writing.columns.counted_tree import CountedTreeFile
from branchline.writing.columns.fields import FieldPlan, PlanChanged, RenamedBranch, plan_fields
from branchline.writing.columns.flat_plan import FlatPlan, FlatPlanner
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
from branchline.writing.merging.flat_verify import compare_columns
from branchline.writing.merging.index_columns import index_columns

# Approximate maximum size of a conversion step, reduced so that STEPS_IN_MEMORY steps fit into the memory limit.
STEP_BYTES_MAX = 32 * MIB
STEPS_IN_MEMORY = 16


@dataclass(frozen=True)
class ConvertResult:
    """The result of a conversion.

    ``renamed`` are branches whose fields have different names. ``left_out`` are sentences about the parts of the inputs
    that are not in the output, and ``without_columns`` the members of objects without a flat form.
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
    without_columns: tuple[str, ...] = ()


def convert(
    inputs: object,
    output: str | os.PathLike[str],
    *,
    to: Kind | None = None,
    tree: str | None = None,
    branches: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    flatten: bool = False,
    codec: str = DEFAULT_CODEC,
    cluster_entries: int | None = None,
    cluster_bytes: int | str = CLUSTER_BYTES,
    page_bytes: int | str = PAGE_BYTES,
    memory_limit: int | str = "1 GiB",
    access: Access | None = None,
    force: bool = False,
    verify: bool = False,
    progress: Callable[[ConvertProgress], None] | None = None,
) -> ConvertResult:
    """Convert the trees of ``inputs``, which must have the same branches, to one file.

    ``to`` is the output format. By default, an output with the suffix ``.parquet`` becomes a Parquet file. With the
    suffix ``.root`` or none, a TTree becomes an RNTuple, and an RNTuple becomes a TTree.

    With ``flatten``, objects become one column per member: ``Track_fPos_fX`` for the member ``fPos.fX`` of ``Track``.
    Members of collections become arrays, which in ROOT files have the common counter ``nTrack``. Pointers to single
    objects, references and objects of different classes have no flat form; ``left_out`` names them.

    ``branches`` are names or patterns of branches to keep, ``drop`` of branches to leave out. With ``flatten``, they
    may also be names or patterns of columns. The layout is determined by ``cluster_entries``, ``cluster_bytes``
    (compressed size), and ``page_bytes`` (uncompressed size of a page, or of a basket in a TTree). With ``verify``,
    flat columns are read back and compared with the objects.

    Raises `UnsupportedBranchError` for branches that cannot be read or have no equivalent, `DatasetError`,
    `StorageError` if the output cannot be written, and `OptionError`.

        >>> branchline.convert("data/*.root", "events.parquet").entries
        6
    """
    _check_kind(to, output)
    if verify and not flatten:
        raise OptionError("verify compares flat columns", hint="add flatten, or verify the output: branchline verify")
    if cluster_entries is not None and not 1 <= cluster_entries < ENTRIES_END:
        raise OptionError(f"cluster_entries must be from 1 to 2^63 - 1, got {cluster_entries}")
    files = list(Dataset.of(inputs, tree, access=access))
    if not files:
        raise DatasetError("no files to convert")
    path = Path(output)
    with_trees = [file.tree if file.tree is not None else tree for file in files]
    first = _open_tree(files[0], with_trees[0], access)
    kind = to or kind_of_name(path, "ttree" if first.outline.nests else "rntuple")
    plan = _planned(first, files, branches, drop, kind, flatten=flatten)
    layout = Layout(codec, cluster_entries, parse_bytes(cluster_bytes), parse_bytes(page_bytes))
    target = Target(path, force, [file.opens for file in files], first.name, first.title)
    make = _writer_of(kind, flatten=flatten)
    others: dict[str, str] = {}
    written = _write_all(
        lambda fields, sample: make(target, layout, fields, sample),
        plan,
        lambda fields: first.arrays(fields.paths(), entry_stop=0),
        lambda fields: _chunks(files, with_trees, fields, memory_limit, access, others),
        lambda done, entries: progress and progress(ConvertProgress(done, len(files), entries)),
    )
    plan = written.plan
    if verify and isinstance(plan, FlatPlan):
        chunks = functools.partial(_chunks, files, with_trees, memory_limit=memory_limit, access=access, others={})
        compared = compare_columns(
            plan, lambda fields: (one for _, one in chunks(fields)), [str(path)], first.name, access
        )
        if compared.differences:
            path.unlink()
            what = f"not what was read, and removed: {'; '.join(compared.differences[:3])}"
            raise BadFileError(what, path=os.fspath(output))
    left_out = [f"objects other than the trees: {some_of([f'{name} ({others[name]})' for name in others])}"]
    if len(files) > 1 and (indices := index_columns(plan.paths())) and any(file.trees for file in files):
        left_out.append(f"folders: {', '.join(indices)} count the rows of the folder from which an entry comes")
    missing = plan.left_out if isinstance(plan, FlatPlan) else ()
    left_out += [
        f"{counted(len(names), 'member')} without a flat form ({reason}): {', '.join(names)}"
        for reason, names in missing
    ]
    return ConvertResult(
        path=os.fspath(output),
        kind=kind,
        files=len({file.path for file in files}),
        entries=written.entries,
        clusters=written.size.clusters,
        fields=len(plan.fields) + len(plan.shown),
        size_bytes=written.size.size_bytes,
        renamed=plan.renamed,
        left_out=tuple(left_out[0 if others else 1 :]),
        without_columns=tuple(name for _, names in missing for name in names),
    )


def _planned(
    tree: Tree,
    files: Sequence[DataFile],
    branches: Sequence[str] | None,
    drop: Sequence[str],
    kind: Kind,
    *,
    flatten: bool,
) -> FieldPlan:
    """Return the fields to write. Raises OptionError for Parquet files that should be flattened."""
    are_parquet = [is_parquet(file.opens) for file in files]
    if flatten:
        if any(are_parquet):
            path = files[are_parquet.index(True)].opens
            raise OptionError("a Parquet file cannot be flattened", path=path, hint="convert it to a ROOT file first")
        return FlatPlanner.of(tree, branches, drop, kind).plan()
    plan = plan_fields(tree, branches, drop, collect=kind == "rntuple")
    if kind == "rntuple" and all(are_parquet):
        # Parquet files declare almost every column as nullable. Make a field optional only once a value is missing.
        plan = replace(plan, optional=frozenset())
    return plan


@dataclass(frozen=True)
class _Written:
    entries: int
    size: FileSize
    plan: FieldPlan


def _check_kind(to: Kind | None, output: str | os.PathLike[str]) -> None:
    """Raise OptionError for an unknown format, or one that contradicts the output's name."""
    if to is not None and to not in get_args(Kind):
        raise OptionError(f"unknown format {to!r}", hint=f"choose one of {', '.join(get_args(Kind))}")
    if to in ("rntuple", "ttree"):
        check_root_name(output)
    elif to == "parquet" and Path(output).suffix.lower() == ".root":
        raise OptionError(
            f"the output is a Parquet file, but {output} has the suffix of a ROOT file", hint="name it OUT.parquet"
        )


def _write_all(
    begin: Callable[[FieldPlan, ak.Array], Writer],
    plan: FieldPlan,
    empty: Callable[[FieldPlan], ak.Array],
    chunks: Callable[[FieldPlan], Generator[tuple[int, ak.Array], None, None]],
    report: Callable[[int, int], object],
) -> _Written:
    """Write all chunks. If values do not fit the plan, change the plan and restart."""
    while True:
        try:
            with closing(chunks(plan)) as all_of_them:
                return _write(functools.partial(begin, plan), plan, empty, all_of_them, report)
        except PlanChanged as changed:
            plan = changed.plan


def _write(
    begin: Callable[[ak.Array], Writer],
    plan: FieldPlan,
    empty: Callable[[FieldPlan], ak.Array],
    chunks: Iterator[tuple[int, ak.Array]],
    report: Callable[[int, int], object],
) -> _Written:
    """Write all chunks to one file. Raises PlanChanged."""
    done, chunk = next(chunks, (0, None))
    # The types of objects are known only from their values, so create the writer with the first chunk, if any.
    writer = begin(chunk if chunk is not None else empty(plan))
    entries = 0
    try:
        while chunk is not None:
            writer.fill(plan, chunk)
            entries += len(chunk)
            report(done, entries)
            del chunk
            done, chunk = next(chunks, (0, None))
        return _Written(entries, writer.finish(), plan)
    except BaseException:
        writer.abandon()
        raise


def _writer_of(kind: Kind, *, flatten: bool) -> Callable[[Target, Layout, FieldPlan, ak.Array], Writer]:
    """Return a function that creates the writer for a format."""
    if kind == "ttree" and flatten:
        return CountedTreeFile
    if kind != "parquet":
        return functools.partial(RootFile, kind)
    # Imported lazily: trains use this module to write tables to ROOT files, which does not require pyarrow.
    from branchline.writing.columns.parquet_writer import ParquetFileWriter

    return ParquetFileWriter


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
    """Yield chunks of the planned branches, each with the number of files that are completely processed.

    Adds the names and classes of all other objects in the files to ``others``.
    """
    step = min(STEP_BYTES_MAX, parse_bytes(memory_limit) // STEPS_IN_MEMORY)
    for number, (file, tree) in enumerate(zip(files, trees, strict=True)):
        opened = _open_tree(file, tree, access)
        classes = opened.file.classnames(cycle=False)
        # A file may have several of the trees, in different folders.
        converted = {opened.path, *trees}
        others |= {
            name: class_name
            for name, class_name in classes.items()
            if name not in converted and not class_name.startswith("TDirectory") and class_name != "TProcessID"
        }
        stop = file.entry_stop
        for chunk in opened.iterate(
            plan.paths(),
            entry_start=file.entry_start,
            entry_stop=stop,
            step_size=f"{step} B",
            memory_limit=memory_limit,
        ):
            yield number, chunk


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
        """Append a chunk."""
        layouts = self._layouts(plan, chunk)
        if self._is_tree:
            missing = [field.name for field, layout in zip(plan.fields, layouts, strict=True) if misses(layout)]
            if missing:
                names = ",".join(missing)
                raise missing_error(names, f"convert to an RNTuple with to='rntuple', or leave out: --drop '{names}'")
        self._core.fill(plan.columns(layouts), len(chunk))

    def _layouts(self, plan: FieldPlan, chunk: ak.Array) -> list[ak.contents.Content]:
        layouts = plan.layouts(chunk)
        return [whole(layout) for layout in layouts] if self._is_tree else layouts

    def finish(self) -> FileSize:
        """Finish the file."""
        made = self._core.finish()
        return FileSize(made.clusters, made.size_bytes)

    def abandon(self) -> None:
        """Remove the unfinished file."""
        self._core.abandon()
