"""Advice on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from branchline.cli.printing import print_out
from branchline.records.diagnosis.advice import Advice


def print_advice(found: Sequence[Advice], nothing: str) -> None:
    """Prints each piece in its lines; ``nothing`` is said if there is none."""
    if not found:
        print_out(nothing)
    for number, one in enumerate(found, 1):
        for line in one.lines(number):
            print_out(line)
