"""Writes a ROOT file with a TTree of flat columns, whose arrays have counters."""

from __future__ import annotations

import awkward as ak
import numpy as np
from numpy.typing import NDArray

from branchline import _core
from branchline.errors import BranchlineError, OptionError, UnsupportedBranchError
from branchline.reading.trees.file import File
from branchline.writing.columns.columns import has_nul, lists_of
from branchline.writing.columns.fields import FieldPlan
from branchline.writing.columns.flat_columns import tree_can_hold
from branchline.writing.columns.flat_plan import FlatPlan
from branchline.writing.columns.output_file import FileSize, Layout, NewTable, Target


class CountedTreeFile:
    """Writes a ROOT file, which has a temporary name until it is complete."""

    def __init__(self, target: Target, layout: Layout, plan: FieldPlan, sample: ak.Array) -> None:
        assert isinstance(plan, FlatPlan)
        deep = ",".join(column.name for column in plan.flat if not tree_can_hold(column.sample))
        if deep:
            hint = f"write an RNTuple, with --to rntuple, or leave them out: --drop '{deep}'"
            raise UnsupportedBranchError(f"a TTree cannot hold lists nested so deeply: {deep}", hint=hint)
        # Raises if the output exists or is one of the inputs.
        _core.NewFile(target.path, target.inputs, target.force).abandon()
        self._target = target
        names, columns = [column.name for column in plan.flat], plan.columns(plan.layouts(sample))
        counters = [column.counter for column in plan.flat]
        none: list[list[tuple[str, str]]] = [[] for _ in names]
        try:
            self._core = _core.WritableFile(target.path.absolute(), target.force, layout.codec)
            table = NewTable(target.name, target.title, layout, names, columns, counters, none, {}, None)
            self._number = self._core.add_table([], table)
        except ValueError as error:
            raise OptionError(str(error)) from None

    def fill(self, plan: FieldPlan, chunk: ak.Array) -> None:
        """Append a chunk."""
        assert isinstance(plan, FlatPlan)
        layouts = plan.layouts(chunk)
        firsts: dict[str, NDArray[np.int64]] = {}
        for column, layout in zip(plan.flat, layouts, strict=True):
            if column.counter is not None:
                offsets = lists_of(layout).offsets.data
                if not np.array_equal(firsts.setdefault(column.counter, offsets), offsets):
                    message = f"{column.origin} has different numbers of elements than other members of its collection"
                    raise BranchlineError(message)
            elif has_nul(layout):
                hint = f"write an RNTuple, with --to rntuple, or leave it out: --drop '{column.name}'"
                message = f"branch {column.origin}: a string has a NUL character, at which ROOT would truncate it"
                raise UnsupportedBranchError(message, hint=hint)
        self._core.fill(self._number, plan.columns(layouts), len(chunk))

    def finish(self) -> FileSize:
        """Finish the file."""
        size_bytes = self._core.finish()
        tree = File(str(self._target.path)).tree(self._target.name)
        # All clusters except the last one have the same number of entries.
        return FileSize(-(-tree.num_entries // tree.member("fAutoFlush")), size_bytes)

    def abandon(self) -> None:
        """Remove the unfinished file."""
        self._core.abandon()
