"""A case of this format: objects of one name, with overflowing cycles. Every call uses the same object as ROOT."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.peers.generator import stages
from tests.peers.generator.cases import Outcome, attempt, shown_error

import branchline

# Offsets in a key: of the cycle, and of the size of the key.
CYCLE_AT, KEY_SIZE_AT = 16, 14
NOTE, TREE, NTUPLE = "note", "tree", "ntuple"
# Cycles near the values at which a 16-bit counter overflows or changes its sign.
CRITICAL = (1, 2, 32766, 32767, -32768, -2, -1, 0, 255)


@dataclass
class File:
    """A file. For each name, ``sizes`` has the size of each version, by cycle."""

    path: Path
    sizes: dict[str, dict[int, int]] = field(default_factory=dict)


def wrapped(cycle: int) -> int:
    """Convert a cycle to a signed 16-bit number, as stored in keys."""
    return (cycle + 2**15) % 2**16 - 2**15


def with_cycles(path: Path, keys: list[tuple[int, int]], new: Callable[[int], int]) -> None:
    """Replace the cycles of keys, given as (offset, cycle), in the records and in the list of keys."""
    data = path.read_bytes()
    for seek, cycle in keys:
        (size,) = struct.unpack_from(">h", data, seek + KEY_SIZE_AT)
        key = data[seek : seek + size]
        other = key[:CYCLE_AT] + struct.pack(">h", new(cycle)) + key[CYCLE_AT + 2 :]
        if data.count(key) < 2:
            raise RuntimeError(f"the key at {seek} is not in the list of keys")
        data = data.replace(key, other)
    path.write_bytes(data)


def write(root: Any, rng: Random, path: Path) -> File:
    """Write several versions of several objects with ROOT, delete some versions, and number the cycles from a random
    cycle on.
    """
    made, first = File(path), rng.choice((*CRITICAL, rng.randint(-(2**15), 2**15 - 1))) - rng.randint(0, 3)
    file = root.TFile(str(path), "RECREATE")
    for number in range(rng.randint(2, 5)):
        for name in rng.sample((NOTE, TREE, NTUPLE), 3):
            made.sizes.setdefault(name, {})[wrapped(first + number)] = number + 1
            WRITERS[name](root, file, number + 1)
    for name, sizes in made.sizes.items():
        for cycle in rng.sample(list(sizes), rng.choice((0, 0, 1))):
            file.Delete(f"{name};{wrapped(cycle - first + 1)}")
            del sizes[cycle]
    keys = [(key.GetSeekKey(), key.GetCycle()) for key in file.GetListOfKeys()]
    file.Close()
    with_cycles(path, keys, lambda cycle: wrapped(first + cycle - 1))
    return made


def _write_note(root: Any, file: Any, size: int) -> None:
    file.WriteTObject(root.TObjString(str(size)), NOTE)


def _write_tree(root: Any, file: Any, size: int) -> None:
    file.cd()
    tree, value = root.TTree(TREE, ""), array("i", [0])
    tree.Branch("value", value, "value/I")
    for value[0] in range(size):
        tree.Fill()
    file.WriteTObject(tree)
    tree.SetDirectory(root.nullptr)  # otherwise closing an RNTuple would write the tree again


def _write_ntuple(root: Any, file: Any, size: int) -> None:
    model = root.RNTupleModel.CreateBare()
    model.AddField(root.RFieldBase.Create("value", "int").Unwrap())
    writer = root.RNTupleWriter.Append(root.std.move(model), NTUPLE, file)
    for _ in range(size):
        writer.Fill(writer.CreateEntry())
    writer.CommitDataset()


WRITERS = {NOTE: _write_note, TREE: _write_tree, NTUPLE: _write_ntuple}


def by_root(root: Any, path: Path, name: str) -> int:
    """Return the size of the version that ROOT reads for a name without a cycle."""
    if name == NTUPLE:
        return int(root.RNTupleReader.Open(NTUPLE, str(path)).GetNEntries())
    file = root.TFile.Open(str(path))
    found = file.Get(name)
    size = int(found.GetEntries()) if name == TREE else int(str(found.GetString()))
    file.Close()
    return size


def size_of(found: Any) -> int:
    """Return the size of a version that Branchline has read."""
    return int(found) if isinstance(found, str) else int(found.num_entries)


def warm_up(root: Any, family: None, folder: Path) -> None:
    """Compile the code that all cases need with ROOT, before the processes of the cases are forked."""
    made = write(root, Random(0), folder / "warm.root")
    for name in made.sizes:
        by_root(root, made.path, name)


def run_case(root: Any, family: None, seed: int, folder: Path) -> Outcome:
    """Write and compare the case of a seed."""
    rng, outcome = Random(seed), Outcome(seed)
    stages.begin(stages.ROOT_WRITES)
    made = write(root, rng, folder / f"case{seed}.root")
    outcome.layout = str(made.sizes)
    stages.begin(stages.ROOT_READS)
    newest = {name: by_root(root, made.path, name) for name in made.sizes if made.sizes[name]}
    stages.begin(stages.BRANCHLINE_READS)
    check_reading(made, newest, outcome)
    check_copies(root, made, newest, rng, outcome)
    check_updating(root, made, newest, rng, outcome)
    return outcome


def check(outcome: Outcome, what: str, wanted: int, read: Callable[[], int]) -> None:
    found, error = attempt(read)
    if error is not None:
        outcome.add_wrong("cycles", what, shown_error(error))
    elif found != wanted:
        outcome.add_wrong("cycles", what, f"the version with {found} is taken, not the one with {wanted}")
    else:
        outcome.equal[what.partition(";")[0]] += 1


def check_reading(made: File, newest: dict[str, int], outcome: Outcome) -> None:
    """Check the versions that are opened by name and by each cycle, and the version that iteration reads."""
    file = branchline.open(made.path)
    for name, size in newest.items():
        check(outcome, f"{name} opened", size, lambda name=name: size_of(file[name]))
        for cycle, own in made.sizes[name].items():
            check(outcome, f"{name} opened;{cycle}", own, lambda key=f"{name};{cycle}": size_of(file[key]))
        if name != NOTE:
            chunks = branchline.iterate(f"{made.path}:{name}")
            check(outcome, f"{name} iterated", size, lambda chunks=chunks: sum(map(len, chunks)))


def check_copies(root: Any, made: File, newest: dict[str, int], rng: Random, outcome: Outcome) -> None:
    """Check the versions in a merge and in a skim of the file."""
    merged = made.path.with_suffix(".merged.root")
    branchline.merge([made.path], merged)
    for name, size in newest.items():
        check(outcome, f"{name} merged", size, lambda name=name: by_root(root, merged, name))
    name = rng.choice((TREE, NTUPLE))
    if name in newest:
        skimmed = made.path.with_suffix(".skim.root")
        branchline.skim(f"{made.path}:{name}", skimmed, where="value >= 0")
        check(outcome, f"{name} skimmed", newest[name], lambda: by_root(root, skimmed, name))


def check_updating(root: Any, made: File, newest: dict[str, int], rng: Random, outcome: Outcome) -> None:
    """Check the newest versions after an object was added, and after an object was removed."""
    added = 99
    with branchline.update(made.path) as file:
        file[NOTE] = str(added)
    for name, size in (newest | {NOTE: added}).items():
        check(outcome, f"{name} after an update", size, lambda name=name: by_root(root, made.path, name))
        check(outcome, f"{name} after an update", size, lambda name=name: size_of(branchline.open(made.path)[name]))
    name = rng.choice([name for name, sizes in made.sizes.items() if sizes])
    gone = rng.choice(list(made.sizes[name]))
    with branchline.update(made.path) as file:
        del file[f"{name};{gone}"]
    if name != NOTE and len(made.sizes[name]) > 1:
        wanted = max(size for cycle, size in made.sizes[name].items() if cycle != gone)
        check(outcome, f"{name} after a removal", wanted, lambda: by_root(root, made.path, name))
        check(outcome, f"{name} after a removal", wanted, lambda: size_of(branchline.open(made.path)[name]))
