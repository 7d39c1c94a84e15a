"""Merge a file with itself in one of several ways, and compare the output with the input, in separate processes."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uproot
from tests.peers.rewritten.root_reader import numbers_of

import branchline
from branchline.errors import BranchlineError
from branchline.writing.merging.merge import merge
from branchline.writing.merging.skim import skim, slim
from branchline.writing.merging.value_digests import BranchHasher, branch_digests
from branchline.writing.merging.verify import verify

#: Maximum address space of a process. Allocations beyond it fail.
ADDRESS_SPACE_BYTES = 6 << 30
#: Memory limit of a merge, and timeout of a process.
MEMORY_BYTES = 256 << 20
DEADLINE_S = 400
SHOWN_MAX = 4
#: A skim keeps one entry out of this number.
KEPT_STEP = 3


@dataclass
class Outcome:
    """The outcome of one way to write a file: ``fine``, ``refused``, ``wrong``, ``failed``, ``died`` or ``no tree``."""

    file: str
    way: str
    outcome: str
    message: str = ""
    seconds: float = 0.0
    resident_bytes: int = 0


def every_third(entries: int) -> Callable[[Any], Any]:
    """Return a function that selects every third entry of each file, independent of chunks. ``entries`` is the number
    of entries per file.
    """
    done = 0

    def select(events: Any) -> Any:
        nonlocal done
        kept = (done + np.arange(len(events))) % KEPT_STEP == 0
        done = (done + len(events)) % entries if entries else 0
        return kept

    return select


def trees_of(path: str) -> list[str]:
    """Return the names of the TTrees in a file."""
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
    """Write a file, and return the names of its trees."""
    if way in OPTIONS:
        merge(inputs, output, verify=True, force=True, memory_limit=MEMORY_BYTES, **OPTIONS[way])
        return trees
    with branchline.open(inputs[0]) as file:
        tree = max(trees, key=lambda name: file[name].num_entries)
        names, entries = file[tree].outline.paths, file[tree].num_entries
    if way == "slim":
        top = [name for name in names if "/" not in name]
        slim(inputs, output, drop=top[: len(top) // 2], tree=tree, verify=True, force=True, memory_limit=MEMORY_BYTES)
        return [tree]
    skim(inputs, output, where=every_third(entries), tree=tree, verify=True, force=True, memory_limit=MEMORY_BYTES)
    return [tree]


def compare_with_ours(way: str, inputs: list[str], output: str, trees: list[str]) -> Iterator[str]:
    """Yield the differences between output and inputs, read with Branchline."""
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
        given = BranchHasher()
        for path in inputs:
            with branchline.open(path) as file:
                values = file[tree].arrays([name])[name]
            given.add(values[::KEPT_STEP] if way == "skim" else values)
        if made != given.value():
            yield f"{tree}: {name} has other values in Branchline"


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
                if (branch.num_baskets == 0 and not branch.num_entries) or len(branch.branches) > 0:
                    continue
                try:
                    values = one[name].array()
                except Exception:  # noqa: BLE001 - what uproot does not read of the input needs no comparing
                    continue
                expected, found = BranchHasher(), BranchHasher()
                for _ in inputs:
                    expected.add(values[::step])
                try:
                    found.add(two[name].array())
                    reason = "has other values in uproot"
                except Exception as error:  # noqa: BLE001 - reported, if it is ours
                    reason = f"cannot be read by uproot: {error}"
                if expected.value() != found.value() and not is_misread(inputs[0], f"{tree}/{name}", values):
                    yield f"{tree}: {name} {reason}"


def is_misread(path: str, branch: str, values: Any) -> bool:
    """Return whether uproot and Branchline read different values from an input. In this case, uproot's values of the
    output prove nothing.
    """
    given, ours = BranchHasher(), BranchHasher()
    given.add(values)
    with branchline.open(path) as file:
        ours.add(file[branch].array())
    return given.value() != ours.value()


def read_by_root(root: Any, files: list[str], tree: str, step: int) -> dict[str, int] | None:
    """Return the numbers that ROOT reads from a tree in a separate process. None if ROOT cannot read the tree."""
    for objects_too in (True, False):
        numbers = apart(lambda objects=objects_too: numbers_of(root, files, tree, step, objects))
        if isinstance(numbers, dict):
            return numbers
    return None


def compare_with_root(root: Any, way: str, inputs: list[str], output: str, trees: list[str]) -> Iterator[str]:
    """Yield the differences between output and inputs, read with ROOT. Ignores branches for which ROOT reads different
    values from the inputs each time.
    """
    step = KEPT_STEP if way == "skim" else 1
    for tree in trees:
        expected, again = (read_by_root(root, inputs, tree, step) for _ in range(2))
        if expected is None or again is None:
            continue
        made = read_by_root(root, [output], tree, 1)
        if made is None:
            yield f"{tree}: ROOT cannot read it"
            continue
        if way == "slim":
            made.pop("GetEntry")
        # If ROOT crashes on the objects in the inputs, the inputs are read without objects, which then cannot be
        # compared.
        known = [name for name in sorted(made) if name in expected or not name.startswith("object ")]
        differing = [name for name in known if expected.get(name) == again.get(name) != made[name]]
        unsteady = read_otherwise(root, inputs, tree, output) if differing else set()
        for name in differing:
            if name not in unsteady:
                yield f"{tree}: {name} has other values in ROOT"
        lost = [name for name in expected if name not in made and not name.startswith("object ")]
        if way != "slim" and lost:
            yield f"{tree}: ROOT does not find {', '.join(sorted(lost)[:5])}"


def read_otherwise(root: Any, inputs: list[str], tree: str, prefix: str) -> set[str]:
    """Return the names for which ROOT reads different values from a file merged by hadd. For these, ROOT's reading is
    unreliable, and the output may be right.
    """
    merged = f"{prefix}.hadd.root"
    hadd = Path(root.__file__).parent / "bin" / "hadd"
    try:
        subprocess.run([hadd, "-fk", "-v", "0", merged, *inputs], check=False, capture_output=True, timeout=DEADLINE_S)
        one, two = (read_by_root(root, files, tree, 1) for files in (inputs, [merged]))
        return {name for name in one if one[name] != two.get(name)} if one and two else set()
    finally:
        Path(merged).unlink(missing_ok=True)


def check(path: str, way: str, twin: str, output: str, readers: set[str]) -> dict[str, Any]:
    """Merge a file with its copy ``twin`` in one way, and compare the output for uproot and Branchline."""
    inputs = [path, twin]
    outcome: dict[str, Any] = {"outcome": "fine", "trees": []}
    try:
        trees = trees_of(path)
        if not trees and way in ("slim", "skim"):
            return {"outcome": "no tree", "trees": []}
        outcome["trees"] = trees = write(way, inputs, output, trees)
        outcome["resident_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        wrong = []
        if "ours" in readers:
            wrong += list(compare_with_ours(way, inputs, output, trees))
        if "uproot" in readers:
            wrong += list(compare_with_uproot(way, inputs, output, trees))
        if wrong:
            outcome |= {"outcome": "wrong", "message": "; ".join(wrong[:SHOWN_MAX])}
    except BranchlineError as error:
        outcome |= {"outcome": "refused", "message": str(error)}
    except Exception as error:  # noqa: BLE001 - reported with all others
        outcome |= {"outcome": "failed", "message": f"{type(error).__name__}: {error}"}
    return outcome


def check_file(root: Any, path: str, way: str, folder: Path, readers: set[str]) -> Outcome:
    """Return the outcome of one way to write a file."""
    name = Path(path).name
    output, twin = folder / f"{Path(path).stem}.{way}.root", folder / f"twin-{name}"
    started = time.monotonic()
    try:
        shutil.copyfile(path, twin)
        found = apart(lambda: check(path, way, str(twin), str(output), readers))
        if not isinstance(found, dict):
            return Outcome(name, way, "died", found)
        trees = found.pop("trees")
        if found["outcome"] == "fine" and root is not None:
            wrong = list(compare_with_root(root, way, [path, str(twin)], str(output), trees))
            if wrong:
                found |= {"outcome": "wrong", "message": "; ".join(wrong[:SHOWN_MAX])}
    finally:
        output.unlink(missing_ok=True)
        twin.unlink(missing_ok=True)
    return Outcome(name, way, **found, seconds=time.monotonic() - started)


def apart(work: Callable[[], dict[str, Any]]) -> dict[str, Any] | str:
    """Run a function in a separate process with limited memory and time. Returns its result, or a description of how
    the process died.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.alarm(DEADLINE_S)
            for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE):
                signal.signal(number, signal.SIG_DFL)
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status, usage = os.wait4(child, 0)
    if answer:
        done: dict[str, Any] = json.loads(answer)
        return done
    what = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "an exception"
    return f"{what}, {usage.ru_maxrss >> 10} MiB"
