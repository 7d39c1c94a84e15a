"""Converts results to a HistFactory workspace, which can be fitted with pyhf and cabinetry."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from branchline.errors import DatasetError
from branchline.trains.results.fit_inputs import Channel, FitProcess, fit_channels, source_notes
from branchline.trains.results.load import Results
from branchline.trains.results.systematics import Systematics

#: Version of HistFactory's JSON format.
_VERSION = "1.0.0"


def workspace(
    results: Results | str | os.PathLike[str],
    regions: Mapping[str, str],
    *,
    parameter: str = "mu",
    systematics: Systematics | None = None,
    blind: Sequence[str] = (),
    overflow: bool = True,
) -> Any:
    """Return the histograms of several samples as a HistFactory workspace for ``pyhf`` and ``cabinetry``.

    ``results`` is the directory of a train or the result of ``branchline.load``. ``regions`` maps channel names to
    histograms: ``{"4j2b": "selected/4j2b"}``. Simulated samples are scaled to the luminosity; samples of kind
    ``signal`` have the free factor ``parameter``.

    Variations become a ``histosys``; if one side is missing, the other one is mirrored. Rates and free normalisations
    of ``systematics`` become a ``normsys`` and a ``normfactor``. The statistical errors of the simulation become a
    ``staterror`` for each channel.

    blind: regions whose data are not used. Their observation is the sum of the backgrounds, and the name of the
        measurement says so. Without data, the observation is the sum of the simulation.

        specification = branchline.workspace("out", {"4j2b": "selected/4j2b"})
        model = pyhf.Workspace(specification).model()

    The returned dict has the structure of HistFactory's JSON format. Raises NoSuchKeyError for an unknown histogram,
    OptionError for an unknown region, DatasetError if no sample is a signal, if no samples are described or if two
    modifiers would have the same name, and the errors of loading results.
    """
    channels = fit_channels(results, regions, systematics=systematics, blind=blind, overflow=overflow)
    samples = [[_sample(process, one, parameter) for process in one.processes] for one in channels]
    _check_names([sample for of_channel in samples for sample in of_channel])
    measurement = "; ".join(["measurement", *source_notes(channels)])
    return {
        "channels": [{"name": one.name, "samples": made} for one, made in zip(channels, samples, strict=True)],
        "observations": [{"name": one.name, "data": one.observed.values.tolist()} for one in channels],
        "measurements": [{"name": measurement, "config": {"poi": parameter, "parameters": []}}],
        "version": _VERSION,
    }


def _sample(process: FitProcess, channel: Channel, parameter: str) -> Mapping[str, Any]:
    nominal = process.nominal
    errors = np.sqrt(nominal.variances).tolist()
    modifiers: list[Any] = [{"name": f"staterror_{channel.name}", "type": "staterror", "data": errors}]
    free = [parameter] if process.is_signal else []
    modifiers += [{"name": name, "type": "normfactor", "data": None} for name in [*free, *process.free]]
    for name, (up, down) in process.shapes.items():
        data = {"hi_data": up.tolist(), "lo_data": down.tolist()}
        modifiers.append({"name": name, "type": "histosys", "data": data})
    for name, (low, high) in process.rates.items():
        modifiers.append({"name": name, "type": "normsys", "data": {"hi": high, "lo": low}})
    return {"name": process.name, "data": nominal.values.tolist(), "modifiers": modifiers}


def _check_names(samples: Sequence[Mapping[str, Any]]) -> None:
    """Raise DatasetError if two modifiers that cannot share a parameter have the same name."""
    kinds: dict[str, str] = {}
    for sample in samples:
        names = Counter(modifier["name"] for modifier in sample["modifiers"])
        for modifier in sample["modifiers"]:
            name, kind = modifier["name"], "normsys" if modifier["type"] == "histosys" else modifier["type"]
            if names[name] > 1 or kinds.setdefault(name, kind) != kind:
                what = f"two modifiers of sample {sample['name']!r} or of others would have the name {name!r}"
                raise DatasetError(what, hint=f"rename the uncertainty {name!r}")
