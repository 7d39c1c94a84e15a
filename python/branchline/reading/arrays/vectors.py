"""Arrays of TLorentzVector, TVector2, TVector3 and ROOT::Math's vectors calculate as vectors do.

Their members stay what they are in the file (`array.fP.fX`). Everything else that one may ask them for, `array.pt`,
`array.deltaR(other)`, `array + other`, is answered by the package `vector`, which is imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import awkward as ak
import numpy as np

# Names of the classes, or what their names begin with.
_NAMES = ("TLorentzVector", "TVector2", "TVector3")
_TEMPLATES = tuple(
    f"ROOT::Math::{name}<"
    for name in (
        "LorentzVector",
        "DisplacementVector2D",
        "DisplacementVector3D",
        "PositionVector2D",
        "PositionVector3D",
    )
)
# For each of ROOT's coordinate systems, its members and the coordinates of `vector` that they are.
_SYSTEMS: dict[frozenset[str], dict[str, str]] = {
    frozenset(members): members
    for members in (
        {"fX": "px", "fY": "py"},
        {"fR": "pt", "fPhi": "phi"},
        {"fX": "px", "fY": "py", "fZ": "pz"},
        {"fRho": "pt", "fPhi": "phi", "fZ": "pz"},
        {"fRho": "pt", "fPhi": "phi", "fEta": "eta"},
        {"fR": "r", "fPhi": "phi", "fTheta": "theta"},
        {"fX": "px", "fY": "py", "fZ": "pz", "fT": "E"},
        {"fX": "px", "fY": "py", "fZ": "pz", "fM": "mass"},
        {"fPt": "pt", "fPhi": "phi", "fEta": "eta", "fE": "E"},
        {"fPt": "pt", "fPhi": "phi", "fEta": "eta", "fM": "mass"},
    )
}
# Operations that `vector` defines for one vector, for two, for a vector and a number, and for lists of vectors.
_OF_ONE: tuple[Any, ...] = (np.absolute, np.square, np.sqrt, np.cbrt, np.positive, np.negative)
_OF_TWO: tuple[Any, ...] = (np.add, np.subtract, np.matmul, np.equal, np.not_equal)
_WITH_NUMBER: tuple[Any, ...] = (np.multiply, np.true_divide, np.power)
_OF_LISTS: tuple[Any, ...] = (ak.sum, ak.count, ak.count_nonzero)
_KINDS_OF_VECTOR = tuple(f"{kind}{dimensions}D" for kind in ("Momentum", "Vector") for dimensions in (2, 3, 4))
# Classes of records that were looked at, and those of them that are vectors.
_seen: set[str] = set()
_vectors: list[str] = []


def coordinates(vectors: Any) -> dict[str, Any]:
    """The coordinates of ROOT's vectors by the names that `vector` gives them."""
    if "fP" in vectors.fields:
        return {"px": vectors.fP.fX, "py": vectors.fP.fY, "pz": vectors.fP.fZ, "E": vectors.fE}
    inner = vectors["fCoordinates"] if "fCoordinates" in vectors.fields else vectors
    names = _SYSTEMS.get(frozenset(inner.fields))
    if names is None:
        raise TypeError(f"members {', '.join(inner.fields)} are no coordinates that are known")
    found = {name: inner[member] for member, name in names.items()}
    if "r" in found:
        # `vector` has no distance from the origin among its coordinates.
        found["pt"] = found.pop("r") * np.sin(found["theta"])
    return found


def to_vector(vectors: Any) -> Any:
    """The same vectors as those of the package `vector`."""
    try:
        import vector
    except ImportError as error:
        raise ImportError(
            "vectors are calculated with by the package vector, which is not installed: pip install vector"
        ) from error

    vector.register_awkward()
    found = coordinates(vectors)
    name = f"Momentum{len(found)}D"
    if isinstance(vectors, ak.Record):
        return ak.Record(found, with_name=name)
    return ak.zip(found, with_name=name)


def _converted(value: Any) -> Any:
    return to_vector(value) if isinstance(value, _Vectors) else value


class _Vectors:
    """What arrays and single records of ROOT's vectors have in common."""

    def to_vector(self) -> Any:
        """The same as vectors of the package `vector`."""
        return to_vector(self)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)  # type: ignore[misc]
        except AttributeError:
            if name.startswith("_"):
                raise
        try:
            vectors = to_vector(self)
        except ImportError as error:  # hasattr is to be False
            raise AttributeError(f"{name}: {error}") from error
        found = getattr(vectors, name)
        if not callable(found) or isinstance(found, ak.Array | ak.Record):
            return found

        def method(*arguments: Any, **options: Any) -> Any:
            return found(*map(_converted, arguments), **{key: _converted(value) for key, value in options.items()})

        return method


class VectorArray(_Vectors, ak.Array):
    """An array of ROOT's vectors."""


class VectorRecord(_Vectors, ak.Record):
    """One of ROOT's vectors."""


def _on_vectors(operation: Callable[..., Any]) -> Callable[..., Any]:
    """An operation of NumPy or awkward as `vector` does it."""
    return lambda *values: operation(*map(_converted, values))


def _over_lists(reducer: Callable[..., Any]) -> Callable[[Any, bool], Any]:
    return lambda lists, mask_identity: reducer(to_vector(lists), axis=1, mask_identity=mask_identity)


def register_vectors(class_name: str) -> None:
    """Makes records of this class behave as vectors, if ROOT's class is one."""
    if class_name in _seen:
        return
    _seen.add(class_name)
    if class_name not in _NAMES and not class_name.startswith(_TEMPLATES):
        return
    _vectors.append(class_name)
    behavior = ak.behavior
    behavior["*", class_name] = VectorArray
    behavior[class_name] = VectorRecord
    for operation in _OF_ONE:
        behavior[operation, class_name] = _on_vectors(operation)
    for operation in _OF_TWO:
        for other in (*_vectors, *_KINDS_OF_VECTOR):
            behavior[operation, class_name, other] = behavior[operation, other, class_name] = _on_vectors(operation)
    for operation in _WITH_NUMBER:
        behavior[operation, class_name, Real] = _on_vectors(operation)
    behavior[np.multiply, Real, class_name] = _on_vectors(np.multiply)
    for reducer in _OF_LISTS:
        behavior[reducer, class_name] = _over_lists(reducer)
