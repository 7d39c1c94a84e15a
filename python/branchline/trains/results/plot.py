"""`branchline.plot`: draws several samples, with stacked simulation, data as points, and their ratio."""

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

#: Names of mplhep's styles, by the value of the argument ``style``.
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
    """Draw a histogram of several samples: stacked simulation, data as points, and their ratio.

    ``results`` is the directory of a train or the result of ``branchline.load``. ``histogram`` is the wagon and the
    keys that lead to the histogram: ``"spectrum"``, ``"spectrum/pt"``. Simulated samples are scaled to the luminosity.
    The band is the statistical uncertainty of the simulation and all named variations, added in quadrature. Returns a
    matplotlib figure.

    signal: samples drawn as lines, not in the stack.
    overflow: include underflow and overflow in the first and last bin; a remark in the plot says so.
    style: "root", "cms", "atlas", "lhcb" or "alice".
    label: text above the plot, such as "Work in progress".

        figure = branchline.plot("out", "spectrum/pt", signal=["zprime"], style="cms")
        figure.savefig("pt.pdf")

    Raises NoSuchKeyError for an unknown histogram, OptionError for an unknown style or signal, DatasetError if no
    samples are described, and the errors of loading results.
    """
    found = results if isinstance(results, Results) else load(results)
    stacks = {one.name: one for one in all_stacks(found, histogram.partition("/")[0], overflow=overflow)}
    if histogram not in stacks:
        near = get_close_matches(histogram, stacks, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(stacks)}" if stacks else None
        what = f"no one-dimensional histogram {histogram!r} with separate samples"
        raise NoSuchKeyError(what, path=str(found.out), hint=hint)
    return drawn(stacks[histogram], signal=signal, ratio=ratio, overflow=overflow, log=log, style=style, label=label)


def all_stacks(results: Results, wagon: str, *, overflow: bool = True) -> list[SampleStack]:
    """Return the histograms of a wagon that can be drawn. Raises DatasetError if no samples are described."""
    require("boost_histogram", "uhi", "hist")
    if not results.record.samples:
        hint = "describe them in the list of datasets, next to their files"
        raise DatasetError("the list of datasets of this train described no samples", path=str(results.out), hint=hint)
    # Imported late, because this module imports numpy and boost_histogram.
    from branchline.trains.results.stacks import stacks_of

    return stacks_of(results, wagon, flow=overflow)


def drawn(
    stack: SampleStack, *, signal: Sequence[str], ratio: bool, overflow: bool, log: bool, style: str, label: str
) -> Any:
    """Draw a stack. Raises OptionError for an unknown style or signal."""
    require("matplotlib", "mplhep")
    if style not in STYLES:
        raise OptionError(f"unknown style {style!r}", hint=f"choose one of {', '.join(STYLES)}")
    names = [one.sample.name for one in stack.samples]
    unknown = [one for one in signal if one not in names]
    if unknown:
        raise OptionError(f"unknown sample {unknown[0]!r}", hint=f"choose one of {', '.join(names)}")
    # Imported late, because matplotlib takes a second to import.
    from branchline.trains.results.stack_pictures import stack_figure

    return stack_figure(stack, signal=signal, ratio=ratio, overflow=overflow, log=log, style=STYLES[style], label=label)
