"""Awkward arrays whose columns are read on first access."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import awkward as ak
import numpy as np

from branchline.errors import BranchlineError
from branchline.reading.arrays.nesting import Group, elements_of

BUFFER_KEY = "{form_key}/{attribute}"
ReadColumn = Callable[[str], ak.contents.Content]
#: Callback for each accessed buffer; gets the branch path and the buffer key.
Note = Callable[[str, str], None]


def lazy_array(
    fields: Mapping[str, str | Group],
    entries_count: int,
    empty: ReadColumn,
    column: ReadColumn,
    note: Note | None = None,
) -> ak.Array:
    """Return a record array of branches and groups that reads each branch on first access.

    ``empty`` returns a branch's layout with zero entries, which defines the type. ``column`` reads the entries of a
    branch, and is called once per branch. ``note`` is called with the branch path and the key of each accessed buffer.
    """
    return LazyRecord(fields, empty).array(entries_count, column, note=note)


class AccessLog(Protocol):
    """Collects the branch path and the key of each buffer that a virtual array accessed."""

    def append(self, accessed: tuple[str, str], /) -> None: ...


class LazyRecord:
    """The form of a record array of branches and groups. It is shared by all chunks of trees with equal branches.

    ``record_name`` is the name of the awkward record type.
    """

    def __init__(self, fields: Mapping[str, str | Group], empty: ReadColumn, record_name: str | None = None) -> None:
        self._empty = empty
        self._branches: list[_Branch] = []
        self._counters: dict[str, str] = {}
        form = self._group(Group(dict(fields)), "@events")
        self._form = form.copy(parameters={"__record__": record_name}) if record_name else form

    def array(self, entries_count: int, column: ReadColumn, *, note: Note | None = None, **options: object) -> ak.Array:
        """Return an array of entries, whose branches are read by ``column`` on first access.

        ``options`` (``behavior``, ``attrs``) are passed to ``ak.from_buffers``. Accessing a branch raises
        BranchlineError if its type differs from the form.
        """
        container: dict[str, Callable[[], Any]] = {}
        for branch in self._branches:
            buffers = _Buffers(branch, column, note)
            for key in branch.keys:
                container[key] = partial(buffers.buffer, key)
        for key, counter in self._counters.items():
            container[key] = partial(_offsets, column, counter, key, note)
        return ak.from_buffers(self._form, entries_count, container, buffer_key=BUFFER_KEY, **options)

    def _group(self, group: Group, key: str) -> ak.forms.Form:
        """Return the form of a group."""
        if group.counter is None:
            return ak.forms.RecordForm(*self._members(group, key, is_inside=False), form_key=key)
        self._counters[BUFFER_KEY.format(form_key=key, attribute="offsets")] = group.counter
        record = ak.forms.RecordForm(*self._members(group, key, is_inside=True), form_key=f"{key}@record")
        return ak.forms.ListOffsetForm("i64", record, form_key=key)

    def _members(self, group: Group, key: str, *, is_inside: bool) -> tuple[list[ak.forms.Form], list[str]]:
        forms: list[ak.forms.Form] = []
        for name, member in group.members.items():
            if not isinstance(member, Group):
                branch = _Branch(member, self._empty(member), is_inside=is_inside)
                self._branches.append(branch)
                forms.append(branch.form)
            elif is_inside:
                inner = self._members(member, f"{key}/{name}", is_inside=True)
                forms.append(ak.forms.RecordForm(*inner, form_key=f"{key}/{name}"))
            else:
                forms.append(self._group(member, f"{key}/{name}"))
        return forms, list(group.members)


def _offsets(column: ReadColumn, counter: str, key: str, note: Note | None) -> Any:
    if note is not None:
        note(counter, key)
    counts = np.asarray(column(counter).data)
    return np.concatenate([np.zeros(1, "i8"), np.cumsum(counts, dtype="i8")])


class _Branch:
    """The form and the buffer keys of a branch. With ``is_inside``, the form and the keys are for the elements of a
    collection's branch.
    """

    def __init__(self, path: str, empty: ak.contents.Content, *, is_inside: bool) -> None:
        self.path = path
        self._is_inside = is_inside
        self.form, buffers = self.keyed(empty)
        self.keys = list(buffers)

    def keyed(self, layout: ak.contents.Content) -> tuple[ak.forms.Form, dict[str, Any]]:
        """Return the form and the buffers of a column. The buffers' keys start with the branch path."""
        if self._is_inside:
            lists = elements_of(self.path, layout)
            layout = lists.content[: lists.offsets[-1]]
        inside = "@elements" if self._is_inside else ""
        form, _, buffers = ak.to_buffers(
            without_blocks(layout), form_key=f"{self.path}{inside}#{{id}}", buffer_key=BUFFER_KEY
        )
        return form, buffers


class _Buffers:
    """The buffers of one branch of a chunk, read on first access."""

    def __init__(self, branch: _Branch, column: ReadColumn, note: Note | None = None) -> None:
        self._branch = branch
        self._note = note
        self._column = column
        self._held: dict[str, Any] | None = None

    def buffer(self, key: str) -> Any:
        if self._note is not None:
            self._note(self._branch.path, key)
        if self._held is None:
            form, self._held = self._branch.keyed(self._column(self._branch.path))
            if form != self._branch.form:
                known = self._branch.form.type
                what = f"branch {self._branch.path} has type {form.type}, but type {known} in previous files"
                raise BranchlineError(what, hint="process files with different types separately")
        return self._held[key]


def without_blocks(layout: ak.contents.Content) -> ak.contents.Content:
    """Convert multidimensional NumPy layouts to regular lists, because awkward reads NumPy data eagerly."""
    if layout.is_numpy:
        return layout.to_RegularArray() if layout.inner_shape else layout
    if layout.is_record or layout.is_union:
        return layout.copy(contents=[without_blocks(content) for content in layout.contents])
    return layout if layout.is_unknown else layout.copy(content=without_blocks(layout.content))
