"""NumPy array types for annotations, with a fixed dtype and any number of dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np

#: Used instead of ``numpy.typing.NDArray``, which leaves the shape as Any: mypy, as configured here, rejects Any in
#: dataclass fields.
Floats: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"
Integers: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"
Numbers: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float64 | np.int64]]"
Flags: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"
