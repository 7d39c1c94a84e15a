"""Random families of classes and containers, with the dictionaries that ROOT needs."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.peers.generator import cpp
from tests.peers.generator.collections_of_root import Clones, Objects
from tests.peers.generator.member_kinds import Enumeration, Listed, NeverNull, OldText
from tests.peers.generator.root_classes import ARRAYS, LORENTZ, MATRICES, OBJECTS, REF, ROOT_CLASSES
from tests.peers.generator.values import (
    COUNT,
    INT,
    KEYS,
    NAMED_NUMBERS,
    NUMBERS,
    Bits,
    Class,
    Container,
    CountedArray,
    FixedArray,
    Kind,
    Member,
    Number,
    Packed,
    Pair,
    Pointer,
    Text,
    heirs,
)

HERE = Path(__file__).resolve().parent
SEQUENCES = (*["std::vector"] * 3, "std::list", "std::deque", "std::forward_list", "ROOT::VecOps::RVec")
SETS = ("std::set", "std::multiset", "std::unordered_set", "std::unordered_multiset")
MAPS = ("std::map", "std::map", "std::multimap", "std::unordered_map", "std::unordered_multimap")
RANGES = ((-10.0, 10.0), (0.0, 1.0), (-1000.0, 250.0), (0.0, 6.283185307179586))


class DictionaryError(Exception):
    """rootcling wrote two dictionaries for the same type, named with and without Double32_t, which do not compile."""


@dataclass
class Family:
    """Classes in a separate namespace, and the types of branches."""

    namespace: str
    classes: list[Class] = field(default_factory=list)
    tops: list[Kind] = field(default_factory=list)
    slots: Any = None

    def index(self, kind: Kind) -> int:
        return self.tops.index(kind)


class Maker:
    """Draws the kinds and classes of a family."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.family = Family(f"f{seed}")

    def number(self) -> Number:
        draw = self.rng.random()
        if draw < 0.8:
            return self.rng.choice(NUMBERS)
        return (
            self.rng.choice(NAMED_NUMBERS) if draw < 0.95 else Number(f"{self.family.namespace}::{cpp.REAL}", "d", "f8")
        )

    def enumeration(self) -> Enumeration:
        return Enumeration(self.family.namespace, self.rng.choice(list(Enumeration.TYPES)))

    def packed(self) -> Packed:
        name = self.rng.choice(("Double32_t", "Float16_t"))
        low, high = self.rng.choice((*RANGES, (None, None)))
        if low is not None:
            return Packed(name, low, high, self.rng.choice((None, 2, 8, 12, 16, 24, 31)))
        return Packed(name, bits=self.rng.choice((None, None, 8, 12, 14)))

    def key(self) -> Kind:
        return self.rng.choice((Text(), self.rng.choice(KEYS), INT, self.enumeration()))

    def plain(self) -> list[Class]:
        """Return the classes that containers can copy: no TObjects, no classes with pointers or ROOT collections."""
        holders = (Clones, Objects, Pointer, NeverNull, OldText)
        held = [(one, any(isinstance(part, holders) for part in one.everything())) for one in self.family.classes]
        return [one for one, holds in held if not holds and not one.is_tobject]

    def element(self, depth: int) -> Kind:
        """Draw the kind of a container's elements."""
        draw = self.rng.random()
        plain = self.plain()
        if draw < 0.27 or depth <= 0:
            return self.number()
        if draw < 0.34:
            return self.enumeration()
        if draw < 0.42:
            return Text()
        if draw < 0.47:
            return Packed("Double32_t")
        if draw < 0.55:
            return Pair([self.element(depth - 1), self.element(depth - 1)])
        if draw < 0.7 and plain:
            return self.rng.choice(plain)
        if draw < 0.73:
            return self.rng.choice(ROOT_CLASSES)
        return self.container(depth - 1)

    def container(self, depth: int) -> Kind:
        draw = self.rng.random()
        if draw < 0.6:
            return Container(self.rng.choice(SEQUENCES), self.element(depth))
        if draw < 0.75:
            return Container(self.rng.choice(SETS), self.key())
        return Container(self.rng.choice(MAPS), self.element(depth), self.key())

    def fixed_array(self) -> FixedArray:
        of: Kind = self.rng.choice((self.number(), self.number(), self.packed(), Text("TString"), Text()))
        extents = self.rng.choice(((3,), (1,), (2, 3), (2, 1, 2)))
        is_std = isinstance(of, Number) and len(extents) == 1 and self.rng.random() < 0.3
        return FixedArray(of, extents, is_std)

    def simple(self) -> Kind:
        """Draw the kind of a member that contains no classes of the family."""
        draw = self.rng.random()
        if draw < 0.4:
            return self.number()
        if draw < 0.55:
            return self.packed()
        if draw < 0.7:
            return self.fixed_array()
        return self.rng.choice(
            (
                Text(),
                Text("TString"),
                self.enumeration(),
                self.enumeration(),
                self.rng.choice(ARRAYS),
                Bits(self.rng.randint(1, 70)),
            )
        )

    def members(self, prefix: str, count: int, *, may_hold: bool) -> list[Member]:
        """Draw members. Some are arrays whose length is another member. With ``may_hold``, some are containers or
        objects.
        """
        members = [Member(f"{prefix}_key", INT)]
        for i in range(count):
            name = f"{prefix}{i}"
            if self.rng.random() < 0.12:
                members.append(Member(f"{name}n", COUNT))
                of = self.rng.choice((self.number(), self.number(), self.packed()))
                members.append(Member(name, CountedArray(of), counter=f"{name}n"))
            elif self.rng.random() < 0.05:
                of = self.enumeration()
                array = FixedArray(of, self.rng.choice(((3,), (2, 2))))
                members.append(Member(name, array, is_stored=of.is_stored_in_arrays))
            elif may_hold and self.rng.random() < 0.5:
                members.append(Member(name, self.held()))
            else:
                kind = self.simple()
                is_stored = not isinstance(kind, Enumeration) or kind.is_stored_as_member
                members.append(Member(name, kind, is_stored=is_stored))
        return members

    def held(self) -> Kind:
        """Draw the kind of a member that contains objects or several values."""
        draw = self.rng.random()
        plain = self.plain()
        if draw < 0.5 or not plain:
            return self.container(2)
        if draw < 0.65:
            return self.rng.choice(plain)
        if draw < 0.72:
            of = self.rng.choice((*plain, self.container(1), LORENTZ))
            return FixedArray(of, self.rng.choice(((2,), (3,), (2, 2))), self.rng.random() < 0.3)
        if draw < 0.82:
            return self.rng.choice([*ROOT_CLASSES, *MATRICES, REF])
        return Pair([self.element(1), self.element(1)])

    def owned(self, base: Class, hit: Class) -> list[Member]:
        """Draw members that must not be copied: pointers of all kinds, and ROOT collections."""
        rng, classes = self.rng, self.family.classes
        track = classes[-1]
        to_base, to_hit = Pointer(base, heirs(base, classes)), Pointer(hit, heirs(hit, classes))
        plain = rng.choice(self.plain())
        members = [
            Member("pointer", to_base),
            Member("hit", to_hit),
            Member("pointers", Container(rng.choice(SEQUENCES[:5]), rng.choice((to_base, to_hit)))),
            Member("pointed", Container("std::map", rng.choice((to_base, to_hit)), INT)),
            Member("inlined", NeverNull(rng.choice((plain, hit, LORENTZ)), "->")),
            Member("container", NeverNull(self.container(2))),
            *(Member(f"pointers{i}", self.array_of_pointers(base, hit)) for i in range(3)),
            Member("letters", OldText()),
            Member("plains_n", COUNT),
            Member("plains", CountedArray(plain), counter="plains_n"),
            Member("clones", Clones("TClonesArray", rng.choice((hit, track)), is_pointer=rng.random() < 0.5)),
            Member("objects", Objects([hit, track, *rng.sample(OBJECTS, 2)])),
            Member("list", Listed([hit, track, *rng.sample(OBJECTS, 1)])),
        ]
        chosen = rng.sample([one for one in members if one.name != "plains_n"], rng.randint(3, 7))
        names = {name for one in chosen for name in (one.name, one.counter)}
        return [one for one in members if one.name in names]

    def array_of_pointers(self, base: Class, hit: Class) -> FixedArray:
        """Draw a fixed-size array of pointers that may be null, or that are never null."""
        of: Kind = self.rng.choice((base, hit, self.rng.choice(self.plain()), *OBJECTS, *ARRAYS))
        is_ours = isinstance(of, Class) and of in self.family.classes
        pointer: Kind = Pointer(of, heirs(of, self.family.classes) if is_ours else [of])  # type: ignore[arg-type]
        extents = self.rng.choice(((3,), (1,), (2, 2)))
        return FixedArray(self.rng.choice((pointer, pointer, NeverNull(of, "->"))), extents)

    def add(self, name: str, members: list[Member], **others: Any) -> Class:
        one = Class(f"{self.family.namespace}::{name}", members, **others)
        self.family.classes.append(one)
        return one

    def make(self) -> Family:
        """Return the family of the seed."""
        rng, family = self.rng, self.family
        self.add("Plain", self.members("p", rng.randint(2, 5), may_hold=False))
        self.add("Mixed", self.members("m", rng.randint(3, 6), may_hold=True), version=rng.choice((None, 2)))
        base = self.add("Base", self.members("b", 2, may_hold=False), version=1, is_polymorphic=True)
        derived = [
            self.add(f"Derived{i}", self.members(f"d{i}", 2, may_hold=i == 1), bases=[base], version=3 + i)
            for i in range(2)
        ]
        for one in derived:
            one.is_polymorphic = True
        both = self.add("Both", self.members("x", 2, may_hold=True), bases=[family.classes[0], base], version=2)
        both.is_polymorphic = True
        hit = self.add("Hit", self.members("h", rng.randint(2, 5), may_hold=False), is_tobject=True, version=4)
        track = self.add("Track", self.members("t", 3, may_hold=True), bases=[hit], is_tobject=True, version=2)
        event = self.members("e", rng.randint(4, 7), may_hold=True)
        event += self.owned(base, hit)
        self.add("Event", event, is_tobject=rng.random() < 0.5, version=rng.randint(1, 9))
        # These kinds are not in containers: growing containers copy their elements, and the copies would share the
        # objects.
        tops: list[Kind] = [
            Clones("TClonesArray", hit),
            Clones("TClonesArray", track),
            Objects([hit, track, *OBJECTS[:2]]),
        ]
        tops += family.classes
        tops += [Container("std::vector", Pointer(one, heirs(one, family.classes))) for one in (base, hit)]
        tops += [Container(rng.choice(SEQUENCES), one) for one in family.classes[:3]]
        tops += [self.container(3) for _ in range(8)]
        tops += [Container("std::vector", self.number()), Text(), rng.choice(ROOT_CLASSES)]
        unique = {kind.cpp if not isinstance(kind, (Clones, Objects)) else id(kind): kind for kind in tops}
        family.tops = list(unique.values())
        return family


