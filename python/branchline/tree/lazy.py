"""Awkward arrays whose columns are read when something looks into them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import awkward as ak
import numpy as np

from branchline.errors import BranchlineError
from branchline.tree.nesting import Group, elements_of

BUFFER_KEY = "{form_key}/{attribute}"
ReadColumn = Callable[[str], ak.contents.Content]


def lazy_array(
    fields: Mapping[str, str | Group], entries_count: int, empty: ReadColumn, column: ReadColumn, **options: Any
) -> ak.Array:
    """A record array of branches and groups, of which a branch is read when one of its values is wanted.

    ``empty`` gives the layout of a branch without entries, which has its type, ``column`` that of its entries; it is
    called once for a branch. ``options`` are those of ``ak.from_buffers``: ``behavior`` and ``attrs``.
    """
    container = _Container(empty, column)
    form = container.form(Group(dict(fields)), "@events")
    return ak.from_buffers(form, entries_count, container.buffers, buffer_key=BUFFER_KEY, **options)


class _Container:
    """The buffers of branches by their names, each a function that reads."""

    def __init__(self, empty: ReadColumn, column: ReadColumn) -> None:
        self.buffers: dict[str, Callable[[], Any]] = {}
        self._empty = empty
        self._column = column

    def form(self, group: Group, key: str) -> ak.forms.Form:
        """The form of a group, and room for the buffers of its branches."""
        if group.counter is None:
            return ak.forms.RecordForm(*self._members(group, key, is_inside=False), form_key=key)
        counter = group.counter
        self.buffers[BUFFER_KEY.format(form_key=key, attribute="offsets")] = lambda: self._offsets(counter)
        record = ak.forms.RecordForm(*self._members(group, key, is_inside=True), form_key=f"{key}@record")
        return ak.forms.ListOffsetForm("i64", record, form_key=key)

    def _members(self, group: Group, key: str, *, is_inside: bool) -> tuple[list[ak.forms.Form], list[str]]:
        forms = []
        for name, member in group.members.items():
            if not isinstance(member, Group):
                forms.append(self._branch(member, is_inside=is_inside))
            elif is_inside:
                inner = self._members(member, f"{key}/{name}", is_inside=True)
                forms.append(ak.forms.RecordForm(*inner, form_key=f"{key}/{name}"))
            else:
                forms.append(self.form(member, f"{key}/{name}"))
        return forms, list(group.members)

    def _branch(self, path: str, *, is_inside: bool) -> ak.forms.Form:
        """The form of a branch, or ``is_inside`` a collection that of its elements."""
        lazy = _Buffers(path, self._empty(path), self._column, is_inside=is_inside)
        for key in lazy.keys:
            self.buffers[key] = partial(lazy.buffer, key)
        return lazy.form

    def _offsets(self, counter: str) -> Any:
        counts = np.asarray(self._column(counter).data)
        return np.concatenate([np.zeros(1, "i8"), np.cumsum(counts, dtype="i8")])


class _Buffers:
    """The buffers of one branch, read when the first of them is wanted."""

    def __init__(self, path: str, empty: ak.contents.Content, column: ReadColumn, *, is_inside: bool) -> None:
        self._path = path
        self._column = column
        self._is_inside = is_inside
        self._held: dict[str, Any] | None = None
        self.form, buffers = self._keyed(empty)
        self.keys = list(buffers)

    def buffer(self, key: str) -> Any:
        if self._held is None:
            form, self._held = self._keyed(self._column(self._path))
            if form != self.form:
                raise BranchlineError(f"branch {self._path} holds {form.type} and {self.form.type} in turn")
        return self._held[key]

    def _keyed(self, layout: ak.contents.Content) -> tuple[ak.forms.Form, dict[str, Any]]:
        if self._is_inside:
            lists = elements_of(self._path, layout)
            layout = lists.content[: lists.offsets[-1]]
        inside = "@elements" if self._is_inside else ""
        form, _, buffers = ak.to_buffers(
            without_blocks(layout), form_key=f"{self._path}{inside}#{{id}}", buffer_key=BUFFER_KEY
        )
        return form, buffers


def without_blocks(layout: ak.contents.Content) -> ak.contents.Content:
    """The same with regular lists for blocks of several dimensions, whose length awkward would look up at once."""
    if layout.is_numpy:
        return layout.to_RegularArray() if layout.inner_shape else layout
    if layout.is_record or layout.is_union:
        return layout.copy(contents=[without_blocks(content) for content in layout.contents])
    return layout if layout.is_unknown else layout.copy(content=without_blocks(layout.content))
