"""Random RNTuples with all types and encodings of ROOT: ROOT writes them, and reads their expected values."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.peers.generator.families import root_folder, run
from tests.peers.peers import REPOSITORY

SOURCES = Path(__file__).parent / "ntuples"
ENTRIES_MAX = 200
COMPRESSIONS = (0, 101, 207, 404, 505)
# ROOT returns the elements of these containers in the order of its hash table, not in the order of the file.
UNORDERED = ("unordered_map", "unordered_set")
LATE = ("int32", "half_float", "string", "vector_float", "vector_string", "array", "optional", "point", "vector_track")


def compiled_peers(root: Any) -> Any:
    """Return the functions of peers.h, compiled with the dictionaries of their classes. Compiling takes half a minute,
    so all test processes share the result until the sources, ROOT or the compiler change.
    """
    compiler = os.environ.get("CXX", "c++")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    parts = [str(SOURCES), str(root_folder()), str(root.gROOT.GetVersion()), version]
    parts += [one.read_text(encoding="utf-8") for one in sorted(SOURCES.iterdir()) if one.is_file()]
    folder = REPOSITORY / "target" / "compiled" / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            compile_peers(compiler, folder)
            (folder / "done").touch()
    root.gSystem.Load("libROOTNTuple")
    assert root.gSystem.Load(str(folder / "libntuples.so")) >= 0
    root.gInterpreter.AddIncludePath(str(SOURCES))
    assert root.gInterpreter.Declare('#include "peers.h"')
    return root.peers


def compile_peers(compiler: str, folder: Path) -> None:
    top = root_folder()
    environment = os.environ | {"LD_LIBRARY_PATH": str(top / "lib"), "ROOTSYS": str(top)}
    run(
        [top / "bin" / "rootcling", "-f", "dictionary.cxx", f"-I{SOURCES}", "types.h", "LinkDef.h"], folder, environment
    )
    options = ["-shared", "-fPIC", "-O0", "-w", "-std=c++17", f"-I{top / 'include'}", f"-I{SOURCES}", "-I."]
    sources = ["dictionary.cxx", SOURCES / "fields.cxx"]
    run([compiler, *options, *sources, "-o", "libntuples.so"], folder, dict(os.environ))


@dataclass(frozen=True)
class Written:
    """A file, its fields, and a label with which a failure can be reproduced."""

    path: Path
    names: tuple[str, ...]
    seed: int
    entries: int
    label: str


def write(peers: Any, path: Path, seed: int, names: tuple[str, ...] | None = None) -> Written:
    """Write a file with fields and a layout drawn from a seed. If ``names`` is given, write these fields with the
    encodings that ROOT chooses.
    """
    is_random = names is None
    rng = random.Random(seed)
    known = [str(name) for name in peers.Names()]
    names = tuple(sorted(known, key=lambda _: rng.random())) if names is None else names
    entries = rng.randrange(1, ENTRIES_MAX)
    layout = peers.Layout()
    layout.compression = rng.choice(COMPRESSIONS) if is_random else 505
    layout.pageBytes = rng.choice([64, 200, 1 << 20])
    # ROOT's merger crashes if some pages have no checksums.
    layout.checksums = not is_random or rng.random() < 0.7
    layout.clusters = rng.choice([1, 7, 50, 1000])
    layout.groups = rng.choice([0, 1, 3])
    layout.randomEncodings = is_random
    layout.attributes = is_random and rng.random() < 0.5
    # Small key sizes split the header, the footer, the page lists and some pages into several keys.
    layout.maxKeySize = rng.choice([0, 4000, 9000]) if is_random else 0
    layout.extendAt = 0 if not is_random else rng.choice([0, 1, entries // 2, entries - 1])
    peers.Write(str(path), list(names), list(LATE), entries, seed, layout)
    late = tuple(f"late_{name}" for name in LATE) if 0 < layout.extendAt < entries else ()
    shown = ", ".join(
        f"{name}={getattr(layout, name)}"
        for name in (
            "compression",
            "pageBytes",
            "checksums",
            "clusters",
            "groups",
            "extendAt",
            "maxKeySize",
            "attributes",
        )
    )
    return Written(path, names + late, seed, entries, f"seed {seed}, {entries} entries, {shown}")


def by_root(peers: Any, path: Path, field: str) -> Any:
    """Return the values that ROOT reads, as lists and dicts."""
    return json.loads(str(peers.Json(str(path), field.removeprefix("late_"), field)))


def plain(value: Any) -> Any:
    """Convert tuples to lists and records to dicts. The names of records are dropped."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def wanted_order(field: str, value: list[Any]) -> list[Any]:
    return [sorted(entry) for entry in value] if field in UNORDERED else value
