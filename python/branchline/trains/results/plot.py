"""`branchline.plot`: draws several samples, with stacked simulation, data as points, and their comparison."""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from branchline.base.imports import require
from branchline.errors import DatasetError, NoSuchKeyError, OptionError
from branchline.trains.results.load import Results, load

if TYPE_CHECKING:
    from branchline.trains.results.plot_options import PlotOptions
    from branchline.trains.results.stacks import SampleStack
    from branchline.trains.results.systematics import Systematics


def plot(
    results: Results | str | os.PathLike[str],
    histogram: str,
    *,
    signal: Sequence[str] = (),
    panel: str = "ratio",
    overflow: bool = True,
    log: bool = False,
    style: str = "root",
    label: str = "",
    energy: float | str | None = None,
    systematics: Systematics | None = None,
    blind: bool = False,
) -> Any:
    """Draw a histogram of several samples: stacked simulation, data as points, and their comparison.

    ``results`` is the directory of a train or the result of ``branchline.load``. ``histogram`` is the wagon and the
    keys that lead to the histogram: ``"spectrum"``, ``"spectrum/pt"``. Simulated samples are scaled to the luminosity.
    The band is the statistical uncertainty of the simulation and all uncertainties, added in quadrature. Counts of data
    have Poisson intervals (Garwood), also in empty bins. A histogram with two axes is drawn as a colour mesh with its
    projections. Returns a matplotlib figure, which keeps its style when it is saved.

    signal: samples drawn as lines, not in the stack.
    panel: what is below the figure: "ratio", "pull", "difference" or "none".
    overflow: include underflow and overflow in the first and last bin; a note below the frame says so.
    style: "root", "cms", "atlas", "lhcb", "alice" or "dune", with the label of the experiment.
    label: text next to the experiment, such as "Preliminary".
    energy: the centre-of-mass energy in TeV, or a text with a unit, such as "900 GeV".
    systematics: how variations become uncertainties, and further uncertainties.
    blind: leave out data.

        figure = branchline.plot("out", "spectrum/pt", signal=["zprime"], style="cms", energy=13.6)
        figure.savefig("pt.pdf")

    Raises NoSuchKeyError for an unknown histogram, OptionError for an unknown style, panel or signal, DatasetError if
    no samples are described or the systematics match nothing, and the errors of loading results.
    """
    found = results if isinstance(results, Results) else load(results)
    stacks = {one.name: one for one in all_stacks(found, histogram.partition("/")[0], overflow=overflow)}
    if histogram not in stacks:
        raise missing_histogram(histogram, list(stacks), str(found.out))
    stack = stacks[histogram]
    # Imported late, because this module imports numpy and boost_histogram.
    from branchline.trains.results.plot_options import PlotOptions
    from branchline.trains.results.systematics import Systematics

    options = PlotOptions(
        signal=signal,
        panel=panel,
        overflow=overflow,
        log=log,
        style=style,
        label=label,
        energy=energy,
        systematics=systematics or Systematics(),
        blind=blind,
    )
    options.systematics.check(stack.variations(), [one.sample for one in stack.samples], str(found.out))
    return drawn(stack, options)


def all_stacks(results: Results, wagon: str, *, overflow: bool = True) -> list[SampleStack]:
    """Return the histograms of a wagon that can be drawn. Raises DatasetError if no samples are described."""
    require("boost_histogram", "uhi", "hist")
    if not results.record.samples:
        hint = "describe them in the list of datasets, next to their files"
        raise DatasetError("the list of datasets of this train described no samples", path=str(results.out), hint=hint)
    # Imported late, because this module imports numpy and boost_histogram.
    from branchline.trains.results.stacks import stacks_of

    return stacks_of(results, wagon, flow=overflow)


def missing_histogram(histogram: str, names: Sequence[str], out: str, kind: str = "histogram") -> NoSuchKeyError:
    """Return the error for an unknown histogram, with the names of the others."""
    near = get_close_matches(histogram, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(names)}" if names else None
    return NoSuchKeyError(f"no {kind} {histogram!r} with separate samples", path=out, hint=hint)


def drawn(stack: SampleStack, options: PlotOptions) -> Any:
    """Draw a stack. Raises OptionError for an unknown signal."""
    require("matplotlib", "mplhep")
    names = [one.sample.name for one in stack.samples]
    unknown = [one for one in options.signal if one not in names]
    if unknown:
        raise OptionError(f"unknown sample {unknown[0]!r}", hint=f"choose one of {', '.join(names)}")
    # Imported late, because matplotlib takes a second to import.
    if len(stack.axes) > 1:
        from branchline.trains.results.plane_pictures import plane_figure

        return plane_figure(stack, options)
    from branchline.trains.results.stack_pictures import stack_figure

    return stack_figure(stack, options)
