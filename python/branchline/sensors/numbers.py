"""How whole numbers are written for people, everywhere in the same way."""

from __future__ import annotations


def spaced(number: float) -> str:
    """A whole number with its thousands apart: ``12 300``."""
    return f"{round(number):,}".replace(",", " ")
