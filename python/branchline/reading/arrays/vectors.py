"""Vector arithmetic for arrays of TLorentzVector, TVector2, TVector3 and the vectors of ROOT::Math.

Members keep their names (`array.fP.fX`). All other attributes and operators, such as `array.pt`, `array.deltaR(other)`
or `array + other`, are delegated to the package `vector`, which is imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import awkward as ak
import numpy as np

# Names of ROOT's vector classes that are not templates.
_NAMES = ("TLorentzVector", "TVector2", "TVector3")
# Name prefixes of ROOT's vector classes that are templates.
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
# ROOT's coordinate systems: for each set of members, the coordinate in `vector` that corresponds to each member.
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
# Operations that `vector` defines for one vector.
_OF_ONE: tuple[Callable[..., ak.Array], ...] = (np.absolute, np.square, np.sqrt, np.cbrt, np.positive, np.negative)
# Operations that `vector` defines for two vectors.
_OF_TWO: tuple[Callable[..., ak.Array], ...] = (np.add, np.subtract, np.matmul, np.equal, np.not_equal)
# Operations that `vector` defines for a vector and a number.
_WITH_NUMBER: tuple[Callable[..., ak.Array], ...] = (np.multiply, np.true_divide, np.power)
# Operations that `vector` defines for lists of vectors.
_OF_LISTS: tuple[Callable[..., ak.Array], ...] = (ak.sum, ak.count, ak.count_nonzero)
_KINDS_OF_VECTOR = tuple(f"{kind}{dimensions}D" for kind in ("Momentum", "Vector") for dimensions in (2, 3, 4))
# Names of record classes that `register_vectors` has already checked.
_seen: set[str] = set()
# Names of the vector classes among the checked record classes.
_vectors: list[str] = []


def coordinates(vectors: ak.Array) -> dict[str, ak.Array]:
    """Return the coordinates of ROOT's vectors by the names that `vector` uses."""
    if "fP" in vectors.fields:
        return {"px": vectors.fP.fX, "py": vectors.fP.fY, "pz": vectors.fP.fZ, "E": vectors.fE}
    inner = vectors["fCoordinates"] if "fCoordinates" in vectors.fields else vectors
    names = _SYSTEMS.get(frozenset(inner.fields))
    if names is None:
        raise TypeError(f"members {', '.join(inner.fields)} are not a known coordinate system")
    found = {name: inner[member] for member, name in names.items()}
    if "r" in found:
        # `vector` has no radial coordinate, so convert it to pt.
        found["pt"] = found.pop("r") * np.sin(found["theta"])
    return found


def to_vector(vectors: ak.Array) -> Any:
    """Convert ROOT's vectors to vectors of the package `vector`."""
    try:
        import vector
    except ImportError as error:
        raise ImportError(
            "vector arithmetic needs the package vector, which is not installed: pip install vector"
        ) from error

    vector.register_awkward()
    found = coordinates(vectors)
    name = f"Momentum{len(found)}D"
    if isinstance(vectors, ak.Record):
        return ak.Record(found, with_name=name)
    return ak.zip(found, with_name=name)


def _converted(value: object) -> object:
    return to_vector(value) if isinstance(value, _Vectors) else value


class _Vectors:
    """Methods that arrays and single records of ROOT's vectors share."""

    def to_vector(self) -> Any:
        """Convert ROOT's vectors to vectors of the package `vector`."""
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

        def method(*arguments: object, **options: object) -> Any:
            return found(*map(_converted, arguments), **{key: _converted(value) for key, value in options.items()})

        return method


class VectorArray(_Vectors, ak.Array):
    """An array of ROOT's vectors."""


class VectorRecord(_Vectors, ak.Record):
    """A single vector of ROOT."""


def _on_vectors(operation: Callable[..., ak.Array]) -> Callable[..., ak.Array]:
    """Wrap a NumPy or awkward operation so that the package `vector` computes it."""
    return lambda *values: operation(*map(_converted, values))


def _over_lists(reducer: Callable[..., ak.Array]) -> Callable[[ak.Array, bool], ak.Array]:
    return lambda lists, mask_identity: reducer(to_vector(lists), axis=1, mask_identity=mask_identity)


def register_vectors(class_name: str) -> None:
    """Register vector behavior for records of ``class_name`` if the class is one of ROOT's vector classes."""
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
