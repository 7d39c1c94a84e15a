"""What a collection is made of: partitions, their lengths, and the fields that all trees have."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import awkward as ak

from branchline.errors import DatasetError
from branchline.reading.dask.partitions import (
    GivenTree,
    OpenedTree,
    Part,
    Range,
    entries_of_step,
    first_tree,
    opened_trees,
    shares,
)
from branchline.reading.request import ReadRequest
from branchline.reading.trees.selection import BranchField, Field
from branchline.reading.trees.tree import Tree


@dataclass(frozen=True)
class PartitionPlan:
    """Partitions, their lengths if these are known, and the fields of all trees. ``tree`` is the first one; None if no
    file was opened.
    """

    parts: Sequence[Part]
    lengths: Sequence[int] | None
    tree: Tree | None
    fields: Mapping[str, Field]

    @property
    def divisions(self) -> tuple[int, ...] | None:
        """Entries at which partitions begin, over all files, and the end."""
        return None if self.lengths is None else (0, *itertools.accumulate(self.lengths))

    def with_full_paths(self) -> PartitionPlan:
        """The same with fields under their paths in the tree."""
        return replace(self, fields={getattr(one, "path", name): one for name, one in self.fields.items()})

    @classmethod
    def of(
        cls, given: Sequence[GivenTree], request: ReadRequest, step_size: int | str | None, steps_per_file: int
    ) -> PartitionPlan:
        """That of files which are opened now."""
        trees = opened_trees(given, request.access, allow_missing=request.allow_missing)
        ranges = []
        for one in trees:
            is_cut = one.given.steps is not None
            entries = None if is_cut else entries_of_step(one.tree, step_size, steps_per_file, request)
            ranges += one.ranges(entries)
        if not ranges:
            ranges = [Range(trees[0].tree.file_path, trees[0].tree.object_path.lstrip("/"), 0, 0)]
        return cls(ranges, [len(one) for one in ranges], trees[0].tree, _common_fields(trees, request))

    @classmethod
    def unopened(
        cls,
        given: Sequence[GivenTree],
        request: ReadRequest,
        steps_per_file: int,
        known_base_form: ak.forms.Form | None,
    ) -> PartitionPlan:
        """That of files which are opened when something is computed, but for the first."""
        parts = shares(given, steps_per_file)
        lengths = [len(one) for one in parts if isinstance(one, Range)] if given[0].steps is not None else None
        if known_base_form is not None:
            return cls(parts, lengths, None, {name: BranchField(name) for name in known_base_form.fields})
        tree = first_tree(given, request.access, allow_missing=request.allow_missing)
        return cls(parts, lengths, tree, dict(tree.selection(request).fields))


def _common_fields(trees: Sequence[OpenedTree], request: ReadRequest) -> dict[str, Field]:
    """The fields of the first tree of which all trees have the branches. Raises DatasetError if there are none."""
    fields = dict(trees[0].tree.selection(request).fields)
    for one in trees[1:]:
        readable = one.tree.shape.readable_set
        fields = {name: field for name, field in fields.items() if readable.issuperset(field.paths())}
    if not fields:
        what = "no branch that can be read is in all of the trees" if len(trees) > 1 else "no branch is selected"
        raise DatasetError(what, path=trees[0].tree.file_path, hint="check the filters, and that the trees are alike")
    return fields
