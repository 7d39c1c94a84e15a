"""Trees with less in them: some of their branches (slim), or some of their entries (skim)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypedDict

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
from branchline.writing.merging.merge import EntrySelection, MergeProgress, MergeResult, Order, TreeSelection, merge

if TYPE_CHECKING:
    from typing import Unpack

#: What a selection reads at a time.
STEP_BYTES = "50 MB"
#: Entries that are read before all others, to see which branches a selection needs.
LEARN_ENTRIES = 1000

Mask = npt.NDArray[np.bool_]

#: Gives one truth value for each event of a record array: whether it is kept.
Select = Callable[[Any], Any]
#: The same for the events of a chunk, with the file of the dataset that it is from.
SelectChunk = Callable[[Chunk, DataFile], Any]


def slim(
    inputs: Any,
    output: str | os.PathLike[str],
    *,
    branches: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    tree: str | None = None,
    only_tree: bool = False,
    access: Access | None = None,
    **options: Unpack[MergeOptions],
) -> MergeResult:
    """Merges files as `merge` does, with only some branches of a tree: ``branches``, or all but those to ``drop``.

    Names may be patterns. A branch is kept with those below it, those that it belongs to and those that count its
    elements. ``tree`` names the tree; without it, it is the only one of the first file that has such branches. All
    other trees and objects are kept whole; with ``only_tree`` they are left out. ``options`` are those of `merge`.
    Raises what `merge` raises, `NoSuchKeyError` for names that no branch has, and `DatasetError` if several trees fit.

    Example:
        >>> branchline.slim("data/*.root", "small.root", drop=["*_eta"]).entries
        6
        >>> branchline.open("small.root:Events").keys()
        ['nMuon', 'Muon_pt']

    """
    if (branches is None) == (drop is None):
        raise OptionError("a slim needs either the branches to keep or those to drop")
    names = list(branches if branches is not None else drop or ())
    files, tree = _files(inputs, tree)
    others = Others()
    with _opened(files[0], access) as file:
        found = _chosen_tree(file, tree, lambda one: _with_those_below(one, names))
        named = _with_those_below(found, names)
        every = set(found.outline.paths)
        path = found.path
        others.add(file, path)
    kept = named if branches is not None else every - named
    if not kept:
        raise OptionError(f"no branch of the tree {path} would be left")
    wanted = TreeSelection(branches={path: kept})
    made = merge(files, output, tree=path if only_tree else None, access=access, selection=wanted, **options)
    note = f"tree {path}: {count(len(kept))} of {counted(len(every), 'branch', 'branches')} are kept"
    return others.described(made, note, only_tree=only_tree)


def skim(
    inputs: Any,
    output: str | os.PathLike[str],
    *,
    where: str | Select | None = None,
    select_chunk: SelectChunk | None = None,
    tree: str | None = None,
    only_tree: bool = False,
    access: Access | None = None,
    **options: Unpack[MergeOptions],
) -> MergeResult:
    """Merges files as `merge` does, with those entries of a tree that are selected.

    ``where`` is an expression with one truth value or integer for each entry, as ``arrays`` takes them, or a function
    that gets a record array of events, of which it reads what it touches, and returns the same. Branches that belong
    together are records too: ``events.Muon.pt`` is ``events.Muon_pt``. ``select_chunk`` in its place gets chunks.
    Entries come to new baskets. ``tree`` names the tree; without it, it is the only one of the first file that has the
    branches of the expression. All other trees and objects are kept whole, and the baskets of these trees are copied;
    with ``only_tree`` they are left out. ``options`` are those of `merge`; sizes of baskets or clusters are for all
    trees. Raises what `merge` raises, `ExpressionError` for an expression that does not fit,
    and `DatasetError` if several trees fit.

    Example:
        >>> branchline.skim("data/*.root", "pairs.root", where="nMuon > 1").entries
        2

    """
    check_root_name(output)
    if (where is None) == (select_chunk is None):
        raise OptionError("a skim needs either an expression or function, or a function of chunks")
    select = select_chunk if where is None or isinstance(where, str) else _on_chunks(where)
    files, path = _files(inputs, tree)
    others, selections = Others(), {}
    kept_count = entries_count = 0
    for one in files:
        with _opened(one, access) as file:
            found = _chosen_tree(
                file,
                path,
                lambda one: one.selection(ReadRequest.of(expressions=where)) if isinstance(where, str) else None,
            )
            path = found.path
            mask = _mask_of_expression(found, str(where)) if select is None else _mask_of_chunks(found, one, select)
            selections[one.path] = EntrySelection(np.packbits(mask).tobytes(), found.num_entries)
            kept_count, entries_count = kept_count + int(mask.sum()), entries_count + len(mask)
            others.add(file, path)
    wanted = TreeSelection(entries=selections, selected=path)
    made = merge(files, output, tree=path if only_tree else None, access=access, selection=wanted, **options)
    note = f"tree {path}: {count(kept_count)} of {counted(entries_count, 'entry', 'entries')} are kept"
    return others.described(made, note, only_tree=only_tree)


class MergeOptions(TypedDict, total=False):
    """Options of `merge`, which has their meanings and defaults."""

    order: Order
    codec: str | None
    basket_size: int | str | None
    cluster_events: int | None
    cluster_bytes: int | str | None
    max_size: int | str | None
    fill_missing_branches: bool
    skip_bad_files: bool
    verify: bool
    memory_limit: int | str
    force: bool
    resume: bool
    sync: bool
    progress: Callable[[MergeProgress], None] | None


@dataclass
class Others:
    """The trees and other objects of files that a skim or slim does not change."""

    trees: dict[str, None] = field(default_factory=dict)
    objects: set[str] = field(default_factory=set)

    def add(self, file: File, tree: str) -> None:
        """Adds those of a file with this tree."""
        classes = file.classnames(cycle=False)
        trees = file.trees()
        self.trees |= dict.fromkeys(name for name in trees if name != tree)
        self.objects |= {
            name
            for name, classname in classes.items()
            if name not in trees and not classname.startswith("TDirectory") and classname != "TProcessID"
        }

    def described(self, made: MergeResult, note: str, *, only_tree: bool) -> MergeResult:
        """The result with notes on the tree, and on the other trees and objects."""
        names = ["trees " if len(self.trees) > 1 else "tree ", ", ".join(self.trees)] if self.trees else []
        parts = ["".join(names)] if names else []
        if self.objects:
            parts.append(counted(len(self.objects), f"{'other ' if parts else ''}object"))
        left_out, notes = made.left_out, (*made.notes, note)
        if parts and only_tree:
            left_out += (" and ".join(parts),)
        elif parts:
            notes += (f"kept whole: {' and '.join(parts)}",)
        return made._replace(left_out=left_out, notes=notes)


def _files(inputs: Any, tree: str | None) -> tuple[list[DataFile], str | None]:
    """The files without the names of trees, and the one tree that is named. Raises DatasetError if there are several.

    A tree that is named with a file (``file.root:tree``) is the one to change; merging keeps all others.
    """
    files = list(Dataset.of(inputs))
    if not files:
        raise DatasetError("there is nothing to merge")
    trees = {one.tree if one.tree is not None else tree for one in files}
    if len(trees) > 1:
        raise DatasetError(f"several trees are named: {', '.join(sorted(str(name) for name in trees))}")
    return [replace(one, tree=None) for one in files], trees.pop()


def _opened(file: DataFile, access: Access | None) -> File:
    if file.entry_start != 0 or file.entry_stop is not None:
        raise DatasetError("files are merged whole, not a range of entries", path=file.path)
    return File(file.opens, access=access)


def _chosen_tree(file: File, name: str | None, check: Callable[[Tree], Any]) -> Tree:
    """The tree with a name; without one the only tree that ``check`` does not raise for. Raises DatasetError."""
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
        f"the file has several trees that may be meant: {names}",
        path=file.path,
        hint="name one of them: --tree NAME, tree=NAME; the others are kept whole",
    )


def _with_those_below(tree: Tree, names: Iterable[str]) -> set[str]:
    """The paths of the branches that these names mean, and of all below them."""
    outline = tree.outline
    found: set[str] = set()
    for name in names:
        # A whole path means that branch; else names of branches at whatever depth may be like it.
        exact = outline.index_by_path.get(name)
        indices = [exact] if exact is not None else tree.indices(filter_name=name)
        if not indices:
            raise NoSuchKeyError(f"no branch of tree {tree.path} is like {name!r}", path=tree.file_path)
        found.update(outline.paths[one] for index in indices for one in (index, *outline.below(index)))
    return found


def _mask_of_expression(tree: Tree, where: str) -> Mask:
    """Whether each entry is kept."""
    parts = tree.iterate([where], step_size=STEP_BYTES)
    return np.concatenate([np.zeros(0, bool), *(_checked(part[where], len(part), tree) for part in parts)])


def _mask_of_chunks(tree: Tree, file: DataFile, select: SelectChunk) -> Mask:
    """The same. Branches that the first entries needed are read ahead for all others."""
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
    """The selection by a function of events: a record array of all branches and groups, read when they are touched."""

    def select_chunk(chunk: Chunk, _: DataFile) -> Any:
        shape = chunk.shape
        shape.learn_types(shape.readable)
        fields = {**shape.groups, **{name: name for name in shape.readable}}
        return select(lazy_array(fields, len(chunk), shape.empty, lambda path: chunk.array(path).layout))

    return select_chunk


def _checked(answer: Any, entries_count: int, tree: Tree) -> Mask:
    try:
        mask = np.asarray(answer)
    except ValueError:
        mask = np.zeros(())
    if mask.shape != (entries_count,) or mask.dtype.kind not in "biuf":
        raise ExpressionError(
            "the selection does not give one truth value for each entry",
            path=tree.file_path,
            hint="any(...) or all(...) makes one of the values of an entry",
        )
    # As truth values NaN would be true, and with it what cannot be calculated kept.
    if mask.dtype.kind == "f":
        raise ExpressionError(
            f"the selection gives {mask.dtype} for each entry, and not a truth value",
            path=tree.file_path,
            hint="compare it with something, as in (pt / mass) > 0.5, or != 0",
        )
    return mask.astype(bool)
