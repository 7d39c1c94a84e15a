"""Converts results to a datacard of Combine: a text file, and a ROOT file with the histograms."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import boost_histogram
import numpy as np

from branchline._core import __version__
from branchline.base.checks import number_within
from branchline.base.quantities import counted
from branchline.base.texts import escaped
from branchline.base.whole_files import failed_writing, whole_file
from branchline.errors import BranchlineWarning, DatasetError, OptionError, warn
from branchline.trains.results.fit_inputs import Channel, FitProcess, fit_channels, source_notes
from branchline.trains.results.load import Results
from branchline.trains.results.stacks import Contents
from branchline.trains.results.systematics import Systematics
from branchline.writing.objects.forms import axis_label, is_category
from branchline.writing.recreate.writable_file import recreate

#: Names that Combine reads as intended. It renames channels that begin with a digit, takes a process that is a number
#: for its index, and uses all names in formulas.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
#: Words at the beginning of a line that are not names of parameters, and Combine's signal strength.
_RESERVED = {"imax", "jmax", "kmax", "bin", "observation", "process", "rate", "shapes", "nuisance", "r"}
_DATA = "data_obs"
_RULE = "-" * 80


def datacard(
    results: Results | str | os.PathLike[str],
    regions: Mapping[str, str],
    path: str | os.PathLike[str],
    *,
    systematics: Systematics | None = None,
    blind: Sequence[str] = (),
    overflow: bool = True,
    mc_stat_threshold: float | None = 10,
    negative_bins: Literal["error", "zero"] = "error",
) -> Path:
    """Write a datacard for Combine, and the histograms to a ROOT file of the same name, and return the card's path.

    ``results``, ``regions``, ``systematics`` and ``blind`` are those of ``branchline.workspace``; the yields are the
    same. Existing files are replaced. Samples of kind ``signal`` get the process numbers 0 and below.

    Variations are lines of type ``shape``, rates ``lnN``, and free normalisations ``rateParam``. The histograms of the
    nominal processes have the statistical errors of the simulation. Processes without entries in a channel are left
    out of it; the card and a warning name them.

    mc_stat_threshold: the threshold of ``autoMCStats``; None leaves these lines out.
    negative_bins: "zero" sets negative bins to zero and scales the others such that the sum is unchanged.

        systematics = branchline.Systematics(rates={"lumi": 1.014})
        branchline.datacard("out", {"SR": "selected/4j2b"}, "cards/sr.txt", systematics=systematics, blind=["SR"])

    Raises OptionError for names that Combine cannot parse, DatasetError for negative bins or sums, StorageError, and
    the errors of ``branchline.workspace``.
    """
    card = Path(path)
    if card.suffix == ".root" or not _FILE_NAME.fullmatch(card.name):
        hint = "use letters, digits and .+-_, and the suffix .txt"
        raise OptionError(f"{card.name!r} cannot be the name of a datacard", hint=hint)
    if negative_bins not in ("error", "zero"):
        raise OptionError(f"unknown negative_bins {negative_bins!r}", hint="choose error or zero")
    if mc_stat_threshold is not None:
        hint = "give a number of events, or None"
        mc_stat_threshold = number_within("threshold of autoMCStats", mc_stat_threshold, 0, 1e12, hint)
    channels = fit_channels(results, regions, systematics=systematics, blind=blind, overflow=overflow)
    notes = source_notes(channels)
    for channel in channels:
        empty = [one.name for one in channel.processes if not one.nominal.values.any()]
        channel.processes = [one for one in channel.processes if one.name not in empty]
        notes += [f"{channel.name}: process {name} has no entries and is left out" for name in empty]
        for name in empty:
            warn(f"process {name!r} has no entries in region {channel.name!r} and is left out", BranchlineWarning)
        for process in channel.processes:
            notes += _without_negative_bins(process, channel, negative_bins)
    _check(channels)
    shapes = card.with_suffix(".root")
    text = _card(channels, shapes.name, notes, mc_stat_threshold)
    # The card appears last, so that there is none without its histograms.
    with whole_file(card) as temporary_card:
        with failed_writing(card):
            temporary_card.write_text(text, encoding="utf-8")
        with whole_file(shapes) as temporary_shapes, recreate(temporary_shapes) as file:
            for name, histogram in _histograms(channels):
                file[name] = histogram
    return card


def _without_negative_bins(process: FitProcess, channel: Channel, negative_bins: str) -> Iterator[str]:
    """Check a process and its templates, and yield notes on the bins that were set to zero. Raises DatasetError."""
    templates = {"": process.nominal.values}
    templates |= {f", {name} up": up for name, (up, _) in process.shapes.items()}
    templates |= {f", {name} down": down for name, (_, down) in process.shapes.items()}
    repaired = {}
    for what, values in templates.items():
        where = f"process {process.name!r}{what} in region {channel.name!r}"
        hint = "merge the sample with another one, or leave it out of the region"
        if values.sum() <= 0:
            raise DatasetError(f"{where} has the sum {values.sum():.4g}, which Combine cannot use", hint=hint)
        count = int(np.count_nonzero(values < 0))
        if count and negative_bins == "error":
            hint = 'use wider bins, or negative_bins="zero"'
            worst = f"bin {int(values.argmin())} has {values.min():.4g}"
            raise DatasetError(f"{where} has negative bins: {worst}", hint=hint)
        positive = np.maximum(values, 0)
        repaired[what] = positive * (values.sum() / positive.sum())
        if count:
            yield f"{channel.name}: {counted(count, 'negative bin')} of process {process.name}{what} set to zero"
    process.nominal = Contents(repaired[""], process.nominal.variances)
    process.shapes = {name: (repaired[f", {name} up"], repaired[f", {name} down"]) for name in process.shapes}


def _check(channels: Sequence[Channel]) -> None:
    """Raise OptionError for names that Combine cannot parse, and DatasetError for channels without processes."""
    for channel in channels:
        if not channel.processes:
            raise DatasetError(f"no process has entries in region {channel.name!r}", hint="leave the region out")
        _check_name("region", channel.name)
        names = [_DATA]
        for process in channel.processes:
            _check_name("process", process.name)
            names.append(process.name)
            for parameter in [*process.shapes, *process.rates, *process.free]:
                _check_name("parameter", parameter)
            names += [f"{process.name}_{name}{side}" for name in process.shapes for side in ("Up", "Down")]
            mixed = sorted({*process.shapes} & {*process.rates, *process.free})
            if mixed:
                raise OptionError(f"two uncertainties have the name {mixed[0]!r}", hint="rename one of them")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            what = f"two histograms of region {channel.name!r} would have the name {twice!r}"
            raise OptionError(what, hint="rename a sample or a variation")
    kinds: dict[str, str] = {}
    for process in (one for channel in channels for one in channel.processes):
        for kind, parameters in (("shape", process.shapes), ("lnN", process.rates), ("rateParam", process.free)):
            for name in parameters:
                if kinds.setdefault(name, kind) != kind:
                    raise OptionError(f"two uncertainties have the name {name!r}", hint="rename one of them")
    if not any(one.is_signal for channel in channels for one in channel.processes):
        raise DatasetError("no signal has entries in these regions")


def _check_name(what: str, name: str) -> None:
    if not _NAME.fullmatch(name) or (what == "parameter" and name in _RESERVED):
        reason = "is reserved" if _NAME.fullmatch(name) else "cannot be parsed by Combine"
        hint = "use letters, digits and underscores, and no digit at the beginning"
        raise OptionError(f"the {what} name {name!r:.80} {reason}", hint=hint)


def _card(channels: Sequence[Channel], shapes: str, notes: Sequence[str], mc_stat_threshold: float | None) -> str:
    """Return the text of the card."""
    columns = [(channel, process) for channel in channels for process in channel.processes]
    numbers = _numbers([process for _, process in columns])
    lines = [["bin", "", *(channel.name for channel, _ in columns)]]
    lines.append(["process", "", *(process.name for _, process in columns)])
    lines.append(["process", "", *(str(numbers[process.name]) for _, process in columns)])
    lines.append(["rate", "", *(_number(process.nominal.values.sum()) for _, process in columns)])
    nuisances = []
    for kind in ("shape", "lnN"):
        parameters = [one.shapes if kind == "shape" else one.rates for _, one in columns]
        for name in dict.fromkeys(name for one in parameters for name in one):
            row = [name, kind, *(_effect(process, name) for _, process in columns)]
            nuisances.append(row)
    widths = [max(len(row[at]) for row in [*lines, *nuisances]) for at in range(len(columns) + 2)]
    observed = [("bin", *(one.name for one in channels))]
    observed.append(("observation", *(_number(one.observed.values.sum()) for one in channels)))
    free = {(name, process.name) for _, process in columns for name in process.free}
    text = [f"# Written by Branchline {__version__}", *(f"# {escaped(note)}" for note in notes)]
    text += [f"imax {len(channels)}", f"jmax {len(numbers) - 1}", f"kmax {len(nuisances)}", _RULE]
    text += [f"shapes * * {shapes} $CHANNEL/$PROCESS $CHANNEL/$PROCESS_$SYSTEMATIC", _RULE]
    text += [_aligned(row, [max(map(len, column)) for column in zip(*observed, strict=True)]) for row in observed]
    text += [_RULE, *(_aligned(row, widths) for row in lines), _RULE]
    text += [_aligned(row, widths) for row in nuisances]
    text += [f"{name} rateParam * {process} 1 [0,10]" for name, process in sorted(free)]
    if mc_stat_threshold is not None:
        text += [f"{one.name} autoMCStats {mc_stat_threshold:g}" for one in channels]
    return "\n".join(text) + "\n"


def _numbers(processes: Sequence[FitProcess]) -> dict[str, int]:
    """Return the number of each process: 0 and below for signals, from 1 for backgrounds."""
    signals = list(dict.fromkeys(one.name for one in processes if one.is_signal))
    backgrounds = list(dict.fromkeys(one.name for one in processes if not one.is_signal))
    return {name: -number for number, name in enumerate(signals)} | {name: n for n, name in enumerate(backgrounds, 1)}


def _effect(process: FitProcess, name: str) -> str:
    if name in process.shapes:
        return "1"
    if name not in process.rates:
        return "-"
    low, high = process.rates[name]
    # A log-normal uncertainty of a factor f has the sides 1/f and f.
    return _number(high) if np.isclose(low * high, 1, rtol=1e-12) else f"{_number(low)}/{_number(high)}"


def _number(value: float) -> str:
    return f"{value:.10g}"


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _histograms(channels: Sequence[Channel]) -> Iterator[tuple[str, boost_histogram.Histogram]]:
    """Yield each histogram with its name in the file."""
    for channel in channels:
        yield f"{channel.name}/{_DATA}", _histogram(channel, channel.observed)
        for process in channel.processes:
            name = f"{channel.name}/{process.name}"
            yield name, _histogram(channel, process.nominal)
            for parameter, (up, down) in process.shapes.items():
                yield f"{name}_{parameter}Up", _histogram(channel, up)
                yield f"{name}_{parameter}Down", _histogram(channel, down)


def _histogram(channel: Channel, contents: Contents | np.ndarray) -> boost_histogram.Histogram:
    """Return a histogram, with variances if the contents have them."""
    size = len(channel.axis)
    edges = np.arange(size + 1) if is_category(channel.axis) else np.asarray(channel.axis.edges)
    axis = boost_histogram.axis.Variable(edges, metadata=axis_label(channel.axis))
    if isinstance(contents, np.ndarray):
        histogram = boost_histogram.Histogram(axis, storage=boost_histogram.storage.Double())
        histogram[...] = contents
        return histogram
    weighted = boost_histogram.Histogram(axis, storage=boost_histogram.storage.Weight())
    weighted[...] = np.stack([contents.values, contents.variances], axis=-1)
    return weighted
