"""Views for wagons: each has its own of a chunk and of other wagons' outputs, so no other wagon sees its changes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import awkward as ak

from branchline.trains.wagons.sharing import Shared


def array_view(array: Any) -> Any:
    """An array over the same buffers: assigning a field to it leaves the original as it is."""
    # Several weights at a time say of themselves that they are one array, and are not.
    if not issubclass(type(array), ak.Array):
        return array
    return ak.Array(array.layout, behavior=array.behavior, attrs=dict(array.attrs))


def output_view(output: Any) -> Any:
    """A copy of what another wagon returned, whose change in place leaves the original as it is.

    Containers, histograms and NumPy arrays are copied. Awkward arrays share their buffers.
    """
    if isinstance(output, Shared):
        return output_view(output.value)
    if isinstance(output, ak.Array):
        return array_view(output)
    if type(output) is dict:
        return {key: output_view(value) for key, value in output.items()}
    if type(output) in (list, tuple, set):
        return type(output)(output_view(value) for value in output)
    if isinstance(output, Mapping) and hasattr(output, "copy"):
        return _mapping_view(output)
    return copy.deepcopy(output)


def _mapping_view(output: Any) -> Any:
    """A mapping of another type, as coffea's accumulators or a defaultdict."""
    view = output.copy()
    for key, value in output.items():
        view[key] = output_view(value)
    return view
