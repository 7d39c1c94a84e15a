"""What wagons see of a chunk and of each other: views, so that a wagon's changes stay its own, and `Shared` output, for
the wagons that require it alone.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping
from typing import Any

import awkward as ak

from branchline.trains.sums.accumulators import CannotAddError


class Shared:
    """Something for the wagons that require this one: they find it in ``events.outputs``, for the same chunk. It is no
    part of the results, so it may be as large as the chunk: arrays that were joined with a companion, selected objects,
    corrections. In a list it raises CannotAddError, and stops its wagon.

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

    def __init__(self, value: Any) -> None:
        self.value = value


def without_shared(output: Any) -> Any:
    """What of an output becomes a part of the results; the output itself where nothing in it is shared.

    In dicts what is shared is left out, elsewhere None is in its place, which adds nothing. Raises CannotAddError for
    something shared in a list.
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
        raise CannotAddError("something shared is in a list: return it under a key of a dict")
    return output


def _of_mapping(output: Mapping[Any, Any]) -> Mapping[Any, Any]:
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
