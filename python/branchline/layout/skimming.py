"""Trees with less in them: some of their branches (slim), or those of their entries that are wanted (skim)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from branchline.access import Access
from branchline.dataset import DataFile, Dataset
from branchline.errors import DatasetError, ExpressionError, NoSuchKeyError, OptionError
from branchline.layout.merging import Kept, MergeResult, merge
from branchline.layout.targets import check_root_name
from branchline.tree import File, Tree

#: What a selection reads at a time.
STEP_BYTES = "50 MB"
#: Says of the events of a chunk which of them are wanted: one truth value for each.
Select = Callable[[Any], Any]


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
    where: str | Select,
    tree: str | None = None,
    access: Access | None = None,
    **options: Any,
) -> MergeResult:
    """Merges files as `merge` does, with those entries of a tree for which an expression holds.

    ``where`` is an expression with one value for each entry, as ``arrays`` takes them, or a function that gets events
    and gives one value for each. Entries come to new baskets; ``options`` are those of `merge`. The tree is the only
    one of the files, whose other objects are merged too, or the one that is named, and then nothing else. Raises what
    `merge` raises, and `ExpressionError` for an expression that does not fit.
    """
    check_root_name(output)
    selections = {}
    path = tree
    for one in Dataset.of(inputs):
        with _opened(one, access) as file:
            found = file.tree(one.tree if one.tree is not None else tree)
            path = found.path
            bits = np.packbits(_mask(found, where))
            selections[one.path] = (bits.tobytes(), found.num_entries)
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


def _mask(tree: Tree, where: str | Select) -> np.ndarray[Any, Any]:
    """Whether each entry is wanted."""
    masks = [np.zeros(0, bool)]
    if isinstance(where, str):
        masks += [_checked(part[where], len(part), tree) for part in tree.iterate([where], step_size=STEP_BYTES)]
    else:
        step = max(tree.num_entries_for(STEP_BYTES), 1)
        for start in range(0, tree.num_entries, step):
            events = tree.arrays(entry_start=start, entry_stop=min(start + step, tree.num_entries), virtual=True)
            masks.append(_checked(where(events), len(events), tree))
    return np.concatenate(masks)


def _checked(answer: Any, entries_count: int, tree: Tree) -> np.ndarray[Any, Any]:
    try:
        mask = np.asarray(answer)
    except ValueError:
        mask = np.zeros(())
    if mask.shape != (entries_count,) or mask.dtype.kind not in "biuf":
        raise ExpressionError(
            "what selects entries has no one number for each of them",
            path=tree.file_path,
            hint="any(...) or all(...) makes one of the values of an entry",
        )
    return mask.astype(bool)
