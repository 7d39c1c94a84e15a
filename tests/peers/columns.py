"""Kinds of columns with random values. Each kind can write its values with ROOT and read them back.

`truths` returns the values of a column as an awkward array per branch. `put` stores the values of an entry where ROOT
fills branches from. `got` returns the values that ROOT read for an entry as a NumPy array, to compare with `wanted`.
"""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np

# Type letters in ROOT's leaf lists, with the NumPy types of the values.
LEAF_TYPES = {
    "B": "i1", "b": "u1", "S": "i2", "s": "u2", "I": "i4", "i": "u4", "L": "i8", "l": "u8", "G": "i8", "g": "u8",
    "F": "f4", "D": "f8", "O": "?", "f": "f4", "d": "f8",
}  # fmt: skip
VECTOR_TYPES = {
    "char": "i1", "unsigned char": "u1", "short": "i2", "unsigned short": "u2", "int": "i4", "unsigned int": "u4",
    "long": "i8", "unsigned long": "u8", "long long": "i8", "unsigned long long": "u8", "float": "f4", "double": "f8",
    "bool": "?",
}  # fmt: skip
ALPHABET = np.array(list("abcdefghijklmnopqrstuvwxyz \u00c4\u00d6\u00df\u4e2d"))
SPECIAL_FLOATS = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e-42])


def random_values(rng: np.random.Generator, code: str, dtype: str, count: int) -> np.ndarray:
    """Return random values of a type. For packed floats, return values that ROOT stores without loss."""
    if code == "f":
        return rng.integers(-64, 64, count).astype("f4") * np.float32(0.5)
    if code == "d":
        return rng.normal(0, 1e3, count).astype("f4").astype("f8")
    if dtype == "?":
        return rng.random(count) < 0.5
    if np.dtype(dtype).kind == "f":
        values = rng.normal(0, 1, count) * 10.0 ** rng.integers(-30, 30, count)
        values[rng.random(count) < 0.02] = rng.choice(SPECIAL_FLOATS)
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)


