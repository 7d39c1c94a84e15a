"""Write the tables of ROOT's own classes that are built into the engine: `python -m tests.peers.root_classes`.

`current.txt` has the streamer infos of the installed ROOT. `older.txt` has other class versions, from the streamer
infos in the shared test files. Each class version is a line with its name and version, followed by an indented line for
each element: type code, name and type, then optional parts: `[3]` (a dimension), `*fN` (the member that holds the array
length), `v2` (the version of a base class), `stl 1 3` (TStreamerSTL's fSTLtype and fCtype) and `%[0,1,12]` (the range
of a Double32_t).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.peers.peers import REPOSITORY, import_root, shared_data

FOLDER = REPOSITORY / "crates/format/src/classes/root_classes"
LIBRARIES = ["Core", "EG", "Gpad", "Graf", "Graf3d", "Hist", "MathCore", "Matrix", "Physics", "Tree", "TreePlayer"]
# These classes have a special format in every version, or never occur in files.
LEFT_OUT = {
    *("TArray", "TArrayC", "TArrayD", "TArrayF", "TArrayI", "TArrayL", "TArrayL64", "TArrayS", "TClonesArray"),
    *("TDatime", "THashList", "TList", "TMap", "TObjArray", "TObject", "TRef", "TRefArray", "TSortedList", "TString"),
    *("TBasket", "TBasketSQL", "TQObject", "TTreeFormula", "TTreeIndex"),
    # The streamer code of TCanvas writes other members than its streamer info describes.
    *("TCanvas", "TInspectCanvas"),
}
# Type codes of Double32_t and Float16_t, whose range is in the member's comment. ROOT adds 20 for fixed-size arrays and
# 40 for variable-size arrays.
FLOATS_WITH_RANGE = (9, 19)
ARRAY_STEP = 20
# Type codes of members that are objects (kObject and kAny) or arrays of objects.
OBJECTS = (61, 62, 81, 82)

Table = dict[tuple[str, int], list[str]]

LIST_CLASSES = """
#include "TClassTable.h"
namespace branchline_peers {
int classesCount() { return gClassTable->Classes(); }
const char *className(int index) { return gClassTable->At(index); }
}
"""


def class_names(root: Any) -> Iterator[str]:
    """Yield the classes of these libraries that files can contain, excluding standard library containers."""
    for library in LIBRARIES:
        root.gSystem.Load(f"lib{library}")
    root.gInterpreter.Declare(LIST_CLASSES)
    found = (root.branchline_peers.className(index) for index in range(root.branchline_peers.classesCount()))
    names = sorted({str(name) for name in found if name})
    for name in names:
        if not name.startswith("T") or name in LEFT_OUT or name.startswith(("TStreamer", "TProto", "TListOf")):
            continue
        described = root.TClass.GetClass(name)
        library = (str(described.GetSharedLibs() or "").split() or ["libCore.so"])[0]
        if described.GetClassVersion() > 0 and library.removeprefix("lib").removesuffix(".so") in LIBRARIES:
            yield name


def current(root: Any) -> Table:
    """Return the classes as the installed ROOT describes them in files."""
    table: Table = {}
    wanted = list(class_names(root))
    known = {*wanted, *LEFT_OUT}
    while wanted:
        described = root.TClass.GetClass(wanted.pop())
        info = described.GetStreamerInfo() if described else None
        if not info:
            continue
        table[str(described.GetName()), info.GetClassVersion()] = elements(info)
        parts = {str(one.GetName() if one.IsBase() else one.GetTypeName()) for one in objects_in(info)}
        wanted += sorted(parts - known)
        known |= parts
    return table


def objects_in(info: Any) -> Iterator[Any]:
    """Return the base classes of a class, and the members that are objects."""
    return (one for one in info.GetElements() if one.IsBase() or one.GetType() in OBJECTS)


def older(root: Any, folder: Path, names: set[str]) -> Table:
    """Return all versions of these classes that files of a folder describe, excluding versions with contradictory
    descriptions.
    """
    table: Table = {}
    contradicted: set[tuple[str, int]] = set()
    for path in sorted(folder.glob("*.root")):
        file = root.TFile.Open(str(path))
        for info in (file.GetStreamerInfoList() if file else None) or ():
            if info.ClassName() != "TStreamerInfo" or str(info.GetName()) not in names:
                continue
            key = (str(info.GetName()), int(info.GetClassVersion()))
            if table.setdefault(key, elements(info)) != elements(info):
                contradicted.add(key)
    return {key: lines for key, lines in table.items() if key not in contradicted}


def elements(info: Any) -> list[str]:
    """Return the lines for the elements of a streamer info."""
    stored = [element for element in info.GetElements() if element.IsA().GetName() != "TStreamerArtificial"]
    return ["\t".join(["", str(one.GetType()), str(one.GetName()), *described(one)]) for one in stored]


def described(element: Any) -> list[str]:
    """Return the parts of an element's line after its name: type, dimensions, version, counter, container type and
    range.
    """
    words = [str(element.GetTypeName())]
    words += [f"[{element.GetMaxIndex(index)}]" for index in range(element.GetArrayDim())]
    kind = element.IsA().GetName()
    if kind == "TStreamerBase":
        words.append(f"v{element.GetBaseVersion()}")
    if kind in ("TStreamerBasicPointer", "TStreamerLoop"):
        words.append(f"*{element.GetCountName()}")
    if kind in ("TStreamerSTL", "TStreamerSTLstring"):
        words.append(f"stl {element.GetSTLtype()} {element.GetCtype()}")
    if element.GetType() % ARRAY_STEP in FLOATS_WITH_RANGE and str(element.GetTitle()).startswith("["):
        words.append("%" + str(element.GetTitle()).split("]")[0] + "]")
    return words


def text(table: Table) -> str:
    """Return the text of a table's file."""
    return "".join(
        f"{name}\t{version}\n" + "".join(f"{line}\n" for line in table[name, version])
        for name, version in sorted(table)
    )


def main() -> None:
    """Write both files."""
    root, shared = import_root(), shared_data()
    if root is None or shared is None:
        raise SystemExit("this needs ROOT (the package `root` of PyPI) and the shared test data (BRANCHLINE_SHARED)")
    newest = current(root)
    names = {name for name, _ in newest}
    others = {key: lines for key, lines in older(root, shared / "root", names).items() if key not in newest}
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "current.txt").write_text(text(newest))
    (FOLDER / "older.txt").write_text(text(others))


if __name__ == "__main__":
    main()
