"""Flat columns of the members of objects: numbers, arrays of numbers and strings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import awkward as ak
import numpy as np

from branchline.reading.arrays.layouts import filled_with_empty, is_list
from branchline.writing.columns.columns import lists_of

# Reasons for members that have no flat column.
POINTER = "pointers to single objects, or optional values"
NULLS = "null pointers"
REFERENCE = "references to other objects"
SEVERAL = "objects of different classes, or variants"
UNKNOWN = "no members, or no values that show them"
# Classes whose values are numbers of other objects.
REFERENCES = ("TRef", "TRefArray")
# Members of std::pair.
PAIR = ("first", "second")


class NullElements(Exception):  # noqa: N818 - not an error: the column is left out
    """Raised if elements of a collection are missing."""


@dataclass(frozen=True)
class FlatMember:
    """A member of the values of a branch, or of objects in these values.

    ``steps`` are the members to follow, and ``names`` their names in C++. ``sample`` is the member's column without
    entries, or None if ``reason`` states why the member has no flat form. ``depth`` is the number of steps before its
    outermost list, which contains objects if ``of_objects``; None if it has one value per entry.
    """

    steps: tuple[str, ...]
    names: tuple[str, ...]
    sample: ak.contents.Content | None
    reason: str = ""
    depth: int | None = None
    of_objects: bool = False


def members_of(layout: ak.contents.Content, *, is_split: bool, is_top: bool) -> Iterator[FlatMember]:
    """Yield the members in a branch, given the branch's layout.

    With ``is_split``, the branch has one value for each object of a collection. With ``is_top``, it has no parent, so
    that a pointer is the branch's own object.
    """
    if is_split and is_list(layout):
        for member in _members(layout.content, (), (), is_element=False):
            yield replace(_in_list(layout, member, 0), of_objects=True)
    else:
        yield from _members(layout, (), (), is_element=is_top)


def _members(
    layout: ak.contents.Content, steps: tuple[str, ...], names: tuple[str, ...], *, is_element: bool
) -> Iterator[FlatMember]:
    """Yield the members of values. Elements of collections, and a branch's own object, may be pointers."""
    if layout.is_indexed and not layout.is_option:
        layout = layout.project()
    if layout.is_option:
        content = layout.content
        if is_list(content) or (is_element and (content.is_record or content.is_unknown)):
            yield from _members(content, steps, names, is_element=False)
        else:
            yield FlatMember(steps, names, None, SEVERAL if content.is_union else POINTER)
    elif layout.is_union:
        yield FlatMember(steps, names, None, SEVERAL)
    elif layout.is_record and layout.parameter("__record__") in REFERENCES:
        yield FlatMember(steps, names, None, REFERENCE)
    elif layout.is_unknown or (layout.is_record and not layout.contents):
        yield FlatMember(steps, names, None, UNKNOWN)
    elif layout.is_record:
        is_pair = layout.is_tuple and len(layout.fields) == len(PAIR)
        for field, name in zip(layout.fields, PAIR if is_pair else layout.fields, strict=True):
            yield from _members(layout.content(field), (*steps, field), (*names, name), is_element=False)
    elif layout.is_numpy or _is_text(layout):
        yield FlatMember(steps, names, layout[:0])
    else:
        for member in _members(layout.content, steps, names, is_element=True):
            yield _in_list(layout, member, len(steps))


def _in_list(layout: ak.contents.Content, member: FlatMember, depth: int) -> FlatMember:
    """Return a member of list elements as a member of the lists."""
    if member.sample is None:
        return member
    if layout.is_regular and is_fixed(member.sample):
        return replace(member, sample=ak.contents.RegularArray(member.sample, layout.size, 0))
    content = layout.content.content if layout.content.is_option else layout.content
    lists = ak.contents.ListOffsetArray(ak.index.Index64(np.zeros(1, dtype="i8")), member.sample)
    return replace(member, sample=lists, depth=depth, of_objects=bool(content.is_record))


def flat_values(
    layout: ak.contents.Content, steps: tuple[str, ...], sample: ak.contents.Content
) -> ak.contents.Content:
    """Return the values of a member of the objects in ``layout``.

    ``sample`` is the member's column without entries. Raises NullElements.
    """
    if layout.is_indexed and not layout.is_option:
        layout = layout.project()
    if layout.is_option and is_list(layout.content):
        # A null pointer to a collection.
        layout = filled_with_empty(layout)
    if layout.is_option:
        if steps and layout.content.is_record and steps[0] in layout.content.fields:
            # Select the member first, since removing the option type copies the values.
            record = layout.content
            index = layout.to_IndexedOptionArray64().index
            member = record.content(steps[0])[: len(record)]
            return flat_values(ak.contents.IndexedOptionArray.simplified(index, member), steps[1:], sample)
        if not np.asarray(layout.mask_as_bool(valid_when=True)).all():
            raise NullElements
        layout = layout.project()
    if len(layout) == 0:
        return sample  # the class of the elements may be unknown here
    if layout.is_record:
        return flat_values(layout.content(steps[0])[: len(layout)], steps[1:], sample)
    if layout.is_numpy or _is_text(layout):
        return layout
    if layout.is_regular and sample.is_regular:
        content = flat_values(layout.content[: layout.size * len(layout)], steps, sample.content)
        return ak.contents.RegularArray(content, layout.size, len(layout))
    lists = lists_of(layout)
    return ak.contents.ListOffsetArray(
        lists.offsets, flat_values(lists.content[: lists.offsets[-1]], steps, sample.content)
    )


def is_fixed(layout: ak.contents.Content) -> bool:
    """Whether values are numbers, or arrays of numbers of a fixed size."""
    return bool(layout.is_numpy or (layout.is_regular and not _is_text(layout) and is_fixed(layout.content)))


def is_integer(layout: ak.contents.Content) -> bool:
    """Whether values are single integers."""
    return bool(layout.is_numpy and layout.data.ndim == 1 and layout.dtype.kind in "iu")


def tree_can_hold(sample: ak.contents.Content) -> bool:
    """Whether a branch of a TTree can hold a flat column."""
    if is_list(sample):
        content = sample.content
        is_nested = is_list(content) and content.content.is_numpy and content.content.data.ndim == 1
        return is_nested or is_fixed(content) or _is_text(content)
    return is_fixed(sample) or _is_text(sample)


def changes_type(layout: ak.contents.Content) -> bool:
    """Whether only values show the types in a branch, as in a TClonesArray that is not split."""
    if layout.is_union or layout.is_unknown or (layout.is_record and not layout.contents):
        return True
    if layout.is_record:
        return any(changes_type(content) for content in layout.contents)
    return not layout.is_numpy and changes_type(layout.content)


def joined_type(known: ak.contents.Content, layout: ak.contents.Content) -> ak.contents.Content:
    """Return an empty layout with the type that two layouts of a branch have in common."""
    both = [ak.transform(_without_empty_records, one[:0], highlevel=False) for one in (known, layout)]
    return ak.concatenate(both, highlevel=False, mergebool=False)


def _without_empty_records(layout: ak.contents.Content, **_: object) -> ak.contents.Content | None:
    is_empty = layout.is_record and not layout.contents
    return ak.contents.EmptyArray() if is_empty else None


def _is_text(layout: ak.contents.Content) -> bool:
    return layout.is_list and layout.parameter("__array__") in ("string", "bytestring")
