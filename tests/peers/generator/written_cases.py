"""A case of this format: Branchline writes a table or DataFrame, and Branchline, uproot and ROOT read it.

Types, names and values must be the same, or Branchline must refuse the table and name the column.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import awkward as ak
import numpy as np
import pandas as pd
import pyarrow as pa
from tests.peers.generator import stages
from tests.peers.generator.cases import CANNOT, Outcome, attempt, shown_error
from tests.peers.generator.compare import shown
from tests.peers.generator.frames import Drawn, draw_frame

import branchline

KINDS = {"mktree": "TTree", "mkrntuple": "RNTuple"}
# Code to print all entries of an RNTuple with ROOT, and to return the numbers in a leaf of a TTree at an entry.
PRINTED = """
#include <ROOT/RNTupleReader.hxx>
#include <TLeaf.h>
#include <TTree.h>
#include <iomanip>
#include <sstream>
namespace peers {
std::string hexadecimal(const std::string& bytes) {
  std::ostringstream digits;
  for (unsigned char byte : bytes) digits << std::hex << std::setw(2) << std::setfill('0') << int(byte);
  return digits.str();
}
std::string printedEntries(const std::string& path, const std::string& name) {
  auto reader = ROOT::RNTupleReader::Open(name, path);
  std::ostringstream out;
  out << std::setprecision(17);
  for (auto entry : reader->GetEntryRange()) reader->Show(entry, out);
  return hexadecimal(out.str());
}
std::string leafDigits(TTree& tree, const std::string& name, Long64_t entry) {
  auto* branch = static_cast<TBranch*>(tree.GetListOfBranches()->FindObject(name.c_str()));
  tree.GetEntry(entry);
  auto* leaf = static_cast<TLeaf*>(branch->GetListOfLeaves()->At(0));
  const auto size = std::size_t(leaf->GetLen() * leaf->GetLenType());
  return hexadecimal({static_cast<const char*>(leaf->GetValuePointer()), size});
}
}
"""


def warm_up(root: Any, family: None, folder: Path) -> None:
    """Compile the code that all cases need with ROOT, before the processes of the cases are forked."""
    root.gInterpreter.Declare(PRINTED)
    tree, held = root.TTree("t", ""), array("i", [0])
    tree.Branch("x", held, "x/I")
    tree.Fill()
    root.peers.leafDigits(tree, "x", 0)
    attempt(lambda: root.peers.printedEntries(str(folder / "no file"), "t"))


def run_case(root: Any, family: None, seed: int, folder: Path) -> Outcome:
    """Write and compare the case of a seed."""
    rng, outcome = Random(seed), Outcome(seed)
    kind = rng.choice(list(KINDS))
    stages.begin(stages.BRANCHLINE_WRITES)
    drawn, error = attempt(lambda: draw_frame(rng))
    if error is not None:
        outcome.unchecked["the table or DataFrame cannot be created"] += 1
        return outcome
    outcome.layout = f"{kind} of {drawn.source}: {drawn.types}"
    path = folder / f"case{seed}.root"
    error = attempt(lambda: write(path, kind, drawn, rng))[1]
    if error is not None:
        refuse(drawn, error, outcome)
        return outcome
    stages.begin(stages.BRANCHLINE_READS)
    wanted = dict(branches(kind, drawn, outcome))
    found = branchline.open(path)["t"].arrays(library="ak")
    check(found, wanted, outcome)
    check_by_uproot(path, found, outcome)
    stages.begin(stages.ROOT_READS)
    if kind == "mkrntuple":
        check_ntuple_by_root(root, path, found, outcome)
    else:
        check_tree_by_root(root, path, found, outcome)
    return outcome


def write(path: Path, kind: str, drawn: Drawn, rng: Random) -> None:
    with branchline.recreate(path) as file:
        made = getattr(file, kind)("t", drawn.frame)
        if rng.random() < 0.3:
            made.extend(drawn.frame)
            drawn.values = {name: values * 2 for name, values in drawn.values.items()}


def refuse(drawn: Drawn, error: Exception, outcome: Outcome) -> None:
    """Check that an error is a refusal that names a column."""
    is_clear = isinstance(error, ValueError | TypeError | branchline.UnsupportedBranchError)
    # The members of records become branches with names such as column_member.
    names = [name for name in drawn.types if re.search(rf"\b{re.escape(name)}(?=\b|_)", str(error))]
    if not is_clear or not names:
        outcome.add_wrong("refusal", str(list(drawn.types)), shown_error(error))
    else:
        outcome.refuse(f"{drawn.source}: {scalar_of(drawn.types[names[0]])}", str(error))


def scalar_of(of: pa.DataType) -> str:
    """Return the kind of a column, in one word."""
    return str(of).partition("<")[0].partition("[")[0]


def branches(kind: str, drawn: Drawn, outcome: Outcome) -> Iterator[tuple[str, tuple[pa.DataType, list[Any]]]]:
    """Yield the branches for the columns. In a TTree, each member of a record is a branch."""
    for name, of in drawn.types.items():
        yield from _branches(name, of, drawn.values[name], is_divided=kind == "mktree")


def _branches(name: str, of: pa.DataType, values: list[Any], *, is_divided: bool) -> Iterator[Any]:
    is_list = pa.types.is_list(of) or pa.types.is_large_list(of)
    if is_divided and pa.types.is_struct(of):
        for one in of:
            yield from _branches(f"{name}_{one.name}", one.type, [row[one.name] for row in values], is_divided=True)
    elif is_divided and is_list and pa.types.is_struct(of.value_type):
        for one in of.value_type:
            members = [[each[one.name] for each in row] for row in values]
            yield f"{name}_{one.name}", (pa.list_(one.type), members)
    else:
        yield name, (of, values)


def check(found: ak.Array, wanted: dict[str, tuple[pa.DataType, list[Any]]], outcome: Outcome) -> None:
    """Check the names, types and values that Branchline reads."""
    added = {name for name in found.fields if name.startswith("n") and name not in wanted}
    if "pandas" in outcome.layout and "index" not in wanted:
        added.add("index")  # the index of the DataFrame, as uproot writes it
    if set(found.fields) - added != set(wanted):
        outcome.add_wrong("names", str(found.fields), f"not {list(wanted)}")
        return
    for name, (of, values) in wanted.items():
        got = plain(found[name].to_list())
        expected = [as_written(one, of) for one in values]
        type_found, type_wanted = type_of(ak.type(found[name]).content), arrow_type(of)
        if "float16" in (type_wanted or "") and outcome.layout.startswith("mktree"):
            type_wanted = None  # a TTree has no half precision
        is_nested = any(mark in (type_wanted or "") for mark in "*{")
        if "pandas_of_numpy" in outcome.layout or ("nullable" in outcome.layout and is_nested):
            type_wanted = None  # such frames have objects, or floats if values are missing
        if not equal(got, expected):
            outcome.add_wrong("values", name, f"{shown(got)}, not {shown(expected)}")
        elif type_wanted is not None and type_found != type_wanted and values:
            outcome.add_wrong("type", name, f"{type_found}, not {type_wanted}")
        else:
            outcome.equal[f"written: {scalar_of(of)}"] += 1


def as_written(value: Any, of: pa.DataType) -> Any:
    """Return the value that is expected after reading a value of a column."""
    is_missing = value is None or value is pd.NA or value is pd.NaT
    is_number = pa.types.is_floating(of) or pa.types.is_integer(of)
    if isinstance(value, float) and math.isnan(value) and not is_number:
        is_missing = True  # as in NumPy's object columns
    if pa.types.is_struct(of):
        # The members of a missing record are missing.
        return {one.name: as_written(None if is_missing else value[one.name], one.type) for one in of}
    if is_missing:
        return None
    if pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of):
        return [as_written(one, of.value_type) for one in value]
    return plain(value)


def plain(value: Any) -> Any:
    """Convert a value of NumPy or awkward to a Python value."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(one) for one in value]
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")  # a std::string holds bytes
    return value.item() if isinstance(value, np.generic) else value


