"""Plain data become dataclasses, and what is of another type is named."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from branchline.base.plain import check_types, from_plain, to_plain


@dataclass
class Inner:
    number: int = 0


@dataclass
class Outer:
    names: tuple[str, ...] = ()
    inner: Inner | None = None
    several: list[Inner] = field(default_factory=list)
    by_name: dict[str, Inner] = field(default_factory=dict)
    anything: object = None


WHOLE = Outer(("a", "b"), Inner(1), [Inner(2)], {"c": Inner(3)}, [4, "d"])


def test_a_dataclass_comes_back_from_its_plain_data() -> None:
    assert from_plain(Outer, to_plain(WHOLE)) == WHOLE
    check_types(WHOLE)


def test_none_is_a_value_where_anything_may_be_and_a_default_elsewhere() -> None:
    assert from_plain(Outer, {"anything": None, "names": None}) == Outer()


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [("names", 5, "list"), ("several", "ab", "list"), ("by_name", [], "Mapping"), ("inner", 5, "Mapping")],
)
def test_plain_data_of_another_type_raise_value_error(name: str, value: object, kind: str) -> None:
    with pytest.raises(ValueError, match=f"invalid record: expected {kind}, got "):
        from_plain(Outer, {name: value})


@pytest.mark.parametrize(
    "wrong",
    [
        Outer(several=5),  # type: ignore[arg-type]
        Outer(by_name=5),  # type: ignore[arg-type]
        Outer(names=(5,)),  # type: ignore[arg-type]
        Outer(inner=5),  # type: ignore[arg-type]
        Outer(several=[Inner("1")]),  # type: ignore[arg-type]
    ],
)
def test_a_field_of_another_type_raises_value_error(wrong: Outer) -> None:
    with pytest.raises(ValueError, match="expected "):
        check_types(wrong)
