"""The C++ of the maker: a class with a dictionary for each form, which fills its members from a generator."""

from __future__ import annotations

from collections.abc import Iterable

from studies.making.forms import Members, ObjectForm

_VALUES = {
    "constant": "1",
    "small": "r.Integer(8)",
    "normal": "0.001f * (int)r.Gaus(0, 1000)",
    "mostly zero": "r.Rndm() < 0.03 ? r.Integer(100) : 0",
}
_HEAD = """#include <TClonesArray.h>
#include <TFile.h>
#include <TObject.h>
#include <TRandom3.h>
#include <TTree.h>
"""


def source_of(forms: Iterable[ObjectForm]) -> str:
    """The whole source; ACLiC makes dictionaries of its classes."""
    return "\n".join([_HEAD, *(_class_of(one) for one in forms)])


def _class_of(form: ObjectForm) -> str:
    declared = [
        f"  {one.kind} {name}{f'[{one.length}]' if one.length else ''} = {'{0}' if one.length else '0'};"
        for one in form.members
        for name in one.names
    ]
    filled = [_statement(one, name) for one in form.members for name in one.names]
    name = form.class_name
    lines = [f"class {name} : public TObject {{", "public:", *declared]
    lines += ["  void Draw_members(TRandom3 &r) {", *filled, "  }", f"  ClassDefOverride({name}, 1)", "};"]
    # C++ finds the class of an array by its name only; this fills one element.
    lines += [
        f"inline void fill_{name}(TObject *one, TRandom3 &r) {{ static_cast<{name} *>(one)->Draw_members(r); }}",
        f"inline void fill_array_{name}(TClonesArray &all, int count, TRandom3 &r) {{",
        f"  all.Clear(); for (int i = 0; i < count; ++i) static_cast<{name} *>(all.ConstructedAt(i))->Draw_members(r);",
        "}",
        f"inline void fill_tree_{name}(TTree &tree, {name} &one, int count, TRandom3 &r) {{",
        "  for (int i = 0; i < count; ++i) { one.Draw_members(r); tree.Fill(); }",
        "}",
    ]
    return "\n".join(lines)


def _statement(members: Members, name: str) -> str:
    value = _VALUES[members.fill]
    if members.length:
        return f"    for (int i = 0; i < {members.length}; ++i) {name}[i] = {value};"
    return f"    {name} = {value};"
