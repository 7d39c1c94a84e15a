"""Reduces trees: keeps some of their branches (slim), or some of their entries (skim)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from branchline.base.quantities import count, counted
from branchline.errors import BranchlineError, DatasetError, ExpressionError, NoSuchKeyError, OptionError
from branchline.reading.access import Access
from branchline.reading.arrays.lazy import lazy_array
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.request import ReadRequest
from branchline.reading.trees.file import File
from branchline.reading.trees.stream import Chunk, ChunkStream
from branchline.reading.trees.tree import Tree
from branchline.writing.columns.output_file import check_root_name
from branchline.writing.merging.index_columns import refuse_dropped_rows, refuse_tree_patterns
from branchline.writing.merging.merge import EntrySelection, MergeOptions, MergeResult, TreeSelection, merge

if TYPE_CHECKING:
    from typing import Unpack

    import awkward as ak

#: Approximate size of the values for which a selection is evaluated at a time.
STEP_BYTES = "50 MB"
#: Number of entries that are read first to detect the branches that a selection needs.
LEARN_ENTRIES = 1000

Mask = npt.NDArray[np.bool_]

#: Function that gets a record array of events and returns one truth value per event: whether to keep the event.
Select: TypeAlias = "Callable[[ak.Array], object]"
#: Function that gets a chunk and its file, and returns one truth value per event: whether to keep the event.
SelectChunk = Callable[[Chunk, DataFile], object]


def slim(
    inputs: object,
    output: str | os.PathLike[str],
    *,
    branches: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    tree: str | None = None,
    only_tree: bool = False,
    **options: Unpack[MergeOptions],
) -> MergeResult:
    """Merge files like `merge`, but keep only some branches of a tree: ``branches``, or all except ``drop``.

    ``branches`` and ``drop`` are names or patterns. A branch is kept with its sub-branches, its parent branches and the
    counters of its arrays. ``tree`` is the name of the tree; by default, it is the only tree of the first file that has
    matching branches. All other trees and objects are kept completely, or left out with ``only_tree``. ``options`` are
    passed to `merge`.

    Raises the same errors as `merge`, `NoSuchKeyError` for names that match no branch, and `DatasetError` if several
    trees match.

    Example:
        >>> branchline.slim("data/*.root", "small.root", drop=["*_eta"]).entries
        6
        >>> branchline.open("small.root:Events").keys()
        ['nMuon', 'Muon_pt']

    """
    if (branches is None) == (drop is None):
        raise OptionError("a slim needs either the branches to keep or the branches to drop")
    names = list(branches if branches is not None else drop or ())
    files, tree = _files(inputs, tree, options.get("access"))
    others = UnchangedObjects()
    with _opened(files[0], options.get("access")) as file:
        found = _chosen_tree(file, tree, lambda one: _with_those_below(one, names))
        named = _with_those_below(found, names)
        every = set(found.outline.paths)
        path = found.path
        others.add(file, path)
    kept = named if branches is not None else every - named
    if not kept:
        raise OptionError(f"all branches of the tree {path} would be dropped")
    wanted = TreeSelection(branches={path: kept})
    made = merge(files, output, tree=path if only_tree else None, selection=wanted, **options)
    with File(made.paths[0]) as file:
        written_count = len(file.tree(path).outline.paths)
    note = f"tree {path}: kept {count(written_count)} of {counted(len(every), 'branch', 'branches')}"
    return others.described(made, note, only_tree=only_tree)


def skim(
    inputs: object,
    output: str | os.PathLike[str],
    *,
    where: str | Select | None = None,
    select_chunk: SelectChunk | None = None,
    tree: str | None = None,
    only_tree: bool = False,
    **options: Unpack[MergeOptions],
) -> MergeResult:
    """Merge files like `merge`, but keep only the selected entries of a tree. These entries get new baskets.

    - ``where`` is an expression as for ``arrays``, with one truth value or integer per entry, or a function that gets a
      record array of events and returns one truth value per event. Branches are read when the function accesses them.
      Branches with a common prefix are also available as records: ``events.Muon.pt`` is ``events.Muon_pt``.
    - ``select_chunk`` is an alternative to ``where``: a function that gets chunks.
    - ``tree`` is the name of the tree; by default, it is the only tree of the first file that has the branches of the
      expression. All other trees and objects are copied completely, or left out with ``only_tree``. A tree is refused
      if other trees of its folder have index columns such as ``fIndexCollisions``, which would refer to wrong rows.
    - ``options`` are passed to `merge`. Sizes of baskets or clusters apply to all trees.

    Raises the same errors as `merge`, `ExpressionError` for an invalid expression, and `DatasetError` if several trees
    match.

    Example:
        >>> branchline.skim("data/*.root", "pairs.root", where="nMuon > 1").entries
        2

    """
    check_root_name(output)
    if (where is None) == (select_chunk is None):
        raise OptionError("give either where or select_chunk")
    select = select_chunk if where is None or isinstance(where, str) else _on_chunks(where)
    files, path = _files(inputs, tree, options.get("access"))
    others, selections = UnchangedObjects(), {}
    kept_count = entries_count = 0
    for one in files:
        with _opened(one, options.get("access")) as file:
            found = _chosen_tree(
                file,
                path,
                lambda one: one.selection(ReadRequest.of(expressions=where)) if isinstance(where, str) else None,
            )
            path = found.path
            if not only_tree:
                refuse_dropped_rows(file, path)
            mask = _mask_of_expression(found, str(where)) if select is None else _mask_of_chunks(found, one, select)
            selections[one.path] = EntrySelection(np.packbits(mask).tobytes(), found.num_entries)
            kept_count, entries_count = kept_count + int(mask.sum()), entries_count + len(mask)
            others.add(file, path)
    wanted = TreeSelection(entries=selections, selected=path)
    made = merge(files, output, tree=path if only_tree else None, selection=wanted, **options)
    note = f"tree {path}: kept {count(kept_count)} of {counted(entries_count, 'entry', 'entries')}"
    return others.described(made, note, only_tree=only_tree)


@dataclass
class UnchangedObjects:
    """The trees and other objects that a skim or slim does not change."""

    trees: dict[str, None] = field(default_factory=dict)
    objects: set[str] = field(default_factory=set)

    def add(self, file: File, tree: str) -> None:
        """Add all trees and objects of ``file`` except ``tree``."""
        classes = file.classnames(cycle=False)
        trees = file.trees()
        self.trees |= dict.fromkeys(name for name in trees if name != tree)
        self.objects |= {
            name
            for name, classname in classes.items()
            if name not in trees and not classname.startswith("TDirectory") and classname != "TProcessID"
        }

    def described(self, made: MergeResult, note: str, *, only_tree: bool) -> MergeResult:
        """Return the result with ``note``, and with a sentence on the unchanged trees and objects."""
        names = ["trees " if len(self.trees) > 1 else "tree ", ", ".join(self.trees)] if self.trees else []
        parts = ["".join(names)] if names else []
        if self.objects:
            parts.append(counted(len(self.objects), f"{'other ' if parts else ''}object"))
        left_out, notes = made.left_out, (*made.notes, note)
        if parts and only_tree:
            left_out += (" and ".join(parts),)
        elif parts:
            notes += (f"kept completely: {' and '.join(parts)}",)
        return made._replace(left_out=left_out, notes=notes)


def _files(inputs: object, tree: str | None, access: Access | None) -> tuple[list[DataFile], str | None]:
    """Return the files without tree names, and the name of the tree to reduce, if the inputs name one.

    In a merge, ``file.root:tree`` would select the only tree to keep. Here it selects the tree to reduce, so the tree
    name is removed. Raises DatasetError if the inputs name different trees.
    """
    files = list(Dataset.of(inputs, access=access))
    if not files:
        raise DatasetError("no files to merge")
    refuse_tree_patterns(files)
    trees = {one.tree if one.tree is not None else tree for one in files}
    if len(trees) > 1:
        raise DatasetError(f"the inputs name different trees: {', '.join(sorted(str(name) for name in trees))}")
    return [replace(one, tree=None) for one in files], trees.pop()


def _opened(file: DataFile, access: Access | None) -> File:
    if file.entry_start != 0 or file.entry_stop is not None:
        raise DatasetError("files are merged completely, not a range of entries", path=file.path)
    return File(file.opens, access=access)


def _chosen_tree(file: File, name: str | None, check: Callable[[Tree], object]) -> Tree:
    """Return the tree ``name``, or without a name the only tree for which ``check`` raises no error.

    Raises DatasetError if several trees match.
    """
    trees = file.trees()
    if name is not None or len(trees) < 2:
        return file.tree(name)
    fitting, errors = [], []
    for one in trees:
        try:
            tree = file.tree(one)
            check(tree)
            fitting.append(tree)
        except BranchlineError as error:
            errors.append(error)
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise errors[0]
    names = ", ".join(tree.path for tree in fitting)
    raise DatasetError(
        f"several trees of the file match: {names}",
        path=file.path,
        hint="choose one with --tree NAME or tree=NAME; the others are kept completely",
    )


def _with_those_below(tree: Tree, names: Iterable[str]) -> set[str]:
    """Return the paths of the branches that match ``names`` and of all their sub-branches."""
    outline = tree.outline
    found: set[str] = set()
    for name in names:
        # A full path selects only that branch; otherwise the name may match branches at any depth.
        exact = outline.index_by_path.get(name)
        indices = [exact] if exact is not None else tree.indices(filter_name=name)
        if not indices:
            raise NoSuchKeyError(f"no branch of tree {tree.path} matches {name!r}", path=tree.file_path)
        found.update(outline.paths[one] for index in indices for one in (index, *outline.below(index)))
    return found


def _mask_of_expression(tree: Tree, where: str) -> Mask:
    """Return a mask of the entries for which the expression is true."""
    parts = tree.iterate([where], step_size=STEP_BYTES)
    return np.concatenate([np.zeros(0, bool), *(_checked(part[where], len(part), tree) for part in parts)])


def _mask_of_chunks(tree: Tree, file: DataFile, select: SelectChunk) -> Mask:
    """Return a mask of the entries that the function ``select`` keeps.

    The function is called for the first entries to detect the branches that it needs, which are then prefetched.
    """
    masks = [np.zeros(0, bool)]
    branches: list[str] = []
    learned = min(LEARN_ENTRIES, tree.num_entries)
    for start, stop in ((0, learned), (learned, tree.num_entries)):
        step = STEP_BYTES if branches else max(tree.num_entries_for(STEP_BYTES), 1)
        with ChunkStream([tree.source(start, stop)], branches, step_size=step, access=tree.file.access) as stream:
            for chunk in stream:
                masks.append(_checked(select(chunk, file), len(chunk), tree))
                branches += [name for name in chunk.late_branches if name not in branches]
    return np.concatenate(masks)


def _on_chunks(select: Select) -> SelectChunk:
    """Convert a function of events to a function of chunks.

    The function of events gets a record array with all branches and groups of a chunk, which are read on access.
    """

    def select_chunk(chunk: Chunk, _: DataFile) -> object:
        shape = chunk.shape
        shape.learn_types(shape.readable)
        fields = {**shape.groups, **{name: name for name in shape.readable}}
        return select(lazy_array(fields, len(chunk), shape.empty, lambda path: chunk.array(path).layout))

    return select_chunk


def _checked(answer: object, entries_count: int, tree: Tree) -> Mask:
    try:
        mask = np.asarray(answer)
    except ValueError:
        mask = np.zeros(())
    if mask.shape != (entries_count,) or mask.dtype.kind not in "biuf":
        raise ExpressionError(
            "the selection does not return one truth value for each entry",
            path=tree.file_path,
            hint="use any(...) or all(...) to reduce several values of an entry to one",
        )
    # Reject floats: NaN would count as true, so entries whose value cannot be computed would be kept.
    if mask.dtype.kind == "f":
        raise ExpressionError(
            f"the selection returns {mask.dtype} instead of a truth value for each entry",
            path=tree.file_path,
            hint="compare it with something, as in (pt / mass) > 0.5, or != 0",
        )
    return mask.astype(bool)
