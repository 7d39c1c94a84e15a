"""Generate the C++ code of a class family: the header, the LinkDef for rootcling, and the table of types."""

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

# Name of a typedef in each family.
REAL = "Real"


def header(namespace: str, classes: list[Class]) -> str:
    """Return the header with all declarations."""
    lines = ["#pragma once", '#include "archive.h"', f"namespace {namespace} {{"]
    lines += [f"enum {name} : {of.cpp} {{ red{name}, green{name} }};" for name, of in Enumeration.TYPES.items()]
    lines.append(f"typedef double {REAL};")
    lines += [line for one in classes for line in declaration(one)]
    lines += ["}", "namespace peers {"]
    lines += [leads_to(one, classes) for one in classes]
    return "\n".join([*lines, "}", ""])


def leads_to(one: Class, classes: list[Class]) -> str:
    """Return the declaration of the classes that a pointer to a class may point to."""
    found = ", ".join(f"{kind.cpp}*" for kind in heirs(one, classes))
    return f"template <> struct Family<{one.cpp}> {{ using classes = std::tuple<{found}>; }};"


def declaration(one: Class) -> list[str]:
    """Return the declaration of a class with its members, and the function that passes them through the archive."""
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
    # Define an order, because sets and maps require one. Any strict order is sufficient.
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
    """Return the declaration of a member, with the comment that rootcling reads."""
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
    """Return the initializer of an array of pointers: null pointers, or pointers to new objects."""
    if isinstance(kind.of, NeverNull):
        return f"{{{', '.join([f'new {kind.of.of.cpp}'] * math.prod(kind.extents))}}}"
    return "{}" if isinstance(kind.of, Pointer | Enumeration) else ""


def comment(kind: Kind) -> str:
    """Return the comment for rootcling: the range of a Double32_t or Float16_t, or the mark of a pointer that is never
    null.
    """
    if isinstance(kind, NeverNull):
        return f"//{kind.comment}"
    return kind.comment() if isinstance(kind, Packed) else ""


def passed(member: Member) -> str:
    """Return the statement that passes a member through the archive."""
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
    """Return the LinkDef with the types for which rootcling must create dictionaries."""
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
    """Return the code of the table with the types of branches and fields."""
    lines = [f'#include "{header_name}"', "#include <vector>", f"namespace {namespace} {{"]
    lines.append("std::vector<peers::Slot> slots() {")
    lines.append("  std::vector<peers::Slot> all;")
    lines += [f"  all.push_back({slot(kind)});" for kind in kinds]
    return "\n".join([*lines, "  return all;", "}", "}", ""])


def slot(kind: Kind) -> str:
    """Return the code of a table entry: functions that create, fill and read an object of a kind."""
    if isinstance(kind, Clones):
        return f'peers::clonesSlot<{kind.of.cpp}>("{kind.of.cpp}")'
    if isinstance(kind, Objects):
        return f"peers::objectsSlot<{', '.join(one.cpp for one in kind.classes)}>()"
    return f'peers::slotOf<{kind.cpp}>("{kind.cpp}")'
