"""Options that are defined as fields of a dataclass."""

from __future__ import annotations

import pytest

from branchline.base.checks import number_within
from branchline.base.option_fields import comma_separated
from branchline.errors import OptionError


def test_names_are_separated_by_commas() -> None:
    assert comma_separated(None) is None
    assert comma_separated("px, py,,") == ("px", "py")


@pytest.mark.parametrize("text", ["", ",", " , "])
def test_an_option_without_names_is_not_the_default(text: str) -> None:
    with pytest.raises(OptionError, match="contains no names"):
        comma_separated(text)


def test_a_number_larger_than_any_float_is_refused() -> None:
    with pytest.raises(OptionError, match="invalid timeout: 1000"):
        number_within("timeout", 10**400, 0, 1, "give 0 to 1")
