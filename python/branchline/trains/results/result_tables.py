"""Tables of results for documents: yields of regions, cutflows of samples, and the largest variations."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence

import numpy as np

from branchline.base.checks import whole_number
from branchline.base.quantities import count, percent, significant, weights_column
from branchline.base.text_tables import TextTable
from branchline.errors import NoSuchKeyError
from branchline.trains.results.fit_inputs import BLINDED, DATA, Channel, FitProcess, fit_channels, source_notes
from branchline.trains.results.load import Results, load, normalised
from branchline.trains.results.plot import all_stacks, missing_histogram
from branchline.trains.results.stacks import SampleHistogram, total
from branchline.trains.results.systematics import Systematics, Uncertainty
from branchline.trains.sums.cutflow import Cutflow, cutflows_in

_PLUS_MINUS = "\N{PLUS-MINUS SIGN}"


def yields(
    results: Results | str | os.PathLike[str],
    regions: Mapping[str, str],
    *,
    systematics: Systematics | None = None,
    blind: Sequence[str] = (),
    overflow: bool = True,
) -> TextTable:
    """Return the table of yields: a row for each sample, the background, and data; a column for each region.

    The arguments are those of ``branchline.workspace``. The first uncertainty is the statistical one of the simulation,
    the second one the sum in quadrature of all variations and rates. Data of regions in ``blind`` are not shown.

        print(branchline.yields("out", {"4j2b": "selected/4j2b"}).markdown())

    Raises the errors of ``branchline.workspace``, but a sample of kind ``signal`` is not needed.
    """
    channels = fit_channels(
        results, regions, systematics=systematics, blind=blind, overflow=overflow, needs_signal=False
    )
    names = dict.fromkeys(process.name for channel in channels for process in channel.processes)
    labels = {process.name: process.sample.label or process.name for one in channels for process in one.processes}
    by_name = [{process.name: process for process in channel.processes} for channel in channels]
    rows = [
        [labels[name], *(_expected([one[name]]) if name in one else "-" for one in by_name)]
        for name in sorted(names, key=lambda name: any(name in one and one[name].is_signal for one in by_name))
    ]
    backgrounds = [[one for one in channel.processes if not one.is_signal] for channel in channels]
    rules = [len(rows)]
    rows.append(["Background", *(_expected(one) if one else "-" for one in backgrounds)])
    rows.append(["Data", *(_observed(channel) for channel in channels)])
    head = ["Sample", *(channel.name for channel in channels)]
    notes = [f"Yields {_PLUS_MINUS} statistical {_PLUS_MINUS} systematic uncertainty", *source_notes(channels)]
    return TextTable("Yields", head, rows, notes, rules)


def cutflows(results: Results | str | os.PathLike[str], wagon: str) -> TextTable:
    """Return the cutflows of a wagon as a table: a row for each cut, a column for each cutflow, such as for a sample.

    Cells contain the sum of weights, scaled to the luminosity if the list of datasets describes samples, and the
    percentage that passed the cut. Cutflows of variations are left out.

        print(branchline.cutflows("out", "selected").latex())

    Raises NoSuchKeyError if the wagon has no cutflows, and the errors of loading and scaling results.
    """
    found = results if isinstance(results, Results) else load(results)
    samples = found.record.samples
    value = normalised(found[wagon], samples, f"the result of wagon {wagon!r}") if samples else found[wagon]
    flows = dict(cutflows_in(_nominal(value)))
    if not flows:
        raise NoSuchKeyError(f"wagon {wagon!r} returned no cutflow", path=str(found.out), hint="see branchline.Cutflow")
    cuts = list(dict.fromkeys(name for flow in flows.values() for name in flow.names))
    columns = [_cut_cells(flow) for flow in flows.values()]
    labels = {one.name: one.label or one.name for one in samples}
    paths = [name.split("/") for name in flows]
    if len({path[-1] for path in paths}) == 1 and all(len(path) > 1 for path in paths):
        # All cutflows have the same name, and differ by their sample.
        paths = [path[:-1] for path in paths]
    head = ["Cut", *("/".join(labels.get(part, part) for part in path) or wagon for path in paths)]
    rows = [[cut, *(column.get(cut, "-") for column in columns)] for cut in cuts]
    what = "Sums of weights, scaled to the luminosity" if samples else "Sums of weights"
    return TextTable(f"Cutflows of {wagon}", head, rows, [f"{what}, and the part that passes the cut"])


def largest_variations(
    results: Results | str | os.PathLike[str],
    histogram: str,
    *,
    systematics: Systematics | None = None,
    overflow: bool = True,
    rows_max: int = 20,
) -> TextTable:
    """Return the table of the uncertainties with the largest effect on the simulation of a histogram, largest first.

    The columns are the relative change of the sum of all samples for the upper and the lower side, the sample with the
    largest change, and the largest change of a bin with its range.

        print(branchline.largest_variations("out", "selected/4j2b"))

    Raises NoSuchKeyError for an unknown histogram, OptionError, DatasetError, and the errors of loading results.
    """
    found = results if isinstance(results, Results) else load(results)
    rows_max = whole_number("number of rows", rows_max, 1)
    stacks = {one.name: one for one in all_stacks(found, histogram.partition("/")[0], overflow=overflow)}
    if histogram not in stacks:
        raise missing_histogram(histogram, list(stacks), str(found.out))
    stack = stacks[histogram]
    simulated = [one for one in stack.samples if not one.sample.is_data]
    nominal = total(simulated)
    if nominal is None:
        raise missing_histogram(histogram, [], str(found.out))
    declared = systematics or Systematics()
    declared.check(stack.variations(), [one.sample for one in simulated], str(found.out))
    effects = []
    for uncertainty in declared.uncertainties(stack.variations(), [one.sample for one in simulated]):
        shifts = _all_shifts(uncertainty, simulated, nominal.values)
        expected = float(nominal.values.sum())
        up, down = (_part(float(one.sum()), expected) for one in shifts)
        bins = np.max(np.abs(shifts), axis=0) / np.where(nominal.values > 0, nominal.values, np.inf)
        at = np.unravel_index(int(bins.argmax()), bins.shape) if bins.size else ()
        where = " x ".join(_range(axis, int(place)) for axis, place in zip(stack.axes, at, strict=False))
        cells = [uncertainty.name, _signed(up), _signed(down), _most_affected(uncertainty, simulated)]
        largest = f"{float(bins.max()):.1%} in {where}".replace("%", " %") if bins.size else "-"
        effects.append((max(abs(up), abs(down)), [*cells, largest]))
    effects.sort(key=lambda one: -one[0])
    shown = [cells for _, cells in effects[:rows_max]]
    notes = [f"{count(len(effects) - rows_max)} smaller ones are not shown"] if len(effects) > rows_max else []
    head = ["Uncertainty", "up", "down", "largest for sample", "largest in bin"]
    return TextTable(f"Largest variations of {histogram}", head, shown, notes)


def _nominal(value: object) -> object:
    """Return a result without the variations other than the nominal one."""
    if not isinstance(value, Mapping) or isinstance(value, Cutflow):
        return value
    if "nominal" in value:
        return _nominal(value["nominal"])
    return {key: _nominal(one) for key, one in value.items()}


def _cut_cells(flow: Cutflow) -> dict[str, str]:
    cells, before = {}, flow.sums[0] if flow.sums else 0.0
    for name, written, weight in zip(flow.names, weights_column(flow.sums), flow.sums, strict=True):
        cells[name] = f"{written} ({percent(weight, before)})"
        before = weight
    return cells


def _expected(processes: Sequence[FitProcess]) -> str:
    """Return the sum of processes with its statistical and systematic uncertainty."""
    value = sum(float(one.nominal.values.sum()) for one in processes)
    statistical = math.sqrt(sum(float(one.nominal.variances.sum()) for one in processes))
    shifts: dict[str, tuple[float, float]] = {}
    for one in processes:
        own = float(one.nominal.values.sum())
        changes = [(name, float(up.sum()) - own, float(down.sum()) - own) for name, (up, down) in one.shapes.items()]
        changes += [(name, own * (high - 1), own * (low - 1)) for name, (low, high) in one.rates.items()]
        for name, up, down in changes:
            before = shifts.get(name, (0.0, 0.0))
            shifts[name] = before[0] + up, before[1] + down
    systematic = math.sqrt(sum(max(abs(up), abs(down)) ** 2 for up, down in shifts.values()))
    errors = [statistical, *([systematic] if shifts else [])]
    decimals = _decimals(max(errors))
    return f" {_PLUS_MINUS} ".join(f"{one:,.{decimals}f}".replace(",", " ") for one in (value, *errors))


def _decimals(error: float) -> int:
    """Return the number of decimals with which an uncertainty has two significant digits."""
    return min(12, max(0, 1 - math.floor(math.log10(error)))) if error > 0 else 1


def _observed(channel: Channel) -> str:
    if channel.source != DATA:
        return "blinded" if channel.source == BLINDED else "-"
    value = float(channel.observed.values.sum())
    return count(value) if value.is_integer() else significant(value, 5)


def _all_shifts(
    uncertainty: Uncertainty, simulated: Sequence[SampleHistogram], nominal: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the shifts of the sum of all samples; those of uncorrelated groups are added in quadrature."""
    groups = [one for one in map(uncertainty.shifts, uncertainty.correlated(simulated)) if one is not None]
    if len(groups) == 1:
        return np.broadcast_to(groups[0][0], nominal.shape), np.broadcast_to(groups[0][1], nominal.shape)
    sizes = np.sqrt(sum((np.max(np.abs(one), axis=0) ** 2 for one in groups), np.zeros(nominal.shape)))
    return sizes, -sizes


def _most_affected(uncertainty: Uncertainty, simulated: Sequence[SampleHistogram]) -> str:
    """Return the sample whose sum changes most, relative to its nominal sum, and the change."""
    changes = []
    for one in simulated:
        shifts = uncertainty.shifts([one])
        if shifts is not None:
            own = float(one.nominal.values.sum())
            changes.append((max((_part(float(side.sum()), own) for side in shifts), key=abs), one.sample.name))
    if not changes:
        return "-"
    change, name = max(changes, key=lambda one: abs(one[0]))
    return f"{name}: {_signed(change)}"


def _part(change: float, whole: float) -> float:
    return change / whole if whole > 0 else 0.0


def _signed(part: float) -> str:
    return f"{100 * part:+.2f} %"


def _range(axis: object, place: int) -> str:
    """Return the range or the label of a bin."""
    bin_ = axis.bin(place)  # type: ignore[attr-defined]
    return f"{bin_[0]:g} to {bin_[1]:g}" if isinstance(bin_, tuple) else str(bin_)
