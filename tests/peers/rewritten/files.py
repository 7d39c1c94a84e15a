"""One file merged with itself in every way, and what of it is read again; each in a process of its own."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uproot

import branchline
from branchline import _core
from branchline.errors import BranchlineError
from branchline.layout import merge, skim, slim, verify
from branchline.layout.digests import BranchDigest, branch_digests

from .root_reader import numbers_of

#: What a process may take: it is killed by what takes more.
ADDRESS_SPACE_BYTES = 8 << 30
#: What a merge is told to take, and what it may take beside that: the interpreter, tables, threads.
MEMORY_BYTES = 256 << 20
RESIDENT_BYTES_MAX = 1200 << 20
DEADLINE_S = 400
#: Of so many entries a skim keeps one.
KEPT_STEP = 3


@dataclass
class Outcome:
    """What became of one way to write a file: ``fine``, ``refused``, ``wrong`` or ``failed``."""

    file: str
    way: str
    outcome: str
    message: str = ""
    seconds: float = 0.0
    resident_bytes: int = 0


def every_third(events: Any) -> Any:
    return np.arange(len(events)) % KEPT_STEP == 0


def trees_of(path: str) -> list[str]:
    """The TTrees of a file, of each name the newest."""
    with branchline.open(path) as file:
        names = [
            name.partition(";")[0]
            for name, kind in file.classnames().items()
            if kind in ("TTree", "TNtuple", "TNtupleD", "TChain")
        ]
    return sorted(set(names))


Way = Callable[[list[str], str], Any]
OPTIONS: dict[str, dict[str, Any]] = {
    "fast": {},
    "offset": {"order": "offset"},
    "branch": {"order": "branch"},
    "recompress": {"codec": "zstd:1"},
    "baskets": {"basket_size": 2000},
    "clusters": {"cluster_events": 7, "codec": "lz4:1"},
}
WAYS = (*OPTIONS, "slim", "skim")


def write(way: str, inputs: list[str], output: str, trees: list[str]) -> list[str]:
    """Writes a file; answers with the trees that are in it."""
    if way in OPTIONS:
        merge(inputs, output, verify=True, force=True, memory_limit=MEMORY_BYTES, **OPTIONS[way])
        return trees
    with branchline.open(inputs[0]) as file:
        tree = max(trees, key=lambda name: file[name].num_entries)
        names = file[tree].outline.paths
    if way == "slim":
        top = [name for name in names if "/" not in name]
        slim(inputs, output, drop=top[: len(top) // 2], tree=tree, verify=True, force=True, memory_limit=MEMORY_BYTES)
        return [tree]
    skim(inputs, output, where=every_third, tree=tree, verify=True, force=True, memory_limit=MEMORY_BYTES)
    return [tree]


def compare_with_ours(way: str, inputs: list[str], output: str, trees: list[str]) -> Iterator[str]:
    """In what the output differs from its inputs for our own reader."""
    if way in OPTIONS:
        found = verify(output, inputs)
        yield from found.differences
        for tree in found.trees:
            yield from (f"{tree.path}: {what}" for what in tree.differences)
        return
    (tree,) = trees
    with branchline.open(output) as file:
        names = [name for name, branch in file[tree].items() if not list(branch)]
    for name in names:
        made = branch_digests([output], tree, [name])[name]
        given = BranchDigest()
        for path in inputs:
            with branchline.open(path) as file:
                values = file[tree].arrays([name])[name]
            given.add(values[::KEPT_STEP] if way == "skim" else values)
        if made != (given.entries, given.value()):
            yield f"{tree}: {name} has other values for us"


def compare_with_uproot(way: str, inputs: list[str], output: str, trees: list[str]) -> Iterator[str]:
    step = KEPT_STEP if way == "skim" else 1
    with uproot.open(inputs[0]) as given, uproot.open(output) as made:
        for tree in trees:
            try:
                one = given[tree]
            except Exception:  # noqa: BLE001 - as below
                continue
            two = made[tree]
            for name, branch in two.iteritems(recursive=True):
                if branch.num_baskets == 0 and not branch.num_entries or len(branch.branches) > 0:
                    continue
                try:
                    values = one[name].array()
                except Exception:  # noqa: BLE001 - what uproot does not read of the input needs no comparing
                    continue
                expected, found = BranchDigest(), BranchDigest()
                for path in inputs:
                    expected.add(values[::step])
                found.add(two[name].array())
                if expected.value() != found.value():
                    yield f"{tree}: {name} has other values for uproot"


def compare_with_root(
    root: Any, way: str, inputs: list[str], output: str, trees: list[str], objects: bool
) -> Iterator[str]:
    kept_step = KEPT_STEP if way == "skim" else 1
    for tree in trees:
        expected = numbers_of(root, inputs, tree, 0, kept_step, objects)
        again = numbers_of(root, inputs, tree, 0, kept_step, objects)
        made = numbers_of(root, [output], tree, 0, 1, objects)
        if way == "slim":
            made.pop("GetEntry")
        for name in sorted(made):
            if expected.get(name) == again.get(name) and made[name] != expected.get(name):
                yield f"{tree}: {name} has other values for ROOT"
        lost = expected.keys() - made.keys()
        if way != "slim" and lost:
            yield f"{tree}: ROOT does not find {', '.join(sorted(lost)[:5])}"


def check(root: Any, path: str, way: str, folder: Path, readers: set[str]) -> Outcome:
    """Writes a file in one way from two of it, and reads it."""
    output = str(folder / f"{Path(path).stem}.{way}.root")
    outcome = Outcome(Path(path).name, way, "fine")
    started = time.monotonic()
    twin = folder / f"twin-{Path(path).name}"
    inputs = [path, str(twin)]
    try:
        shutil.copyfile(path, twin)
        trees = trees_of(path)
        if not trees and way in ("slim", "skim"):
            return Outcome(Path(path).name, way, "no tree")
        trees = write(way, inputs, output, trees)
        outcome.resident_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        wrong = []
        if "ours" in readers:
            wrong += list(compare_with_ours(way, inputs, output, trees))
        if "uproot" in readers:
            wrong += list(compare_with_uproot(way, inputs, output, trees))
        if "root" in readers:
            wrong += list(compare_with_root(root, way, inputs, output, trees, "objects" in readers))
        if wrong:
            outcome.outcome, outcome.message = "wrong", "; ".join(wrong[:6]) + f" ({len(wrong)})"
    except BranchlineError as error:
        outcome.outcome, outcome.message = "refused", f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 - told with all others
        outcome.outcome, outcome.message = "failed", f"{type(error).__name__}: {error}"
    finally:
        Path(output).unlink(missing_ok=True)
        twin.unlink(missing_ok=True)
    outcome.seconds = time.monotonic() - started
    return outcome


def check_apart(root: Any, path: str, way: str, folder: Path, readers: set[str]) -> Outcome:
    """The same in a process of its own, with a limit of memory and of time."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(DEADLINE_S)
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE):
            signal.signal(number, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        try:
            os.write(writing, json.dumps(asdict(check(root, path, way, folder, readers))).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status, usage = os.wait4(child, 0)
    if not answer:
        name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {status >> 8}"
        return Outcome(Path(path).name, way, "died", f"{name}, {usage.ru_maxrss >> 10} MiB", usage.ru_utime)
    return Outcome(**json.loads(answer))
