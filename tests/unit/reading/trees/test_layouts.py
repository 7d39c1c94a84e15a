"""Layouts that are made without awkward's constructors are those that the constructors make."""

import awkward as ak
import numpy as np
import pytest

from branchline.reading.arrays.layouts import BACKEND, faster, index_of, lists_of, numbers_of, options_of, record_of

OFFSETS = np.array([0, 2, 2, 3], dtype="i8")
LETTERS = np.frombuffer(b"abc", dtype="u1")
VALUES = np.array([1.5, 2.5, 3.5], dtype="f4")


def attributes(layout):
    """All that an object has, with the objects that it holds taken apart."""
    if isinstance(layout, ak.contents.Content | ak.index.Index):
        return type(layout), {name: attributes(value) for name, value in vars(layout).items()}
    if isinstance(layout, list):
        return [attributes(one) for one in layout]
    return layout.tolist() if isinstance(layout, np.ndarray) else layout


def test_each_layout_has_the_attributes_that_its_constructor_gives():
    index = ak.index.Index64(OFFSETS, nplike=BACKEND.nplike)
    numbers = ak.contents.NumpyArray(VALUES, backend=BACKEND)
    lists = ak.contents.ListOffsetArray(index, numbers)
    record = ak.contents.RecordArray([lists], ["x"], length=3, backend=BACKEND)
    options = ak.contents.IndexedOptionArray(index, numbers)
    text, letters = {"__array__": "string"}, {"__array__": "char"}
    characters = ak.contents.NumpyArray(LETTERS, parameters=letters, backend=BACKEND)
    texts = ak.contents.ListOffsetArray(index, characters, parameters=text)
    named = ak.contents.RecordArray([lists], ["x"], length=3, parameters={"__record__": "Point"}, backend=BACKEND)
    assert attributes(index_of(OFFSETS)) == attributes(index)
    assert attributes(numbers_of(VALUES)) == attributes(numbers)
    assert attributes(lists_of(index_of(OFFSETS), numbers_of(VALUES))) == attributes(lists)
    assert attributes(options_of(index_of(OFFSETS), numbers_of(VALUES))) == attributes(options)
    assert attributes(lists_of(index_of(OFFSETS), numbers_of(LETTERS, letters), text)) == attributes(texts)
    assert attributes(record_of([lists], ["x"], 3)) == attributes(record)
    assert attributes(record_of([lists], ["x"], 3, {"__record__": "Point"})) == attributes(named)


def test_awkward_works_with_what_is_made():
    made = ak.Array(record_of([lists_of(index_of(OFFSETS), numbers_of(VALUES))], ["x"], 3))
    assert not ak.validity_error(made)
    assert made.x.to_list() == [[1.5, 2.5], [], [3.5]]
    assert ak.sum(made.x * 2, axis=1).to_list() == [8.0, 0.0, 7.0]
    assert ak.from_buffers(*ak.to_buffers(made)).to_list() == made.to_list()


def test_numbers_may_have_any_shape():
    table = np.arange(6).reshape(3, 2)
    assert ak.Array(numbers_of(table)).to_list() == table.tolist()


class _Other:
    def __init__(self, **attributes):
        vars(self).update(attributes)


@pytest.mark.parametrize("attributes", [{"_data": 1}, {"_data": None, "_size": 2}, {"_size": 1}], ids=str)
def test_a_version_of_awkward_with_other_attributes_gets_its_constructor(attributes):
    def constructor():
        return _Other(_data=None)

    assert faster(lambda: _Other(**attributes), constructor) is constructor


def test_the_version_that_is_tested_needs_no_constructor():
    assert [one.__name__ for one in (index_of, numbers_of, lists_of, options_of, record_of)] == [
        "_index",
        "_numbers",
        "_lists",
        "_options",
        "_record",
    ]
