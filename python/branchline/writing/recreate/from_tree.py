"""What a tree that was opened becomes in a file that is being written: its columns, and the names of its counters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import awkward as ak

from branchline.base.limits import STREAMED_STEP
from branchline.errors import BadFileError, UnsupportedBranchError
from branchline.reading.trees.tree import Tree
from branchline.writing.recreate.values import Naming, branches_of, named_columns


@dataclass(frozen=True)
class StreamedTree:
    """A tree whose values are read step by step; counters of arrays keep their names and are written with these."""

    tree: Tree
    columns: dict[str, ak.contents.Content]
    naming: Naming

    @classmethod
    def of(cls, tree: Tree) -> StreamedTree:
        """Raises what reading raises; branches that cannot be read are left out with a warning."""
        columns = named_columns(tree.arrays(entry_stop=0))
        if tree.outline.nests:
            return cls(tree, columns, Naming())
        counters = _counters_of(tree, columns)
        left = {name: layout for name, layout in columns.items() if name not in counters.values()}
        for name in left.keys() - counters.keys():
            counters[name] = Naming().counter(name)
            # Such as the branch with the lengths of vectors, which counts no array.
            while counters[name] in columns:
                counters[name] += "_"
        return cls(tree, left, Naming(counter=lambda name: counters.get(name) or Naming().counter(name)))

    def steps(self) -> Iterator[ak.Array]:
        """Its columns for all entries, in steps of bounded size."""
        for part in self.tree.iterate(step_size=STREAMED_STEP):
            yield part[list(self.columns)]


def _counters_of(tree: Tree, columns: dict[str, ak.contents.Content]) -> dict[str, str]:
    """The branches that count the elements of those columns that become arrays again."""
    outline = tree.outline
    data = [index for index, kind in enumerate(outline.kinds) if kind == "data"]
    numbers = {outline.names[index]: index for index in data} | {outline.paths[index]: index for index in data}
    counters = {}
    for name, layout in columns.items():
        counter = outline.counts[numbers[name]] if name in numbers else None
        made = list(branches_of(name, layout, Naming()))
        if counter is not None and len(made) == 1 and made[0].counter is not None:
            counters[name] = outline.names[counter]
    return counters


def not_copied_error(
    tree: Tree, not_copied: BadFileError | UnsupportedBranchError, not_written: BadFileError | UnsupportedBranchError
) -> BadFileError | UnsupportedBranchError:
    """Why neither the baskets of a tree nor its values can be written."""
    what = f"tree {tree.path} cannot be copied: {not_copied.what}"
    if not_written.what != not_copied.what:
        what += f"; nor can its values be written: {not_written.what}"
    hint = "write the branches that can be read: file[name] = tree.arrays([...])"
    return type(not_copied)(what, path=tree.file_path, hint=hint)
