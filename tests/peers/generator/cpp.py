"""C++ of a family of classes: its header, what rootcling is to link, and the table of its types."""

from __future__ import annotations

import math

from tests.peers.generator.collections_of_root import Clones, Objects
from tests.peers.generator.member_kinds import Enumeration, Listed, NeverNull
from tests.peers.generator.root_classes import RootClass
from tests.peers.generator.values import (
    Class,
    Container,
    CountedArray,
    FixedArray,
    Kind,
    Member,
    Packed,
    Pair,
    Pointer,
    heirs,
)

# A typedef of each family.
REAL = "Real"


def header(namespace: str, classes: list[Class]) -> str:
    """The declarations."""
    lines = ["#pragma once", '#include "archive.h"', f"namespace {namespace} {{"]
    lines += [f"enum {name} : {of.cpp} {{ red{name}, green{name} }};" for name, of in Enumeration.TYPES.items()]
    lines.append(f"typedef double {REAL};")
    lines += [line for one in classes for line in declaration(one)]
    lines += ["}", "namespace peers {"]
    lines += [leads_to(one, classes) for one in classes]
    return "\n".join([*lines, "}", ""])


def leads_to(one: Class, classes: list[Class]) -> str:
    """What pointers to a class may lead to."""
    found = ", ".join(f"{kind.cpp}*" for kind in heirs(one, classes))
    return f"template <> struct Family<{one.cpp}> {{ using classes = std::tuple<{found}>; }};"


def declaration(one: Class) -> list[str]:
    """A class with its members, and how they pass through the archive."""
    name = one.cpp.split("::")[-1]
    bases = [base.cpp for base in one.bases] + (["TObject"] if one.is_tobject and not any_tobject(one.bases) else [])
    lines = [f"struct {name}{' : public ' + ', public '.join(bases) if bases else ''} {{"]
    lines += [f"  {declared(member)}" for member in one.members]
    if one.is_polymorphic and not one.is_tobject:
        lines.append(f"  virtual ~{name}() {{}}")
    lines.append("  template <class A> void pass(A& archive) {")
    lines += [f"    {base.cpp}::pass(archive);" for base in one.bases]
    lines += [f"    {passed(member)}" for member in one.members if member.is_stored]
    lines.append("  }")
    # All that a set or a map needs is some order.
    key = next((member.name for member in one.all_members() if member.kind.cpp == "int"), None)
    order = f"{key} < other.{key}" if key else "false"
    lines.append(f"  bool operator<(const {name}& other) const {{ return {order}; }}")
    if one.version is not None:
        macro = "ClassDefNV" if not (one.is_tobject or one.is_polymorphic) else "ClassDef"
        override = (
            "ClassDefOverride" if any(base.version is not None for base in one.bases) or one.is_tobject else macro
        )
        lines.append("  int transient = 7; //! is not stored")
        lines.append(f"  {override}({name}, {one.version});")
    return [*lines, "};"]


def any_tobject(bases: list[Class]) -> bool:
    return any(base.is_tobject for base in bases)


def declared(member: Member) -> str:
    """A member's declaration, with the comment that rootcling reads."""
    kind = member.kind
    if isinstance(kind, FixedArray) and not kind.is_std:
        extents = "".join(f"[{extent}]" for extent in kind.extents)
        return f"{kind.of.cpp} {member.name}{extents}{elements(kind)}; {comment(kind.of)}".rstrip()
    if isinstance(kind, CountedArray):
        return f"{kind.cpp} {member.name} = nullptr; //[{member.counter}]{comment(kind.of).removeprefix('//')}"
    if isinstance(kind, Clones):
        made = f'{{"{kind.of.cpp}"}}' if not kind.is_pointer else f' = new TClonesArray("{kind.of.cpp}")'
        return f"TClonesArray{'*' if kind.is_pointer else ''} {member.name}{made}; {'//->' if kind.is_pointer else ''}"
    if isinstance(kind, Pointer):
        return f"{kind.cpp} {member.name} = nullptr;"
    if isinstance(kind, NeverNull):
        return f"{kind.cpp} {member.name} = new {kind.of.cpp}; {comment(kind)}"
    return f"{kind.cpp} {member.name}{{}}; {comment(kind)}".rstrip()


def elements(kind: FixedArray) -> str:
    """What the elements of an array begin as: pointers as null or leading to new objects."""
    if isinstance(kind.of, NeverNull):
        return f"{{{', '.join([f'new {kind.of.of.cpp}'] * math.prod(kind.extents))}}}"
    return "{}" if isinstance(kind.of, Pointer | Enumeration) else ""


def comment(kind: Kind) -> str:
    """The range of a Double32_t or Float16_t, or that a pointer is never null."""
    if isinstance(kind, NeverNull):
        return f"//{kind.comment}"
    return kind.comment() if isinstance(kind, Packed) else ""


def passed(member: Member) -> str:
    """The statement that passes a member through the archive."""
    kind = member.kind
    if isinstance(kind, CountedArray):
        return f"peers::passCounted(archive, {member.counter}, {member.name});"
    if isinstance(kind, Clones):
        return f"peers::passClones<{kind.of.cpp}>(archive, {'*' if kind.is_pointer else ''}{member.name});"
    if isinstance(kind, Objects):
        passes = "passList" if isinstance(kind, Listed) else "passObjects"
        return f"peers::{passes}<A, {', '.join(one.cpp for one in kind.classes)}>(archive, {member.name});"
    if isinstance(kind, NeverNull):
        return f"peers::pass(archive, *{member.name});"
    if isinstance(kind, FixedArray) and isinstance(kind.of, NeverNull):
        return f"peers::passPointed(archive, {member.name});"
    return f"peers::pass(archive, {member.name});"


def link_definitions(kinds: list[Kind]) -> str:
    """What rootcling is to make dictionaries of."""
    named = [kind for top in kinds for kind in top.everything()]
    wanted = {
        kind.cpp: None
        for kind in named
        if (isinstance(kind, (Class, Container, Pair)) and not isinstance(kind, RootClass)) and "<" not in kind.cpp[:0]
    }
    wanted = {name: None for name in wanted if not name.startswith("T")}
    lines = ["#ifdef __CLING__", *(f"#pragma link off all {what};" for what in ("globals", "classes", "functions"))]
    lines += [f"#pragma link C++ class {name}+;" for name in wanted]
    enumerations = {kind.cpp: None for kind in named if isinstance(kind, Enumeration)}
    lines += [f"#pragma link C++ enum {name};" for name in enumerations]
    return "\n".join([*lines, "#endif", ""])


def table(namespace: str, header_name: str, kinds: list[Kind]) -> str:
    """The table of the types that branches and fields are made of."""
    lines = [f'#include "{header_name}"', "#include <vector>", f"namespace {namespace} {{"]
    lines.append("std::vector<peers::Slot> slots() {")
    lines.append("  std::vector<peers::Slot> all;")
    lines += [f"  all.push_back({slot(kind)});" for kind in kinds]
    return "\n".join([*lines, "  return all;", "}", "}", ""])


def slot(kind: Kind) -> str:
    """How an object of a kind is made, filled and asked."""
    if isinstance(kind, Clones):
        return f'peers::clonesSlot<{kind.of.cpp}>("{kind.of.cpp}")'
    if isinstance(kind, Objects):
        return f"peers::objectsSlot<{', '.join(one.cpp for one in kind.classes)}>()"
    return f'peers::slotOf<{kind.cpp}>("{kind.cpp}")'
