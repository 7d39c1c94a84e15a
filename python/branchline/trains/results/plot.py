"""`branchline.plot`: a picture of several samples, with the simulation stacked, data as points, and their ratio."""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from branchline.base.imports import require
from branchline.errors import DatasetError, NoSuchKeyError, OptionError
from branchline.trains.results.load import Results, load

if TYPE_CHECKING:
    from branchline.trains.results.stacks import SampleStack

#: Styles of mplhep, by the names of their experiments.
STYLES = {"root": "ROOT", "cms": "CMS", "atlas": "ATLAS", "lhcb": "LHCb2", "alice": "ALICE"}


def plot(
    results: Results | str | os.PathLike[str],
    histogram: str,
    *,
    signal: Sequence[str] = (),
    ratio: bool = True,
    overflow: bool = True,
    log: bool = False,
    style: str = "root",
    label: str = "",
) -> Any:
    """Draws a histogram of several samples: simulation stacked, data as points with their ratio to it.

    ``results`` is the directory of a train, or what ``branchline.load`` gave; ``histogram`` the wagon, and the keys on
    the way to the histogram: ``"spectrum"``, ``"spectrum/pt"``. Simulated samples are scaled to the luminosity. The
    band is the statistical uncertainty of the simulation and all named variations, in quadrature. ``signal``: samples
    that are drawn as lines, not in the stack. ``overflow``: the first and the last bin have what lies outside, and the
    picture says so. ``style``: "root", "cms", "atlas", "lhcb" or "alice"; ``label`` stands above it, such as "Work in
    progress". Returns a figure of matplotlib.

        figure = branchline.plot("out", "spectrum/pt", signal=["zprime"], style="cms")
        figure.savefig("pt.pdf")

    Raises NoSuchKeyError for a histogram that is not there, OptionError for an unknown style or signal, DatasetError
    where samples are not described, and what loading results raises.
    """
    found = results if isinstance(results, Results) else load(results)
    stacks = {one.name: one for one in all_stacks(found, histogram.partition("/")[0], overflow=overflow)}
    if histogram not in stacks:
        near = get_close_matches(histogram, stacks, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(stacks)}" if stacks else None
        what = f"there is no histogram {histogram!r} of one axis with the samples apart"
        raise NoSuchKeyError(what, path=str(found.out), hint=hint)
    return drawn(stacks[histogram], signal=signal, ratio=ratio, overflow=overflow, log=log, style=style, label=label)


def all_stacks(results: Results, wagon: str, *, overflow: bool = True) -> list[SampleStack]:
    """What can be drawn of a wagon. Raises DatasetError if no samples are described."""
    require("boost_histogram", "uhi", "hist")
    if not results.record.samples:
        hint = "describe them in the list of datasets, beside their files"
        raise DatasetError("the list of datasets of this train described no samples", path=str(results.out), hint=hint)
    # Imported late: it imports numpy and boost_histogram.
    from branchline.trains.results.stacks import stacks_of

    return stacks_of(results, wagon, flow=overflow)


def drawn(
    stack: SampleStack, *, signal: Sequence[str], ratio: bool, overflow: bool, log: bool, style: str, label: str
) -> Any:
    """A figure of a stack. Raises OptionError for a style or a signal that is not there."""
    require("matplotlib", "mplhep")
    if style not in STYLES:
        raise OptionError(f"there is no style {style!r}", hint=f"give one of {', '.join(STYLES)}")
    names = [one.sample.name for one in stack.samples]
    unknown = [one for one in signal if one not in names]
    if unknown:
        raise OptionError(f"there is no sample {unknown[0]!r} to draw", hint=f"there are {', '.join(names)}")
    # Imported late: matplotlib takes a second.
    from branchline.trains.results.stack_pictures import stack_figure

    return stack_figure(stack, signal=signal, ratio=ratio, overflow=overflow, log=log, style=STYLES[style], label=label)
