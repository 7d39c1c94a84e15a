"""What every store does alike: the checks, for whoever has a fixture `place`. `test_conformance.py` of each folder of
servers takes them all.
"""

from __future__ import annotations

import io
import random
import threading

import awkward as ak
import numpy as np
import pyarrow.parquet
import pytest
from tests.stores.conftest import BYTES_COUNT
from tests.stores.places import Place

import branchline
from branchline.errors import BadFileError, BranchlineError, MissingFileError, StorageError


def test_ranges_get_exactly_their_bytes(place: Place) -> None:
    store = place.open()
    assert store.size_bytes == BYTES_COUNT
    end = BYTES_COUNT
    ranges = [(0, 1), (end - 1, 1), (5, 3_000_000), (0, 0), (end, 0), (4095, 2), (0, end), (4095, 2), (70_000, 70_000)]
    read = store.read(ranges)
    for (offset, length), found in zip(ranges, read.contents, strict=True):
        assert found == place.content[offset : offset + length], (offset, length)
    assert 1 <= read.read_calls <= 2 * len(ranges)
    assert read.bytes_read >= sum(length for _, length in ranges)


def test_a_thousand_ranges_of_any_order_and_size(place: Place) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    numbers = random.Random(seed)
    store = place.open()
    ranges = []
    for _ in range(1000):
        length = int(10 ** numbers.uniform(0, 4.5))
        ranges.append((numbers.randrange(BYTES_COUNT - length), length))
    found = store.read(ranges).contents
    assert all(bytes_of == place.content[at : at + size] for (at, size), bytes_of in zip(ranges, found, strict=True))


def test_one_range_takes_one_call(place: Place) -> None:
    store = place.open()
    one, empty, none = store.read([(1000, 100_000)]), store.read([(1000, 0)]), store.read([])
    assert (one.read_calls, one.bytes_read) == (1, 100_000)
    assert (empty.contents, empty.read_calls, empty.bytes_read) == ([b""], 0, 0)
    assert (none.contents, none.read_calls, none.bytes_read) == ([], 0, 0)


def test_a_range_behind_the_end_is_an_error_and_says_where_the_end_is(place: Place) -> None:
    store = place.open()
    for offset, length in [(BYTES_COUNT - 5, 6), (BYTES_COUNT, 1), (0, 2**63), (2**64 - 1, 2**64 - 1)]:
        with pytest.raises(BadFileError, match=f"file ends at {BYTES_COUNT} bytes") as raised:
            store.read([(0, 10), (offset, length)])
        assert not raised.value.retry


def test_an_empty_file_has_no_bytes(place: Place) -> None:
    store = place.open("empty.bin")
    assert store.size_bytes == 0
    assert store.read([(0, 0)]).contents == [b""]
    with pytest.raises(BadFileError):
        store.read([(0, 1)])


def test_a_file_that_is_not_there_is_missing(place: Place) -> None:
    with pytest.raises(MissingFileError, match="no such file") as raised:
        place.open("sub/absent.bin")
    assert place.url("sub/absent.bin") in str(raised.value)
    assert not raised.value.retry


def test_a_file_that_may_not_be_read_is_an_error(place: Place) -> None:
    if place.closes_nothing:
        pytest.skip(place.closes_nothing)
    name = place.own_name("closed")
    place.write(name, b"x")
    try:
        place.close(name)
        with pytest.raises(StorageError) as raised:
            place.open(name).read([(0, 1)])
        assert not raised.value.retry
    finally:
        place.remove(name)


def test_a_directory_is_no_file(place: Place) -> None:
    with pytest.raises(BranchlineError) as raised:
        place.open("sub").read([(0, 1)])
    assert not raised.value.retry


def test_threads_share_a_store(place: Place) -> None:
    store = place.open()
    wrong: list[object] = []

    def read(start: int) -> None:
        try:
            for offset in range(start, BYTES_COUNT - 200_000, 977_777):
                ranges = [(offset, 100_000), (offset + 150_000, 10)]
                found = store.read(ranges).contents
                wrong.extend(r for r, b in zip(ranges, found, strict=True) if b != place.content[r[0] : sum(r)])
        except BranchlineError as error:
            wrong.append(error)

    threads = [threading.Thread(target=read, args=(start,)) for start in range(0, 4000, 500)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_the_identity_changes_with_the_file_alone(place: Place) -> None:
    name = place.own_name("own")
    place.write(name, b"hello")
    try:
        first = place.open(name).identity
        assert (first is not None) == place.tells_versions
        assert place.open(name).identity == first
        place.write(name, b"hello hello")
        assert place.open(name).identity != first or first is None
    finally:
        place.remove(name)


def test_a_tree_is_read_as_from_the_local_disk(place: Place) -> None:
    expected = branchline.open(str(place.originals / "events.root"))["events"].arrays()
    found = branchline.open(place.url("events.root"))["events"].arrays()
    assert ak.array_equal(found, expected)


def test_a_parquet_file_is_read_as_from_the_local_disk(place: Place) -> None:
    values = ak.Array({"x": np.arange(5000) / 7, "hits": [list(range(number % 5)) for number in range(5000)]})
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(ak.to_arrow_table(values, extensionarray=False), buffer, row_group_size=1700)
    name = place.own_name("columns").replace(".bin", ".parquet")
    place.write(name, buffer.getvalue())
    try:
        found = branchline.open(place.url(name))["events"].arrays()
        assert ak.array_equal(found, values, dtype_exact=False)
        (hits,) = branchline.iterate(place.url(name), ["hits"], "x > 700")
        assert ak.array_equal(hits.hits, values.hits[values.x > 700], dtype_exact=False)
    finally:
        place.remove(name)
