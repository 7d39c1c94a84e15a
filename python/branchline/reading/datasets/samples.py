"""What a dataset's list says of a sample: data or simulation, its cross section, and where its sum of weights is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches

from branchline.errors import DatasetError

_KINDS = ("data", "background", "signal")


@dataclass(frozen=True)
class Sample:
    """A sample of events. ``kind`` is ``data``, ``background`` or ``signal``. Of a simulated one ``cross_section_pb``
    is in picobarn; ``scale`` is a further factor, as a k-factor or the efficiency of a filter. ``luminosity_per_fb`` is
    that of data, or what a simulated sample is scaled to if it has one of its own, in inverse femtobarn.

    ``sum_of_weights`` is that of all generated events: a number, ``TREE:BRANCH`` such as ``Runs:genEventSumw``, summed
    over the entries of all files, or ``histogram:NAME[BIN]``, with ROOT's number of the bin. Without it events count.
    ``label`` and ``group`` are for pictures: samples of one group are drawn as one.
    """

    kind: str = "background"
    cross_section_pb: float | None = None
    luminosity_per_fb: float | None = None
    sum_of_weights: float | str | None = None
    scale: float = 1.0
    label: str = ""
    group: str = ""

    @property
    def is_data(self) -> bool:
        """Whether it was measured."""
        return self.kind == "data"

    @classmethod
    def of(cls, given: object, dataset: str, source: str = "") -> Sample:
        """That of a list. Raises DatasetError for what no sample has, and for impossible values."""
        where = f"the sample of dataset {dataset!r}"
        if not isinstance(given, Mapping):
            raise DatasetError(f"{where} is no mapping", path=source or None)
        known = [one.name for one in fields(cls)]
        for key, value in given.items():
            if key not in known:
                near = get_close_matches(str(key), known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"it may have {', '.join(known)}"
                raise DatasetError(f"{where} has {key!r:.80}, which is nothing", path=source or None, hint=hint)
            problem = "" if value is None else _problem(str(key), value)
            if problem:
                raise DatasetError(f"{key} of {where} {problem}", path=source or None)
        found = cls(**{str(key): value for key, value in given.items() if value is not None})
        if found.is_data and (found.cross_section_pb is not None or found.sum_of_weights is not None):
            raise DatasetError(
                f"{where} is data, which have no cross section and no sum of weights", path=source or None
            )
        return found


def _problem(key: str, value: object) -> str:
    """What is wrong with a value; empty if nothing is."""
    if key in ("kind", "label", "group"):
        if not isinstance(value, str) or (key == "kind" and value not in _KINDS):
            return f"is {value!r:.80}, not {'one of ' + ', '.join(_KINDS) if key == 'kind' else 'a text'}"
        return ""
    if key == "sum_of_weights" and isinstance(value, str):
        tree, colon, branch = value.partition(":")
        return "" if colon and tree and branch else f"is {value!r:.80}, not TREE:BRANCH or histogram:NAME[BIN]"
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not isinstance(value, int | float) or value <= 0:
        return f"is {value!r:.80}, not a number above 0"
    return ""