def random_counts(rng: np.random.Generator, entries: int, largest: int) -> np.ndarray:
    """Return a length per entry. The lengths include zeros, runs of zeros, and a tail up to `largest`."""
    counts = np.minimum(rng.geometric(0.2, entries) - 1, largest)
    start = int(rng.integers(0, entries))
    counts[start : start + entries // 10] = 0
    return counts.astype("i4")


def random_texts(rng: np.random.Generator, entries: int, longest: int) -> list[str]:
    """Return strings of 0 to `longest` characters, some of which take several bytes."""
    return ["".join(rng.choice(ALPHABET, size=n)) for n in rng.integers(0, longest + 1, entries)]


class LeafColumn:
    """`name[2][3]/T`: a number, or a fixed-size array of numbers."""

    def __init__(self, rng: np.random.Generator, name: str, code: str, dims: tuple[int, ...], entries: int) -> None:
        self.name, self.code, self.dims = name, code, dims
        shape = (entries, *dims)
        self.values = random_values(rng, code, LEAF_TYPES[code], int(np.prod(shape))).reshape(shape)

    def attach(self, _root: Any, tree: Any, *, writing: bool) -> None:
        self.buffer = np.zeros(int(np.prod(self.dims, initial=1)), LEAF_TYPES[self.code])
        if writing:
            leaves = self.name + "".join(f"[{d}]" for d in self.dims) + f"/{self.code}"
            tree.Branch(self.name, self.buffer, leaves)
        else:
            tree.GetBranch(self.name).SetAddress(self.buffer)

    def put(self, entry: int) -> None:
        self.buffer[:] = self.values[entry].ravel()

    def got(self) -> np.ndarray:
        return self.buffer

    def wanted(self, entry: int) -> np.ndarray:
        return self.values[entry].ravel()

    def truths(self) -> dict[str, ak.Array]:
        return {self.name: ak.from_numpy(self.values)}


class LeafListColumn:
    """`a/F:b[3]/I:c/O`: several leaves in one branch, with a record per entry. ROOT requires larger types first."""

    def __init__(self, rng: np.random.Generator, name: str, codes: str, entries: int) -> None:
        self.name = name
        self.codes = codes = "".join(sorted(codes, key=lambda code: -np.dtype(LEAF_TYPES[code]).itemsize))
        self.lengths = [int(rng.choice([1, 1, 3])) for _ in codes]
        members = [
            (f"{code}{i}", LEAF_TYPES[code], (length,) if length > 1 else ())
            for i, (code, length) in enumerate(zip(codes, self.lengths, strict=True))
        ]
        self.values = np.zeros(entries, np.dtype(members, align=True))  # type: ignore[call-overload]
        for code, (member, dtype, shape) in zip(codes, members, strict=True):
            count = entries * int(np.prod(shape, initial=1))
            self.values[member] = random_values(rng, code, dtype, count).reshape((entries, *shape))

    def attach(self, _root: Any, tree: Any, *, writing: bool) -> None:
        self.buffer = np.zeros(1, self.values.dtype)
        leaves = [
            f"{code}{i}{f'[{length}]' if length > 1 else ''}/{code}"
            for i, (code, length) in enumerate(zip(self.codes, self.lengths, strict=True))
        ]
        if writing:
            tree.Branch(self.name, self.buffer, ":".join(leaves))
        else:
            tree.GetBranch(self.name).SetAddress(self.buffer)

    def put(self, entry: int) -> None:
        self.buffer[0] = self.values[entry]

    def got(self) -> np.ndarray:
        return _packed(self.buffer[0])

    def wanted(self, entry: int) -> np.ndarray:
        return _packed(self.values[entry])

    def truths(self) -> dict[str, ak.Array]:
        names = self.values.dtype.names or ()
        return {self.name: ak.zip({name: self.values[name] for name in names}, depth_limit=1)}


def _packed(record: np.void) -> np.ndarray:
    """Return the bytes of a record without padding."""
    return np.frombuffer(b"".join(record[name].tobytes() for name in record.dtype.names or ()), "u1")


class CountedColumn:
    """`name[n][3]/T`: arrays whose length is the value of another leaf."""

    def __init__(
        self, rng: np.random.Generator, name: str, code: str, dims: tuple[int, ...], count: LeafColumn
    ) -> None:
        self.name, self.code, self.dims, self.count = name, code, dims, count
        self.counts = count.values.astype("i8")
        self.stops = np.cumsum(self.counts)
        shape = (int(self.stops[-1]), *dims)
        self.values = random_values(rng, code, LEAF_TYPES[code], int(np.prod(shape))).reshape(shape)

    def attach(self, _root: Any, tree: Any, *, writing: bool) -> None:
        self.each = int(np.prod(self.dims, initial=1))
        self.buffer = np.zeros(max(1, int(self.counts.max())) * self.each, LEAF_TYPES[self.code])
        if writing:
            dims = "".join(f"[{d}]" for d in self.dims)
            tree.Branch(self.name, self.buffer, f"{self.name}[{self.count.name}]{dims}/{self.code}")
        else:
            tree.GetBranch(self.name).SetAddress(self.buffer)

    def put(self, entry: int) -> None:
        values = self.wanted(entry)
        self.buffer[: len(values)] = values

    def got(self) -> np.ndarray:
        return self.buffer[: int(self.count.buffer[0]) * self.each]

    def wanted(self, entry: int) -> np.ndarray:
        stop = int(self.stops[entry])
        return self.values[stop - int(self.counts[entry]) : stop].ravel()

    def truths(self) -> dict[str, ak.Array]:
        return {self.name: ak.unflatten(ak.from_numpy(self.values), self.counts)}


class TextColumn:
    """`name/C`: a null-terminated string."""

    def __init__(self, rng: np.random.Generator, name: str, entries: int, longest: int) -> None:
        self.name, self.texts = name, random_texts(rng, entries, longest)

    def attach(self, _root: Any, tree: Any, *, writing: bool) -> None:
        longest = max(len(text.encode()) for text in self.texts)
        self.buffer = np.zeros(longest + 1, "u1")
        if writing:
            tree.Branch(self.name, self.buffer, f"{self.name}/C")
        else:
            tree.GetBranch(self.name).SetAddress(self.buffer)

    def put(self, entry: int) -> None:
        data = np.frombuffer(self.texts[entry].encode(), "u1")
        self.buffer[: len(data)] = data
        self.buffer[len(data)] = 0

    def got(self) -> np.ndarray:
        return self.buffer[: int(np.flatnonzero(self.buffer == 0)[0])]

    def wanted(self, entry: int) -> np.ndarray:
        return np.frombuffer(self.texts[entry].encode(), "u1")

    def truths(self) -> dict[str, ak.Array]:
        return {self.name: ak.Array(self.texts)}


class StringColumn:
    """A std::string."""

    def __init__(self, rng: np.random.Generator, name: str, entries: int, longest: int) -> None:
        self.name, self.texts = name, random_texts(rng, entries, longest)

    def attach(self, root: Any, tree: Any, *, writing: bool) -> None:
        self.value = root.std.string()
        if writing:
            tree.Branch(self.name, self.value)
        else:
            tree.SetBranchAddress(self.name, self.value)

    def put(self, entry: int) -> None:
        self.value.assign(self.texts[entry])

    def got(self) -> np.ndarray:
        return np.frombuffer(bytes(self.value), "u1")

    def wanted(self, entry: int) -> np.ndarray:
        return np.frombuffer(self.texts[entry].encode(), "u1")

    def truths(self) -> dict[str, ak.Array]:
        return {self.name: ak.Array(self.texts)}


class VectorColumn:
    """A std::vector of numbers."""

    def __init__(self, rng: np.random.Generator, name: str, element: str, entries: int) -> None:
        self.name, self.element, self.dtype = name, element, VECTOR_TYPES[element]
        self.counts = random_counts(rng, entries, 40)
        self.stops = np.cumsum(self.counts)
        self.values = random_values(rng, "", self.dtype, int(self.stops[-1]))

    def attach(self, root: Any, tree: Any, *, writing: bool) -> None:
        self.vector = root.std.vector[self.element]()
        if writing:
            tree.Branch(self.name, self.vector)
        else:
            tree.SetBranchAddress(self.name, self.vector)

    def put(self, entry: int) -> None:
        self.vector.clear()
        for value in self.wanted(entry).tolist():
            self.vector.push_back(value)

    def got(self) -> np.ndarray:
        values = [self.vector[i] for i in range(self.vector.size())]  # the iterator would decode chars as UTF-8
        if values and isinstance(values[0], str):  # PyROOT returns a char as a string of one character
            return np.array([ord(letter) for letter in values], "u1").view(self.dtype)
        return np.array(values, self.dtype)

    def wanted(self, entry: int) -> np.ndarray:
        stop = int(self.stops[entry])
        return self.values[stop - int(self.counts[entry]) : stop]

    def truths(self) -> dict[str, ak.Array]:
        return {self.name: ak.unflatten(ak.from_numpy(self.values), self.counts)}


class ParticlesColumn:
    """A TClonesArray of TParticle, split into branches for the members."""

    MEMBERS = ("fPdgCode", "fStatusCode", "fMother[2]", "fPx", "fPy", "fPz", "fE", "fVx", "fVy", "fVz", "fVt")

    def __init__(self, rng: np.random.Generator, name: str, entries: int) -> None:
        self.name = name
        self.counts = random_counts(rng, entries, 20)
        self.stops = np.cumsum(self.counts)
        total = int(self.stops[-1])
        self.whole = random_values(rng, "I", "i4", 4 * total).reshape(total, 4)
        self.real = rng.normal(0, 10, (total, 8))

    def attach(self, root: Any, tree: Any, *, writing: bool) -> None:
        self.array = root.TClonesArray("TParticle", 10)
        if writing:
            tree.Branch(self.name, self.array, 8000, 99)
        else:
            tree.SetBranchAddress(self.name, self.array)

    def rows(self, entry: int) -> slice:
        stop = int(self.stops[entry])
        return slice(stop - int(self.counts[entry]), stop)

    def put(self, entry: int) -> None:
        self.array.Clear()
        rows = self.rows(entry)
        for i, (whole, real) in enumerate(zip(self.whole[rows].tolist(), self.real[rows].tolist(), strict=True)):
            particle = self.array.ConstructedAt(i)
            particle.SetPdgCode(whole[0])
            particle.SetStatusCode(whole[1])
            particle.SetFirstMother(whole[2])
            particle.SetLastMother(whole[3])
            particle.SetMomentum(*real[:4])
            particle.SetProductionVertex(*real[4:])

    def got(self) -> np.ndarray:
        rows = []
        for i in range(self.array.GetEntriesFast()):
            p = self.array.At(i)
            whole = (p.GetPdgCode(), p.GetStatusCode(), p.GetFirstMother(), p.GetSecondMother())
            rows.append((*whole, p.Px(), p.Py(), p.Pz(), p.Energy(), p.Vx(), p.Vy(), p.Vz(), p.T()))
        return np.array(rows, "f8").ravel()

    def wanted(self, entry: int) -> np.ndarray:
        rows = self.rows(entry)
        return np.concatenate([self.whole[rows], self.real[rows]], axis=1).ravel()

    def truths(self) -> dict[str, ak.Array]:
        columns = [self.whole[:, 0], self.whole[:, 1], self.whole[:, 2:4], *self.real.T]
        arrays = [ak.unflatten(ak.from_numpy(np.ascontiguousarray(column)), self.counts) for column in columns]
        prefix = f"{self.name}/{self.name}."
        return {prefix + member: array for member, array in zip(self.MEMBERS, arrays, strict=True)}


class LorentzColumn:
    """A ROOT::Math::XYZTVector, split into branches for the members of its coordinates."""

    def __init__(self, rng: np.random.Generator, name: str, entries: int) -> None:
        self.name = name
        self.values = rng.normal(0, 1, (entries, 4))

    def attach(self, root: Any, tree: Any, *, writing: bool) -> None:
        self.vector = root.Math.XYZTVector()
        if writing:
            tree.Branch(f"{self.name}.", self.vector, 8000, 99)
        else:
            tree.SetBranchAddress(f"{self.name}.", self.vector)

    def put(self, entry: int) -> None:
        self.vector.SetCoordinates(*self.values[entry].tolist())

    def got(self) -> np.ndarray:
        return np.array([self.vector.X(), self.vector.Y(), self.vector.Z(), self.vector.T()])

    def wanted(self, entry: int) -> np.ndarray:
        return self.values[entry]

    def truths(self) -> dict[str, ak.Array]:
        prefix = f"{self.name}./{self.name}.fCoordinates/{self.name}.fCoordinates."
        columns = np.ascontiguousarray(self.values.T)
        return {f"{prefix}f{axis}": ak.from_numpy(column) for axis, column in zip("XYZT", columns, strict=True)}


class NamedColumn:
    """A split TNamed, which consists of two strings."""

    def __init__(self, rng: np.random.Generator, name: str, entries: int) -> None:
        self.name = name
        self.names, self.titles = random_texts(rng, entries, 10), random_texts(rng, entries, 300)

    def attach(self, root: Any, tree: Any, *, writing: bool) -> None:
        self.named = root.TNamed()
        if writing:
            tree.Branch(f"{self.name}.", self.named, 8000, 99)
        else:
            tree.SetBranchAddress(f"{self.name}.", self.named)

    def put(self, entry: int) -> None:
        self.named.SetNameTitle(self.names[entry], self.titles[entry])

    def got(self) -> np.ndarray:
        return np.frombuffer(f"{self.named.GetName()}|{self.named.GetTitle()}".encode(), "u1")

    def wanted(self, entry: int) -> np.ndarray:
        return np.frombuffer(f"{self.names[entry]}|{self.titles[entry]}".encode(), "u1")

    def truths(self) -> dict[str, ak.Array]:
        prefix = f"{self.name}./{self.name}."
        return {f"{prefix}fName": ak.Array(self.names), f"{prefix}fTitle": ak.Array(self.titles)}


Column = (
    LeafColumn
    | LeafListColumn
    | CountedColumn
    | TextColumn
    | StringColumn
    | VectorColumn
    | ParticlesColumn
    | LorentzColumn
    | NamedColumn
)