def equal(got: Any, wanted: Any) -> bool:
    """Return whether values are equal. NaN equals NaN, and None in a pandas column of floats is NaN."""
    if isinstance(got, list) and isinstance(wanted, list):
        return len(got) == len(wanted) and all(map(equal, got, wanted))
    if isinstance(got, dict) and isinstance(wanted, dict):
        return got.keys() == wanted.keys() and all(equal(got[name], wanted[name]) for name in got)
    if isinstance(got, float) and isinstance(wanted, float):
        return got == wanted or (math.isnan(got) and math.isnan(wanted))
    if isinstance(got, float) and type(wanted) is int:
        return got == wanted  # a pandas object column that also contains floats
    return type(got) is type(wanted) and bool(got == wanted)


def type_of(of: Any) -> str:
    """Return the type of an array, without option types."""
    if isinstance(of, ak.types.OptionType):
        return type_of(of.content)
    if isinstance(of, ak.types.RecordType) and not of.is_tuple:
        return "{" + ",".join(f"{name}:{type_of(of.content(name))}" for name in of.fields) + "}"
    if of.parameters.get("__array__") in ("string", "bytestring"):
        return str(of.parameters["__array__"])
    if isinstance(of, ak.types.ListType):
        return f"var*{type_of(of.content)}"
    if isinstance(of, ak.types.RegularType):
        return f"{of.size}*{type_of(of.content)}"
    return str(of)


