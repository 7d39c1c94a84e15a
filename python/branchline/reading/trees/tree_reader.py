"""Reads a selection of a tree and assembles the result."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import awkward as ak
import numpy as np

from branchline.errors import OptionError
from branchline.reading.arrays.layouts import BACKEND
from branchline.reading.arrays.lazy import AccessLog, lazy_array
from branchline.reading.arrays.libraries import array_of, group_of
from branchline.reading.arrays.nesting import Group, groups_of, nested_layout
from branchline.reading.request import ONE_STEP, ChunkLength, ReadRequest
from branchline.reading.trees.selection import BranchField, Columns, Field, GroupField, Selected, Selection
from branchline.reading.trees.stream import Chunk, ChunkStream

if TYPE_CHECKING:
    from branchline.reading.trees.handles import BranchesHandle, TreeHandle


def columns_of(chunk: Chunk) -> Columns:
    """The columns of a chunk."""
    return Columns(chunk.entry_start, len(chunk), {path: chunk.column(path) for path in chunk.branches})


def read(
    tree: TreeHandle, selection: Selection, request: ReadRequest, under: BranchesHandle | None = None
) -> ReadResult:
    """Read a range of entries: in one step if its stored bytes fit the memory limit, so that values are decoded in
    place; otherwise chunk by chunk.
    """
    start, stop = request.range_in(tree.entries_count)
    paths = selection.paths()
    if start == stop:
        columns = Columns(start, 0, dict(zip(paths, tree.empty_columns(paths), strict=True)))
        return ReadResult(selection, [selection.of(columns)], request, under)
    if not paths:
        return ReadResult(selection, [selection.of(Columns(start, stop - start, {}))], request, under)
    of_stream = request.stream(paths, step=ChunkLength.of(ONE_STEP), keeps_values=True)
    with ChunkStream.of([tree.source(start, stop)], of_stream) as stream:
        return ReadResult(selection, [selection.of(columns_of(chunk)) for chunk in stream], request, under)


class Accessed(NamedTuple):
    """An access to a buffer of a virtual array, and the branch that was read for it. Only the first access to a branch
    is listed.
    """

    branch: str
    buffer_key: str


def read_lazily(tree: TreeHandle, selection: Selection, request: ReadRequest, access_log: AccessLog | None) -> ak.Array:
    """Return an array whose fields are read when one of their values is first accessed; ``access_log`` records these
    accesses.
    """
    start, stop = request.range_in(tree.entries_count)
    plain = replace(request, how=None)

    def column(path: str) -> ak.contents.Content:
        return read(tree, Selection({path: BranchField(path)}), plain).single().layout

    paths = selection.paths()
    tree.shape.learn_types(paths)
    fields = groups_of(tree.outline, paths) if request.is_nested else _members(selection.fields)
    note = None if access_log is None else lambda path, key: access_log.append(Accessed(path, key))
    return lazy_array(fields, stop - start, tree.shape.empty, column, note)


def _members(fields: Mapping[str, Field]) -> dict[str, str | Group]:
    """Plain branches and groups, without computed fields."""
    members: dict[str, str | Group] = {}
    for name, field in fields.items():
        if isinstance(field, BranchField):
            members[name] = field.path
        elif isinstance(field, GroupField):
            members[name] = Group(_members(field.members))
    return members


class ReadResult:
    """The parts of a selection, concatenated, in the format that a request asks for.

    ``under`` is the tree or branch that provides the titles for ``ak_add_doc`` and the grouping for ``how="nested"``.
    """

    def __init__(
        self,
        selection: Selection,
        parts: Sequence[Selected],
        request: ReadRequest,
        under: BranchesHandle | None = None,
    ) -> None:
        self._selection = selection
        self._request = request
        self._under = under
        self._record = _joined([part.record for part in parts], selection)
        self._entries = _entries_of([part.entries for part in parts])

    def single(self) -> Any:
        """The only field."""
        typename = next(iter(self._typenames().values()), "")
        return array_of(self._documented().contents[0], self._request.library, self._entries, typename)

    def group(self) -> Any:
        """All fields together."""
        record, library = self._documented(), self._request.library
        if self._request.is_nested and self._under is not None:
            return group_of(self._nested(record, self._under), library, None, self._entries)
        return group_of(record, library, self._request.how, self._entries, self._typenames())

    def _typenames(self) -> dict[str, str]:
        """C++ types of the fields that are branches; only needed to convert objects to NumPy."""
        if self._request.library != "np" or self._under is None:
            return {}
        tree, fields = self._under.tree, self._selection.fields
        return {name: tree[one.path].typename for name, one in fields.items() if isinstance(one, BranchField)}

    def _nested(self, record: ak.contents.RecordArray, under: BranchesHandle) -> ak.contents.RecordArray:
        """Return the record with related branches combined into groups. Computed fields are unchanged."""
        contents = dict(zip(record.fields, record.contents, strict=True))
        branches: dict[str, ak.contents.Content] = {}
        others: dict[str, str | Group] = {}
        for name, field in self._selection.fields.items():
            if isinstance(field, BranchField):
                branches[field.path] = contents[name]
            else:
                others[name] = name
        groups = groups_of(under.tree.outline, branches)
        layouts = {**contents, **branches}
        nested = nested_layout(Group({**groups, **others}), layouts.__getitem__, len(record))
        return nested.copy(parameters=record.parameters)

    def _documented(self) -> ak.contents.RecordArray:
        """The record with the titles or attributes that ``ak_add_doc`` asks for."""
        doc, under = self._request.add_doc, self._under
        if not doc or self._request.library != "ak" or under is None:
            return self._record
        wanted = {"__doc__": "title"} if isinstance(doc, bool) else dict(doc)
        contents = []
        for field, content in zip(self._selection.fields.values(), self._record.contents, strict=True):
            if isinstance(field, BranchField | GroupField):
                branch = under.tree[field.path]
                texts = {key: _attribute(branch, name) for key, name in wanted.items()}
                content = content.copy(parameters={**content.parameters, **texts})
            contents.append(content)
        texts = {key: _attribute(under, name) for key, name in wanted.items()}
        return ak.contents.RecordArray(
            contents, self._record.fields, length=self._record.length, parameters=texts, backend=BACKEND
        )


def _attribute(of: object, name: str) -> object:
    value = getattr(of, name, None)
    if value is None:
        raise OptionError(f"ak_add_doc: {of!r} has no {name!r}", hint='use "title", "name" or "typename"')
    return value


def _joined(records: Sequence[ak.contents.RecordArray], selection: Selection) -> ak.contents.RecordArray:
    if len(records) == 1:
        return records[0]
    if not selection.fields or not records:
        return ak.contents.RecordArray([], [], length=sum(len(record) for record in records))
    return ak.concatenate([ak.Array(record) for record in records], highlevel=False)


def _entries_of(parts: Sequence[Any]) -> object:
    """Concatenate entry numbers; consecutive ranges become one range."""
    if all(isinstance(part, range) for part in parts):
        follow = all(one.stop == other.start for one, other in itertools.pairwise(parts))
        if parts and follow:
            return range(parts[0].start, parts[-1].stop)
    return np.concatenate([np.asarray(part, dtype="i8") for part in parts]) if parts else range(0)
