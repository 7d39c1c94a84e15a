"""Branches with one object per entry, and the values that Branchline must read from their parts."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from tests.peers.generator.collections_of_root import Clones, Objects
from tests.peers.generator.compare import difference, fits, shown
from tests.peers.generator.families import Family
from tests.peers.generator.resemble import resembles
from tests.peers.generator.values import (
    COUNT,
    NUMBERS,
    Class,
    Container,
    CountedArray,
    FixedArray,
    Kind,
    Member,
    Packed,
    Pair,
    Pointer,
    Reader,
)

# Split level 99, plus TTree::kSplitCollectionOfPointers (100).
SPLIT_POINTERS = 199


class ObjectColumn:
    """A branch of objects of one kind, with the value of each entry."""

    def __init__(self, name: str, kind: Kind, split: int, values: list[Any]) -> None:
        self.name = self.asked_name = name
        self.kind, self.split = kind, split
        self.put_in = values
        self.values: list[Any] = []
        packed = bytearray()
        for value in values:
            kind.pack(value, packed)
        self._packed = ctypes.create_string_buffer(bytes(packed), len(packed) + 1)

    def attach(self, root: Any, family: Family, tree: Any, basket_bytes: int) -> bool:
        """Create the branch. Returns False if ROOT cannot create it."""
        self._held = root.peers.Held(family.slots[family.index(self.kind)])
        self._held.start(ctypes.addressof(self._packed))
        branch = self._held.attach(tree, self.asked_name, basket_bytes, self.split)
        if not branch:
            return False
        # ROOT removes the dot at the end of the name if it does not split the branch.
        self.name = str(branch.GetName())
        return True

    def put(self) -> None:
        """Fill the object with the next value."""
        self._held.put()

    def read_by_root(self, root: Any, family: Family, tree: Any, entries: int) -> str | None:
        """Use the values that ROOT reads as the expected values. Returns a description of the first difference from the
        written values, if any.
        """
        held = root.peers.Held(family.slots[family.index(self.kind)])
        # TTree::GetBranch would interpret a slash in the name as a path.
        branch = tree.GetListOfBranches().FindObject(self.name)
        held.readFrom(branch)
        for entry in range(entries):
            tree.LoadTree(entry)
            if branch.GetEntry(entry) < 0:
                return f"ROOT cannot read entry {entry} of {self.name}"
            held.got()
        tree.ResetBranchAddresses()
        reader = Reader(ctypes.string_at(held.bytesAt(), held.bytesCount()))
        self.values = [self.kind.unpack(reader) for _ in range(entries)]
        is_exact = self.kind.is_exact()
        for entry, (got, wanted) in enumerate(zip(self.values, self.put_in, strict=True)):
            found = difference(self.kind, got, plain(wanted)) if is_exact else None
            if not is_exact and not resembles(self.kind, got, plain(wanted)):
                found = f"{shown(got)} differs from the written value {shown(plain(wanted))}"
            if found is not None:
                return f"ROOT reads {self.name} ({self.kind.cpp}), entry {entry}: {found}"
        return None

    @property
    def is_divided(self) -> bool:
        """Whether ROOT splits a container of pointers into one branch per class (TBranchSTL)."""
        return self.split >= SPLIT_POINTERS

    def _pointer(self) -> Pointer:
        assert isinstance(self.kind, Container)
        assert isinstance(self.kind.of, Pointer)
        return self.kind.of

    def _of_class(self, within: str) -> tuple[Kind, list[Any]] | None:
        """Return the kind and values of the branch for one class of the elements, or for a member of that class."""
        found = [one for one in self._pointer().classes if f"{within}.".startswith(f"{one.cpp}.")]
        of = max(found, key=lambda one: len(one.cpp))
        tokens = [token for token in within.removeprefix(of.cpp).split("[")[0].split(".") if token]
        chosen = [[one for one in value if one is not None and self._class(one) is of] for value in self.values]
        if not tokens:
            return COUNT, [len(value) for value in chosen]
        inner = pick(Container("std::vector", of), tokens)
        if inner is None:
            return None
        kind, get = inner
        return kind, [get(value) for value in chosen]

    def _class(self, value: Any) -> Class:
        return next(one for one in self._pointer().classes if fits(one, value))

    def _classes_of_elements(self) -> tuple[Kind, list[Any]]:
        """Return the kind and values of the container's own branch: for each element, the number of the branch of its
        class, or 0 for a null pointer.
        """
        numbers: dict[str, int] = {}

        def number(one: Any) -> int:
            return 0 if one is None else numbers.setdefault(self._class(one).cpp, len(numbers) + 1)

        elements = [[number(one) for one in value] for value in self.values]
        letters = next(one for one in NUMBERS if one.cpp == "unsigned char")
        kind = Class("TIndArray", [Member("fElems", COUNT), Member("fArr", Container("std::vector", letters))])
        return kind, [{"fElems": len(one), "fArr": one} for one in elements]

    def counts_short_floats(self) -> bool:
        """Return whether a member is a variable-size array of Double32_t or Float16_t."""
        parts = self.kind.everything()
        return any(isinstance(part, CountedArray) and isinstance(part.of, Packed) for part in parts)

    def owns(self, path: str) -> bool:
        """Return whether the branch with this path belongs to this column."""
        return path == self.name or path.startswith(self.name + "/")

    def part(self, own: str, *, is_part: bool, has_parts: bool) -> tuple[Kind, list[Any]] | None:
        """Return the kind and values of one of the branches, by its name. None if the expected values are unknown."""
        prefix = self.name if self.name.endswith(".") else f"{self.name}."
        within = "" if own == self.name else own.removeprefix(prefix)
        tokens = [token for token in within.split("[")[0].split(".") if token]
        if self.is_divided:
            return self._of_class(within) if is_part else self._classes_of_elements()
        found = pick(self.kind, tokens)
        if found is None or (is_part and not tokens):  # a base class that has the name of the whole branch
            return None
        kind, get = found
        values = [get(value) for value in self.values]
        if has_parts and isinstance(kind, Container):
            return COUNT, [len(value) for value in values]
        return kind, values


def plain(value: Any) -> Any:
    """Return a value without the class numbers of objects behind pointers."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(one) for one in value)
    return plain(value.value) if hasattr(value, "number") else value


