"""Errors that a user may want to catch are in the package and in `branchline.errors`."""

from __future__ import annotations

import builtins
import inspect
import re

import branchline
from branchline import errors

#: "Raises WagonError if ..., BatchError.", up to the end of the sentence.
RAISES = re.compile(r"Raises? (.*?)(?:\.\s|\.$|$)", re.DOTALL)
NAME = re.compile(r"\b[A-Z]\w*(?:Error|Warning)\b")


def public_docstrings() -> dict[str, str]:
    """The docstrings of everything in the package, and of the public members of its classes."""
    found = {}
    for name in branchline.__all__:
        one = getattr(branchline, name)
        found[name] = inspect.getdoc(one) or ""
        if inspect.isclass(one):
            members = ((key, value) for key, value in inspect.getmembers(one) if not key.startswith("_"))
            found |= {f"{name}.{key}": inspect.getdoc(value) or "" for key, value in members}
    return found


def test_every_error_that_a_docstring_names_can_be_imported() -> None:
    named = {
        (where, name)
        for where, text in public_docstrings().items()
        for sentence in RAISES.findall(text)
        for name in NAME.findall(sentence)
    }
    assert len(named) > 50
    unknown = {(where, name) for where, name in named if not hasattr(builtins, name) and not hasattr(errors, name)}
    assert not unknown


def test_every_error_is_in_the_package() -> None:
    all_errors = {name for name in vars(errors) if NAME.fullmatch(name)}
    assert all_errors <= set(branchline.__all__)
