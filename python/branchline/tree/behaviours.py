"""ROOT's vectors as vectors: arrays of TLorentzVector, TVector2, TVector3 and ROOT::Math's vectors know what they are.

Their members stay what they are in the file (`array.fP.fX`). Everything else that one may ask them for, `array.pt`,
`array.deltaR(other)`, `array + other`, is answered by the package `vector`, which is imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable
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
# What ROOT's coordinate systems call their members, and `vector` its coordinates.
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
_BINARY = (np.add, np.subtract, np.equal, np.not_equal)
_known: set[str] = set()


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
        found = getattr(to_vector(self), name)
        if not callable(found) or isinstance(found, ak.Array | ak.Record):
            return found

        def method(*arguments: Any, **options: Any) -> Any:
            return found(*map(_converted, arguments), **{key: _converted(value) for key, value in options.items()})

        return method


class VectorArray(_Vectors, ak.Array):  # type: ignore[misc]
    """An array of ROOT's vectors."""


class VectorRecord(_Vectors, ak.Record):  # type: ignore[misc]
    """One of ROOT's vectors."""


def _binary(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: operation(_converted(one), _converted(other))


def _scaled(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: operation(_converted(one), _converted(other))


def know(class_name: str) -> None:
    """Makes records of this class behave as vectors, if ROOT's class is one."""
    if class_name in _known:
        return
    _known.add(class_name)
    if class_name not in _NAMES and not class_name.startswith(_TEMPLATES):
        return
    behavior = ak.behavior
    behavior["*", class_name] = VectorArray
    behavior[class_name] = VectorRecord
    dimensions = [f"{kind}{count}D" for kind in ("Momentum", "Vector") for count in (2, 3, 4)]
    vectors = [name for name in _known if ("*", name) in behavior and behavior["*", name] is VectorArray]
    for operation in _BINARY:
        for other in (*vectors, *dimensions):
            behavior[operation, class_name, other] = _binary(operation)
            behavior[operation, other, class_name] = _binary(operation)
    for operation in (np.multiply, np.true_divide):
        behavior[operation, class_name, float] = behavior[operation, class_name, int] = _scaled(operation)
    for operation in (np.absolute, np.negative):
        behavior[operation, class_name] = lambda one, operation=operation: operation(to_vector(one))
