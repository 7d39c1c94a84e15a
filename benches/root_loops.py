"""Compiles ROOT readers and writers (root_*.h, generated RDataFrame loops) with ACLiC for a worker."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEADERS = [Path(__file__).with_name(name) for name in ("root_loops.h", "root_objects.h")]
# Size of the counters: the maximum number of slots with implicit multi-threading in these benchmarks.
SLOTS_MAX = 64
COMPILING = "import sys, ROOT; ROOT.gROOT.SetBatch(True); ROOT.gROOT.LoadMacro(sys.argv[1])"
COMPILING_MAX_S = 300


@dataclass(frozen=True)
class Column:
    """A branch in RDataFrame: its name, the C++ type of an element, and whether it is an array."""

    name: str
    element: str
    is_array: bool

    @property
    def argument(self) -> str:
        return f"const ROOT::RVec<{self.element}> &" if self.is_array else self.element


def import_root() -> Any:
    """Import ROOT in batch mode, without its banner."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ROOT  # type: ignore[import-untyped]
    ROOT.gROOT.SetBatch(True)
    ROOT.gErrorIgnoreLevel = ROOT.kWarning
    return ROOT


def columns_of(path: str, tree_name: str, branches: list[str] | None) -> list[Column]:
    """Return the chosen branches of a flat tree with their C++ types, in the order of the tree."""
    root = import_root()
    file = root.TFile.Open(path)
    tree = file.Get(tree_name)
    columns = []
    for branch in tree.GetListOfBranches():
        leaf = branch.GetListOfLeaves().At(0)
        if branches is None or branch.GetName() in branches:
            is_array = bool(leaf.GetLeafCount()) or leaf.GetLenStatic() > 1
            columns.append(Column(str(branch.GetName()), str(leaf.GetTypeName()), is_array))
    file.Close()
    return columns


def dataframe_function(name: str, columns: list[Column]) -> str:
    """Return a C++ function that accesses these columns in every entry with RDataFrame, without just-in-time
    compilation.
    """
    arguments = ", ".join(f"{column.argument} v{i}" for i, column in enumerate(columns))
    sizes = " + ".join(f"(long long)v{i}.size()" if c.is_array else f"touch(v{i})" for i, c in enumerate(columns))
    names = ", ".join(f'"{column.name}"' for column in columns)
    return f"""
inline PassResult {name}(const std::vector<std::string> &paths, const std::string &tree_name)
{{
   struct alignas(64) Slot {{ long long entries = 0, values = 0; volatile double last = 0; }};
   std::vector<Slot> slots({SLOTS_MAX});
   ROOT::RDataFrame frame(tree_name, paths);
   frame.ForeachSlot([&slots](unsigned slot, {arguments}) {{
      auto touch = [&](double value) {{ slots[slot].last = value; return 1LL; }};
      (void)touch;
      slots[slot].entries += 1;
      slots[slot].values += {sizes};
   }}, {{{names}}});
   PassResult result;
   for (const auto &slot : slots) {{
      result.entries += slot.entries;
      result.values += slot.values;
   }}
   return result;
}}
"""


def compile_loops(cache: Path, dataframes: dict[str, list[Column]]) -> Any:
    """Return ROOT with the loops loaded."""
    return compile_headers(cache, "loops", HEADERS, "".join(dataframe_function(n, c) for n, c in dataframes.items()))


def compile_headers(cache: Path, name: str, headers: list[Path], functions: str = "") -> Any:
    """Return ROOT with headers and functions loaded. They are compiled once (some 20 s) and cached in `cache` by a hash
    of their source.
    """
    root = import_root()
    source = "".join(f'#include "{header.name}"\n' for header in headers) + functions
    texts = [header.read_text() for header in headers]
    tag = hashlib.sha256("".join([source, *texts, root.__version__]).encode()).hexdigest()[:12]
    folder = cache / f"{name}-{tag}"
    folder.mkdir(parents=True, exist_ok=True)
    macro = folder / f"{name}.C"
    if not macro.exists():
        for header, text in zip(headers, texts, strict=True):
            (folder / header.name).write_text(text)
        macro.write_text(source)
    if not (folder / f"{name}_C.so").exists():
        # Use a separate process: ACLiC links against all loaded libraries, which other processes may not find.
        subprocess.run([sys.executable, "-c", COMPILING, f"{macro}+O"], check=False, timeout=COMPILING_MAX_S)
    if root.gROOT.LoadMacro(f"{macro}+O") != 0:
        msg = f"ACLiC could not compile {macro}; it needs a C++ compiler"
        raise RuntimeError(msg)
    return root
