"""Luminosity sections: masks of certified ones ("golden JSON"), and the sections that an analysis has processed."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from branchline.errors import BadFileError, MissingFileError, StorageError, WagonError
from branchline.trains.wagons.loaded_files import loaded

#: Numbers of runs and sections have up to 32 bits, so that both fit into one number by which sections are sorted.
_BITS = 32
_NUMBER_MAX = 2**_BITS - 1
#: Names of units of inverse cross sections in files of brilcalc, in 1/pb.
_UNITS = {"/b": 1e-12, "/mb": 1e-9, "/ub": 1e-6, "/nb": 1e-3, "/pb": 1.0, "/fb": 1e3}

Keys = NDArray[np.uint64]

#: The sections that the running wagon has processed; None if no wagon is running.
_noted: ContextVar[list[Keys] | None] = ContextVar("sections", default=None)


@contextmanager
def sections_noted() -> Iterator[list[Keys]]:
    """Yield a list to which masks add the certified sections of events in the ``with`` block, and `LumiSections.of` the
    given sections.
    """
    found: list[Keys] = []
    token = _noted.set(found)
    try:
        yield found
    finally:
        _noted.reset(token)


def _note(keys: Keys) -> None:
    noted = _noted.get()
    if noted is not None and len(keys):
        noted.append(np.unique(keys))


def lumi_mask(path: str | os.PathLike[str]) -> LumiMask:
    """Return the mask of the certified luminosity sections in a JSON file: a dictionary of runs with lists of first and
    last sections, such as ``{"316766": [[1, 44], [50, 209]]}``.

    Workers load the file once, as with `branchline.loaded`. Raises MissingFileError.

    Examples:
        certified = branchline.lumi_mask("golden.json")
        good = certified(events.run, events.luminosityBlock)
        events = events[good]

    """
    return loaded(LumiMask, path)


class LumiMask:
    """The certified luminosity sections of a file. Raises BadFileError for invalid content."""

    def __init__(self, path: str) -> None:
        try:
            # A run may be listed more than once.
            content = json.loads(Path(path).read_text(encoding="utf-8"), object_pairs_hook=tuple)
        except (ValueError, RecursionError) as error:
            raise BadFileError(f"{path} is not JSON: {error}", path=path) from None
        if not isinstance(content, tuple):
            raise BadFileError(f"{path} has no dictionary of runs", path=path)
        ranges = sorted(one for run, listed in content for one in _ranges(path, run, listed))
        self._first = np.array([first for first, _ in ranges], np.uint64)
        # Ranges may overlap: a section is certified if the largest end of all ranges that begin before it is not below.
        self._last = np.maximum.accumulate(np.array([last for _, last in ranges], np.uint64))

    def __call__(self, run: object, section: object) -> NDArray[np.bool_]:
        """Return for each event whether its section is certified. ``run`` and ``section`` have a number for each event.

        Raises WagonError for other values.
        """
        keys = _keys(run, section)
        if not len(self._first):
            return np.zeros(len(keys), dtype=bool)
        place = np.searchsorted(self._first, keys, side="right")
        is_certified: NDArray[np.bool_] = (place > 0) & (keys <= self._last[np.maximum(place, 1) - 1])
        _note(keys[is_certified])
        return is_certified


@dataclass(eq=False)
class LumiSections:
    """Luminosity sections without duplicates. A wagon returns the sections of each chunk, and the sum has all of them.

    ``keys`` are numbers with the run in the upper and the section in the lower 32 bits. Result files contain ``keys``:
    ``LumiSections(**branchline.load("out")["Wagon"]["sections"])``. ``sum`` adds them.

    Raises WagonError for values that are not one number per event.

    Examples:
        def process(self, events):
            good = self.certified(events.run, events.luminosityBlock)
            events = events[good]
            return {"sections": branchline.LumiSections.of(events.run, events.luminosityBlock), ...}

    """

    keys: Keys = field(default_factory=lambda: np.zeros(0, np.uint64))

    def __post_init__(self) -> None:
        self.keys = np.unique(np.asarray(self.keys, dtype=np.uint64))

    @classmethod
    def of(cls, run: object, section: object) -> LumiSections:
        """Return the sections of some events. Raises WagonError for values that are not one number per event."""
        keys = _keys(run, section)
        _note(keys)
        return cls(keys)

    def __add__(self, other: object) -> LumiSections:
        return (
            LumiSections(np.concatenate([self.keys, other.keys])) if isinstance(other, LumiSections) else NotImplemented
        )

    def __radd__(self, other: object) -> LumiSections:
        # `sum` begins with 0.
        return self if other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LumiSections) and np.array_equal(self.keys, other.keys)

    def __len__(self) -> int:
        return len(self.keys)

    def as_json(self) -> dict[str, list[list[int]]]:
        """Return the first and last sections by run, in the format of `branchline.lumi_mask` and of brilcalc's option
        ``-i``.
        """
        found: dict[str, list[list[int]]] = {}
        for key in self.keys.tolist():
            ranges, section = found.setdefault(str(key >> _BITS), []), key & _NUMBER_MAX
            if ranges and ranges[-1][1] == section - 1:
                ranges[-1][1] = section
            else:
                ranges.append([section, section])
        return found

    def luminosity(self, path: str | os.PathLike[str]) -> float:
        """Return the recorded integrated luminosity of these sections in 1/pb, from a file that
        ``brilcalc lumi --byls -o FILE`` has written.

        Raises BadFileError for other files, and WagonError for sections that are not in the file.
        """
        known = luminosities(Path(path))
        missing = [one for one in self.keys.tolist() if one not in known]
        if missing:
            run, section = missing[0] >> _BITS, missing[0] & _NUMBER_MAX
            what = f"{path} lacks {len(missing)} of {len(self)} luminosity sections, such as {section} of run {run}"
            raise WagonError(what, hint="create the file with brilcalc from the mask of the analysis")
        return float(np.sum([known[one] for one in self.keys.tolist()]))


def _keys(run: object, section: object) -> Keys:
    runs, sections = (_numbers(one, what) for one, what in ((run, "runs"), (section, "luminosity sections")))
    if runs.shape != sections.shape:
        raise WagonError(f"there are {len(runs)} runs, but {len(sections)} luminosity sections")
    return (runs << np.uint64(_BITS)) | sections


def _numbers(values: object, what: str) -> Keys:
    try:
        found = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise WagonError(f"the {what} are not one integer for each event: {error}") from None
    if np.ma.is_masked(values):
        raise WagonError(f"some {what} are missing", hint="select the events that have both numbers first")
    if found.ndim != 1 or (found.dtype.kind not in "iu" and len(found)):
        shown = f"the {what} have the shape {found.shape} and the type {found.dtype}"
        raise WagonError(shown, hint="give one integer for each event")
    if len(found) and (found.min() < 0 or found.max() > _NUMBER_MAX):
        raise WagonError(f"the {what} are between {found.min()} and {found.max()}, not between 0 and {_NUMBER_MAX}")
    return found.astype(np.uint64)


def _ranges(path: str, run: str, listed: object) -> list[tuple[int, int]]:
    """Return the keys of the first and the last section of each range of a run."""
    pairs: list[object] = listed if isinstance(listed, list) else [listed]
    if not run.isdecimal() or len(run) > 10 or int(run) > _NUMBER_MAX:
        raise BadFileError(f"{path}: {run!r:.40} is not the number of a run", path=path)
    found = []
    for pair in pairs:
        numbers = pair if isinstance(pair, list) and all(type(one) is int for one in pair) else []
        if len(numbers) != 2 or not 0 <= numbers[0] <= numbers[1] <= _NUMBER_MAX:
            what = f"{path}: {pair!r:.40} of run {run} is not a pair of a first and a last section"
            raise BadFileError(what, path=path)
        found.append((int(run) << _BITS | numbers[0], int(run) << _BITS | numbers[1]))
    return found


def luminosities(path: Path) -> dict[int, float]:
    """Return the recorded luminosity of each section in 1/pb. Raises BadFileError and MissingFileError.

    Source: the CSV format of brilcalc (cms-service-lumi.web.cern.ch). Comments begin with ``#``, also the heading.
    """
    found: dict[int, float] = {}
    names: list[str] = []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.reader(file):
                if row and row[0].startswith("#run:fill"):
                    names = [one.lstrip("#").strip() for one in row]
                if not row or row[0].startswith("#"):
                    continue
                column = next((place for place, one in enumerate(names) if one.startswith("recorded(")), None)
                if column is None:
                    raise ValueError("it has no heading with the column recorded(UNIT)")
                unit = _UNITS[names[column][len("recorded(") : -1]]
                run, section = int(row[0].partition(":")[0]), int(row[1].partition(":")[0])
                key, recorded = run << _BITS | section, float(row[column]) * unit
                if key in found:
                    raise ValueError(f"section {section} of run {run} is listed twice")
                if not (math.isfinite(recorded) and recorded >= 0):
                    raise ValueError(f"the luminosity of section {section} of run {run} is {row[column]!r:.40}")
                found[key] = recorded
    except FileNotFoundError:
        raise MissingFileError(f"{path} does not exist", path=str(path)) from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}", path=str(path)) from None
    except (ValueError, IndexError, KeyError, csv.Error) as error:
        what = f"{path} is not a file of `brilcalc lumi --byls`: {error}"
        raise BadFileError(what, path=str(path)) from None
    return found