def root_folder() -> Path:
    """Return the folder of the package ROOT."""
    spec = importlib.util.find_spec("ROOT")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def build(root: Any, family: Family, folder: Path, driver: str) -> None:
    """Compile and load the family's dictionary, its table of types, and the code that fills and reads objects.

    Raises DictionaryError if rootcling wrote a dictionary that does not compile.
    """
    name = family.namespace
    (folder / f"{name}.h").write_text(cpp.header(name, family.classes))
    (folder / "LinkDef.h").write_text(cpp.link_definitions(family.tops))
    (folder / f"{name}_table.cxx").write_text(cpp.table(name, f"{name}.h", family.tops))
    top = root_folder()
    environment = os.environ | {"LD_LIBRARY_PATH": str(top / "lib"), "ROOTSYS": str(top)}
    rootcling = [top / "bin" / "rootcling", "-f", f"{name}_dict.cxx", f"-I{HERE}", f"{name}.h", "LinkDef.h"]
    run(rootcling, folder, environment)
    # One translation unit: parsing ROOT's headers takes as long as compiling the family's own code.
    source = folder / f"{name}.cxx"
    source.write_text(f'#include "{name}_dict.cxx"\n#include "{name}_table.cxx"\n')
    options = ["-shared", "-fPIC", "-O0", "-w", "-std=c++17", f"-I{top / 'include'}", f"-I{HERE}", "-I."]
    run([os.environ.get("CXX", "c++"), *options, source, "-o", f"lib{name}.so"], folder, dict(os.environ))
    root.gInterpreter.AddIncludePath(str(HERE))
    root.gSystem.Load("libROOTVecOps")
    if root.gSystem.Load(str(folder / f"lib{name}.so")) < 0:
        raise RuntimeError(f"ROOT cannot load the dictionary of {name}")
    declared = f'#include "{driver}"\nnamespace {name} {{ std::vector<peers::Slot> slots(); }}'
    assert root.gInterpreter.Declare(declared)
    family.slots = getattr(root, name).slots()


def run(command: list[Any], folder: Path, environment: dict[str, str]) -> None:
    """Run a compiler. Raises RuntimeError with the compiler's output if it fails."""
    done = subprocess.run([str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True)
    if re.search("redefinition of .*GenerateInitInstanceLocal", done.stderr):
        raise DictionaryError(done.stderr[:500])
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-3000:]}{done.stderr[-6000:]}")
