"""Values that may be missing, of which none is: formats such as Parquet say of almost every column that they may be."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np


def whole(layout: ak.contents.Content) -> ak.contents.Content:
    """The same without options of which nothing is missing."""
    if not misses(layout):
        return layout
    return ak.transform(_without_option, ak.to_packed(layout, highlevel=False), highlevel=False)


def _without_option(layout: ak.contents.Content, **_: Any) -> ak.contents.Content | None:
    if layout.is_union:
        return layout
    if not layout.is_option:
        return None
    if is_list(layout.content) and holds_records(layout.content.content):
        return whole(filled_with_empty(layout))
    is_there = np.asarray(layout.mask_as_bool(valid_when=True))
    return whole(layout.project()) if is_there.all() else layout


def misses(layout: ak.contents.Content) -> bool:
    """Whether values of a layout may be missing."""
    if layout.is_record or layout.is_union:
        return any(misses(one) for one in layout.contents)
    is_end = layout.is_numpy or layout.is_unknown
    return bool(layout.is_option or (not is_end and misses(layout.content)))


def misses_lists_of_records(layout: ak.contents.Content) -> bool:
    """Whether lists of records are missing, which become empty ones where they are written."""
    if layout.is_record or layout.is_union:
        return any(misses_lists_of_records(one) for one in layout.contents)
    if layout.is_numpy or layout.is_unknown:
        return False
    if layout.is_option and is_list(layout.content) and holds_records(layout.content.content):
        return not bool(np.asarray(layout.mask_as_bool(valid_when=True)).all())
    return misses_lists_of_records(layout.content)


def is_list(layout: ak.contents.Content) -> bool:
    """Whether values are lists of any lengths, and no texts."""
    return bool(layout.is_list and not layout.is_regular and layout.parameter("__array__") is None)


def holds_records(layout: ak.contents.Content) -> bool:
    """Whether values are records, or lists of them."""
    return bool(layout.is_record or ((layout.is_option or layout.is_list) and holds_records(layout.content)))


def filled_with_empty(layout: ak.contents.Content) -> ak.contents.ListOffsetArray:
    """Lists of objects, with an empty list for each missing one: a null pointer to a collection."""
    there = np.asarray(layout.mask_as_bool(valid_when=True))
    given = layout.project().to_ListOffsetArray64(True)
    counts = np.zeros(len(there), dtype="i8")
    counts[there] = np.diff(given.offsets.data)
    offsets = ak.index.Index64(np.concatenate([np.zeros(1, dtype="i8"), np.cumsum(counts)]))
    return ak.contents.ListOffsetArray(offsets, given.content[: given.offsets[-1]])


def with_missing_members(layout: ak.contents.Content) -> ak.contents.RecordArray:
    """Records of which no one is missing, but all members of those that are: what reads a member gets the same."""
    records, index = layout.content, layout.to_IndexedOptionArray64().index
    members = [ak.contents.IndexedOptionArray.simplified(index, one[: len(records)]) for one in records.contents]
    return ak.contents.RecordArray(members, records.fields, len(layout))


def whole_form(form: ak.forms.Form) -> ak.forms.Form:
    """The form of `whole` values."""
    if form.is_option:
        return whole_form(form.content)
    if form.is_record:
        return form.copy(contents=[whole_form(one) for one in form.contents])
    return form.copy(content=whole_form(form.content)) if form.is_list else form
