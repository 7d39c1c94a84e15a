"""What changed since the last run is described in one sentence, and a damaged record of it is ignored."""

from __future__ import annotations

import pytest

from branchline.trains.reuse.changes import IS_NEW, NEW_DATA, KeyParts

BEFORE = KeyParts(
    {"one": {"helpers.cut": "a", "package numpy": "2.1.0", "the order of statements in helpers": "x"}},
    {"the seed": "1"},
)


def cause(parts: dict[str, str], reading: dict[str, str] | None = None) -> str:
    return KeyParts({"one": {**BEFORE.wagons["one"], **parts}}, reading or BEFORE.reading).changes_since(BEFORE)["one"]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, NEW_DATA),
        ({"helpers.cut": "b", "the order of statements in helpers": "y"}, "helpers.cut changed"),
        ({"the order of statements in helpers": "y"}, "the order of statements in helpers changed"),
        ({"package numpy": "2.2.0"}, "package numpy changed from 2.1.0 to 2.2.0"),
        ({"file a.json": "c"}, "file a.json was added"),
        ({f"helpers.f{number}": "d" for number in range(5)}, "f1 was added, helpers.f2 was added and 2 more changes"),
    ],
)
def test_changes_are_named(parts: dict[str, str], expected: str) -> None:
    assert cause(parts).endswith(expected)


def test_a_change_of_reading_is_named_only_if_the_wagon_is_the_same() -> None:
    assert cause({}, {"the seed": "2"}) == "the seed changed"
    assert cause({"helpers.cut": "b"}, {"the seed": "2"}) == "helpers.cut changed"


def test_a_part_that_is_gone_is_named() -> None:
    assert (
        KeyParts({"one": {}}, BEFORE.reading).changes_since(BEFORE)["one"].startswith("helpers.cut is no longer used")
    )


def test_wagons_of_earlier_runs_are_kept() -> None:
    later = KeyParts({"two": {"a": "b"}}, BEFORE.reading)
    assert later.changes_since(BEFORE) == {"two": IS_NEW}
    stored = KeyParts.loaded(later.stored(BEFORE))
    assert stored is not None
    assert stored.wagons.keys() == {"one", "two"}
    assert stored.changes_since(BEFORE)["one"] == NEW_DATA


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"other": 1}', b"\xff", b"null", b'{"wagons": 1}'])
def test_a_damaged_record_is_ignored(content: bytes) -> None:
    assert KeyParts.loaded(content) is None
    assert KeyParts.loaded(None) is None
