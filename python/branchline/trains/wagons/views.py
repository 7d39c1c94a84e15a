"""Views of chunks and of other wagons' outputs, so that changes by a wagon do not affect other wagons. Also `Shared`,
which marks outputs that are passed only to wagons that require them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping
from typing import Any

import awkward as ak

from branchline.trains.sums.accumulators import CannotAddError


class Shared:
    """An output that is passed only to the wagons that require this wagon, in ``events.outputs`` of the same chunk.

    The output is not part of the results, so it may be as large as the chunk: arrays joined with a companion, selected
    objects, corrections. A Shared value in a list raises CannotAddError, which stops the wagon.

        class Truth:
            name = "truth"

            def process(self, events):
                particles = events.companion["Kinematics"].Particles
                return {"pt": branchline.Shared(np.hypot(particles.fPx, particles.fPy)), "events": len(events)}

        class Resolution:
            requires = ["truth"]

            def process(self, events):
                true_pt = events.outputs["truth"]["pt"]
    """

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def without_shared(output: object) -> Any:
    """Return the part of an output that belongs to the results. An output without shared values is returned unchanged.

    Shared values are removed from dicts and replaced by None elsewhere. Raises CannotAddError for a shared value in a
    list.
    """
    if isinstance(output, Shared):
        return None
    if isinstance(output, Mapping):
        return _of_mapping(output)
    if isinstance(output, tuple):
        values = [without_shared(value) for value in output]
        if all(new is old for new, old in zip(values, output, strict=True)):
            return output
        return type(output)(*values) if hasattr(output, "_fields") else tuple(values)
    if isinstance(output, list) and any(isinstance(one, Shared) for one in output):
        raise CannotAddError("a Shared value is in a list; return it under a key of a dict")
    return output


def _of_mapping(output: Mapping[Any, object]) -> Mapping[object, object]:
    kept = {key: without_shared(value) for key, value in output.items() if not isinstance(value, Shared)}
    if len(kept) == len(output) and all(value is output[key] for key, value in kept.items()):
        return output
    if not isinstance(output, MutableMapping):
        return kept
    made = copy.copy(output)
    for key in output:
        if key in kept:
            made[key] = kept[key]
        else:
            del made[key]
    return made


def array_view(array: ak.Array) -> ak.Array:
    """Return an array over the same buffers. Assigning a field to the new array leaves the original unchanged."""
    # Check the real type: shared weights (`Weights`) pretend to be an array.
    if not issubclass(type(array), ak.Array):
        return array
    return ak.Array(array.layout, behavior=array.behavior, attrs=dict(array.attrs))


def output_view(output: Any) -> Any:
    """Return a copy of another wagon's output. Changes to the copy leave the original unchanged.

    Containers, histograms and NumPy arrays are copied. Awkward arrays share their buffers with the original.
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
        # A mapping of another type, such as a coffea accumulator or a defaultdict.
        view = output.copy()
        for key, value in output.items():
            view[key] = output_view(value)
        return view
    return copy.deepcopy(output)
