"""Parameters of wagons: texts and values become values of their type, or an error that names the parameter."""

from __future__ import annotations

import pytest

from branchline.errors import OptionError
from branchline.trains.wagons.parameters import KINDS, Value, WagonParameter

GOOD: list[tuple[str, str, Value]] = [
    ("int", " 42 ", 42),
    ("int", "-1", -1),
    ("float", "2.5e3", 2500.0),
    ("float", "3", 3.0),
    ("bool", "Yes", True),
    ("bool", "", False),
    ("str", "a, b", "a, b"),
    ("list[int]", "1, 2,3", [1, 2, 3]),
    ("list[float]", "[1, 2.5]", [1.0, 2.5]),
    ("list[str]", '["a,b", "c"]', ["a,b", "c"]),
    ("list[bool]", "", []),
]
BAD = [("int", "1.5"), ("int", ""), ("float", "nan"), ("float", "1e999"), ("bool", "maybe"), ("list[int]", "[1, true]")]
BAD += [("list[int]", "[" * 10_000), ("list[int]", '{"a": 1}'), ("str", "x" * 10_001), ("int", "9" * 5000)]


@pytest.mark.parametrize(("kind", "text", "value"), GOOD)
def test_a_text_becomes_a_value_and_the_value_a_text_again(kind: str, text: str, value: Value) -> None:
    parameter = WagonParameter("cut", kind)
    assert parameter.parsed(text) == value
    assert type(parameter.parsed(text)) is type(value)
    assert parameter.parsed(parameter.text(value)) == value


@pytest.mark.parametrize(("kind", "text"), BAD)
def test_a_text_of_another_type_is_refused_by_name(kind: str, text: str) -> None:
    with pytest.raises(OptionError, match="cut") as caught:
        WagonParameter("cut", kind).parsed(text)
    assert len(str(caught.value)) < 200


def test_every_kind_refuses_what_is_of_another_one() -> None:
    values: dict[str, Value] = {"bool": True, "int": 1, "float": 1.5, "str": "a"}
    values |= {f"list[{kind}]": [value] for kind, value in values.items()}  # type: ignore[misc]
    for kind in KINDS:
        for other, value in values.items():
            if other == kind or (kind, other) in (("float", "int"), ("list[float]", "list[int]")):
                assert WagonParameter("cut", kind).checked(value) == value
            else:
                with pytest.raises(OptionError):
                    WagonParameter("cut", kind).checked(value)
