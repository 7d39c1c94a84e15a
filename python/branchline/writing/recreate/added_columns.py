"""Columns that are added to a tree that has entries already."""

from __future__ import annotations

from dataclasses import dataclass

import awkward as ak
import numpy as np

from branchline.errors import OptionError, UnsupportedBranchError


def zeros_of(layout: ak.contents.Content, count: int) -> ak.contents.Content:
    """Return ``count`` values of a type that are 0, empty or missing. Raises UnsupportedBranchError for unions."""
    if layout.is_indexed and not layout.is_option:
        return zeros_of(layout.project(), count)
    if layout.is_option:
        missing = ak.index.Index64(np.full(count, -1, dtype="i8"))
        return ak.contents.IndexedOptionArray(missing, layout.content[:0], parameters=layout.parameters)
    if layout.is_numpy:
        zeros = np.zeros((count, *layout.data.shape[1:]), layout.data.dtype)
        return ak.contents.NumpyArray(zeros, parameters=layout.parameters)
    if layout.is_regular:
        content = zeros_of(layout.content, count * layout.size)
        return ak.contents.RegularArray(content, layout.size, count, parameters=layout.parameters)
    if layout.is_list:
        offsets = ak.index.Index64(np.zeros(count + 1, dtype="i8"))
        return ak.contents.ListOffsetArray(offsets, layout.content[:0], parameters=layout.parameters)
    if layout.is_record:
        contents = [zeros_of(content, count) for content in layout.contents]
        fields = None if layout.is_tuple else layout.fields
        return ak.contents.RecordArray(contents, fields, count, parameters=layout.parameters)
    raise UnsupportedBranchError(f"values of the type {layout.form.type} have no zero", hint="give the values")


@dataclass
class AddedColumns:
    """The columns of a tree, to which others are added."""

    columns: dict[str, ak.contents.Content]
    path: str
    file_path: str

    def add(self, name: str, sample: ak.contents.Content, *, is_nested: bool) -> None:
        """Add a column, or if ``is_nested`` a member of a record by a name such as ``jet.pt``. Raises OptionError."""
        first, _, rest = name.partition(".") if is_nested else (name, "", "")
        if not rest:
            if name in self.columns:
                raise self.taken_error(name)
            self.columns[name] = sample
        elif first not in self.columns:
            raise self._error(f"{first} is not found, to which {name} would belong")
        else:
            self.columns[first] = self._with_member(self.columns[first], rest.split("."), name, sample)

    def _with_member(
        self, record: ak.contents.Content, parts: list[str], name: str, sample: ak.contents.Content
    ) -> ak.contents.Content:
        if not record.is_record or record.is_tuple:
            what = f"{name} cannot be added to what has the type {record.form.type} and is not a record"
            raise self._error(what)
        own, *rest = parts
        members = {field: record.content(field) for field in record.fields}
        if rest:
            if own not in members:
                raise self._error(f"{own} is not found, to which {name} would belong")
            members[own] = self._with_member(members[own], rest, name, sample)
        elif own in members:
            raise self.taken_error(name)
        else:
            members[own] = sample
        return ak.contents.RecordArray(list(members.values()), list(members), len(record), parameters=record.parameters)

    def taken_error(self, name: str) -> OptionError:
        """Return the error for a name that a branch has already."""
        return self._error(f"{name} already exists")

    def _error(self, what: str) -> OptionError:
        hint = f"the columns are {', '.join(self.columns)}"
        return OptionError(f"tree {self.path}: {what}", path=self.file_path, hint=hint)