def pick(kind: Kind, tokens: list[str]) -> tuple[Kind, Callable[[Any], Any]] | None:
    """Return the kind of a nested member, and a function that returns the member of a value. None if there is no such
    member.
    """
    if not tokens:
        return kind, lambda value: value
    if isinstance(kind, Container):
        inner = pick(kind.element, tokens)
        if inner is None:
            return None
        of, get = inner
        # The members of elements of an unordered container are unordered, too.
        template = "std::unordered_multiset" if kind.is_unordered else "std::vector"
        return Container(template, of), lambda value: [get(one) for one in value]
    if isinstance(kind, Pair) and tokens[0] in ("first", "second"):
        index = ("first", "second").index(tokens[0])
        return _then(kind.items[index], tokens[1:], lambda value: value[index])
    if isinstance(kind, Class):
        base = next((one for one in kind.ancestors() if tokens[0] in (one.cpp, one.cpp.split("::")[-1])), None)
        if base is not None and len(tokens) == 1:
            names = {member.name for member in base.all_members()}
            return base, lambda value: {name: one for name, one in value.items() if name in names}
        if base is not None:
            return pick(kind, tokens[1:])
        member = next((one for one in kind.all_members() if one.name == tokens[0]), None)
        return None if member is None else _then(member.kind, tokens[1:], lambda value: value[member.name])
    if isinstance(kind, FixedArray | Clones | Objects):
        return None
    return None


def _then(kind: Kind, tokens: list[str], first: Callable[[Any], Any]) -> tuple[Kind, Callable[[Any], Any]] | None:
    inner = pick(kind, tokens)
    if inner is None:
        return None
    of, get = inner
    return of, lambda value: get(first(value))