def arrow_type(of: pa.DataType) -> str | None:
    """Return the expected type for an Arrow type, in the notation of `type_of`. None if it is read as another type."""
    if pa.types.is_struct(of):
        inner = [(one.name, arrow_type(one.type)) for one in of]
        return None if None in dict(inner).values() else "{" + ",".join(f"{n}:{t}" for n, t in inner) + "}"
    if pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of):
        count = of.list_size if pa.types.is_fixed_size_list(of) else "var"
        inner_type = arrow_type(of.value_type)
        return None if inner_type is None else f"{count}*{inner_type}"
    if pa.types.is_boolean(of) or pa.types.is_integer(of) or pa.types.is_floating(of):
        return str(np.dtype(of.to_pandas_dtype()))
    return "string" if any(map(of.equals, (pa.string(), pa.large_string(), pa.string_view()))) else None


def check_by_uproot(path: Path, found: ak.Array, outcome: Outcome) -> None:
    import uproot

    def read(name: str) -> list[Any]:
        with uproot.open(path) as file:
            return plain(file["t"][name].array().to_list())

    for name in found.fields:
        compare(f"uproot reads {name}", plain(found[name].to_list()), lambda name=name: read(name), outcome)


def compare(what: str, got: list[Any], read: Callable[[], Any], outcome: Outcome) -> None:
    wanted, error = attempt(read)
    if error is not None:
        outcome.unchecked[f"{CANNOT}: {type(error).__name__}: {str(error).splitlines()[0][:80]}"] += 1
    elif not equal(got, wanted):
        outcome.add_wrong("peers", what, f"{shown(wanted)}, Branchline {shown(got)}")
    else:
        outcome.equal[what.partition(" reads")[0]] += 1


def check_ntuple_by_root(root: Any, path: Path, found: ak.Array, outcome: Outcome) -> None:
    """All entries as ROOT prints them."""
    text = bytes.fromhex(str(root.peers.printedEntries(str(path), "t"))).decode(errors="replace")
    # ROOT prints one JSON object after the other, and prints NaN like C.
    text = re.sub(r"(?<=[\s\[:,])(-?)(nan|inf)\b", lambda one: {"nan": "NaN", "inf": f"{one[1]}Infinity"}[one[2]], text)
    decoder, at, entries = json.JSONDecoder(), 0, []
    while at < len(text.rstrip()):
        try:
            entry, at = decoder.raw_decode(text, at)
        except ValueError:
            outcome.unchecked["ROOT prints invalid JSON"] += 1
            return
        entries.append(entry)
        at += len(text[at:]) - len(text[at:].lstrip())
    for name in found.fields:
        got = as_printed(plain(found[name].to_list()))
        compare(f"ROOT reads {name}", got, lambda name=name: as_printed([one[name] for one in entries]), outcome)


def as_printed(value: Any) -> Any:
    """Convert a value to the form that ROOT prints: whole floats without a decimal point, and tuples without names."""
    if isinstance(value, list):
        return [as_printed(one) for one in value]
    if isinstance(value, dict) and "_0" in value:
        return as_printed(list(value.values()))
    if isinstance(value, dict):
        return {name: as_printed(one) for name, one in value.items()}
    if isinstance(value, str):
        return value.encode(errors="surrogateescape").decode(errors="replace")
    is_whole = isinstance(value, float) and math.isfinite(value) and value == int(value)
    return int(value) if is_whole else value


def check_tree_by_root(root: Any, path: Path, found: ak.Array, outcome: Outcome) -> None:
    """Check branches of numbers and of lists of numbers with ROOT."""
    file = root.TFile.Open(str(path))
    tree = file.Get("t")
    if tree.GetEntries() != len(found):
        outcome.add_wrong("peers", "ROOT", f"{tree.GetEntries()} entries, not {len(found)}")
    for name in found.fields:
        numbers = ak.flatten(found[name][:, np.newaxis], axis=None)
        if not isinstance(ak.type(numbers).content, ak.types.NumpyType) or "Leaf" not in leaf_class(tree, name):
            continue
        dtype = np.asarray(numbers).dtype
        for entry in range(len(found)):
            wanted = np.frombuffer(bytes.fromhex(str(root.peers.leafDigits(tree, name, entry))), dtype)
            got = np.asarray(ak.flatten(found[name][entry : entry + 1][:, np.newaxis], axis=None))
            if got.tobytes() != wanted.tobytes():
                outcome.add_wrong("peers", f"ROOT reads {name}, entry {entry}", f"{wanted}, Branchline {got}")
                break
        else:
            outcome.equal["ROOT"] += 1
    file.Close()


def leaf_class(tree: Any, name: str) -> str:
    """Return the class of a branch's leaf; empty for objects and strings."""
    branch = tree.GetListOfBranches().FindObject(name)
    if not branch:
        return ""
    of = str(branch.GetListOfLeaves().At(0).ClassName())
    return "" if of in ("TLeafElement", "TLeafC", "TLeafObject") else of
