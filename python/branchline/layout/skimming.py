"""Trees with less in them: some of their branches (slim), or those of their entries that are wanted (skim)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from branchline.access import Access
from branchline.dataset import DataFile, Dataset
from branchline.errors import DatasetError, ExpressionError, NoSuchKeyError, OptionError
from branchline.layout.merging import Kept, MergeResult, merge
from branchline.layout.targets import check_root_name
from branchline.tree import Chunk, ChunkStream, File, Tree
from branchline.tree.lazy import lazy_array

Mask = npt.NDArray[np.bool_]

#: What a selection reads at a time.
STEP_BYTES = "50 MB"
#: Entries that are read before all others, to see which branches a selection needs.
LEARN_ENTRIES = 1000
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
    access: Access | None = None,
    **options: Any,
) -> MergeResult:
    """Merges files as `merge` does, with only some branches of a tree: ``branches``, or all but those to ``drop``.

    Names may be patterns. A branch is kept with those below it, those that it belongs to and those that count its
    elements. The tree is the only one of the first file, whose other objects are merged too, or the one that is named,
    and then nothing else. ``options`` are those of `merge`. Raises what `merge` raises, and `NoSuchKeyError` for names
    that no branch has.
    """
    if (branches is None) == (drop is None):
        raise OptionError("either the branches that are kept are named, or those to drop")
    first = next(iter(Dataset.of(inputs)))
    with _opened(first, access) as file:
        found = file.tree(first.tree if first.tree is not None else tree)
        named = _with_those_below(found, branches if branches is not None else drop or ())
        every = set(found.outline.paths)
        path = found.path
    kept = named if branches is not None else every - named
    if not kept:
        raise OptionError(f"no branch of the tree {path} would be left")
    return merge(inputs, output, tree=tree, access=access, kept=Kept(branches={path: kept}), **options)


def skim(
    inputs: Any,
    output: str | os.PathLike[str],
    *,
    where: str | Select | None = None,
    select_chunk: SelectChunk | None = None,
    tree: str | None = None,
    access: Access | None = None,
    **options: Any,
) -> MergeResult:
    """Merges files as `merge` does, with those entries of a tree that are selected.

    ``where`` is an expression with one value for each entry, as ``arrays`` takes them, or a function that gets a record
    array of events, of which it reads what it touches, and returns one truth value for each: ``lambda events:
    events.nMuon > 1``. Branches that belong together are records too: ``events.Muon.pt`` is ``events.Muon_pt``.
    ``select_chunk`` in its place gets chunks. Entries come to new baskets; ``options`` are those of `merge`. The tree
    is the only one of the files, whose other objects are merged too, or the one that is named, and then nothing else.
    Raises what `merge` raises, and `ExpressionError` for an expression that does not fit.
    """
    check_root_name(output)
    if (where is None) == (select_chunk is None):
        raise OptionError("a skim needs either an expression or function, or a function of chunks")
    select = select_chunk if where is None or isinstance(where, str) else _on_chunks(where)
    selections = {}
    path = tree
    for one in Dataset.of(inputs):
        with _opened(one, access) as file:
            found = file.tree(one.tree if one.tree is not None else tree)
            path = found.path
            mask = _mask_of_expression(found, str(where)) if select is None else _mask_of_chunks(found, one, select)
            selections[one.path] = (np.packbits(mask).tobytes(), found.num_entries)
    return merge(inputs, output, tree=tree, access=access, kept=Kept(entries=selections, selected=path), **options)


def _opened(file: DataFile, access: Access | None) -> File:
    if file.entry_start != 0 or file.entry_stop is not None:
        raise DatasetError("files are merged whole, not a range of entries", path=file.path)
    return File(file.opens, access=access)


def _with_those_below(tree: Tree, names: Sequence[str]) -> set[str]:
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
            "the selection does not give one number for each entry",
            path=tree.file_path,
            hint="any(...) or all(...) makes one of the values of an entry",
        )
    return mask.astype(bool)
