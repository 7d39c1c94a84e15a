"""A case of this format: ROOT writes an RNTuple with random fields, and Branchline's values are compared by field."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, fields, replace
from pathlib import Path
from random import Random
from typing import Any

from tests.peers.generator import stages
from tests.peers.generator.cases import Outcome, attempt, check_chunks, family_name, shown_error
from tests.peers.generator.compare import difference, first_difference
from tests.peers.generator.families import Family
from tests.peers.generator.layouts import TREE, codec
from tests.peers.generator.ntuple_kinds import Variant
from tests.peers.generator.object_columns import plain
from tests.peers.generator.values import Kind, Limits, Reader, Text

import branchline

# Maximum memory for the first pages of all columns in a case.
PAGE_BUDGET_BYTES = 100_000_000


@dataclass
class FieldLayout:
    """The layout of an RNTuple."""

    entries: int
    compression: int
    folder: str
    page_bytes: int
    cluster_bytes: int
    checksums: bool
    same_pages_once: bool
    draw_encodings: bool
    # Entries at which a cluster ends. `groups` has the entries at which a group of clusters ends.
    clusters: list[int]
    groups: list[int]
    # The entry before which the last field is added; None if all fields exist from the start.
    late_at: int | None

    def __str__(self) -> str:
        return ", ".join(f"{one.name} {getattr(self, one.name)!r}" for one in fields(self))


@dataclass
class Field:
    """A field, with the value of each entry."""

    name: str
    kind: Kind
    put_in: list[Any]
    values: list[Any]
    first_entry: int = 0
    loses: bool = False


def random_layout(rng: Random) -> FieldLayout:
    entries = rng.choice((0, 1, 2, rng.randint(3, 40), rng.randint(10, 150), rng.randint(30, 300)))
    ends = sorted(rng.sample(range(entries), min(entries, rng.choice((0, 0, 1, 5)))))
    return FieldLayout(
        entries=entries,
        compression=codec(rng) if rng.random() < 0.9 else 505,
        folder=rng.choice(("", "", "inner/most")),
        page_bytes=rng.choice((64, 256, 1000, 64_000)),
        cluster_bytes=rng.choice((1000, 20_000, 10_000_000)),
        checksums=rng.random() < 0.8,
        same_pages_once=rng.random() < 0.5,
        draw_encodings=rng.random() < 0.7,
        clusters=ends,
        groups=[end for end in ends if rng.random() < 0.5],
        late_at=rng.randrange(entries + 1) if rng.random() < 0.3 else None,
    )


def run_case(root: Any, family: Family, seed: int, folder: Path) -> Outcome:
    """Write and compare the case of a seed."""
    rng = Random(seed)
    layout = random_layout(rng)
    outcome = Outcome(seed, str(layout))
    stages.begin(stages.ROOT_WRITES)
    chosen = [one for one in random_fields(rng, family, layout) if is_written_by_root(root, family, one, outcome)]
    path = folder / f"case{seed}.root"
    write(root, family, path, chosen, layout, rng)
    name = f"{layout.folder}/{TREE}" if layout.folder else TREE
    stages.begin(stages.ROOT_READS)
    _, error = attempt(lambda: read_by_root(root, family, path, name, chosen))
    if error is not None:
        outcome.lost.append(f"ROOT reads invalid values: seed {seed}: {shown_error(error)}")
        return outcome
    trusted = [field for field in chosen if is_trusted(field, outcome)]
    stages.begin(stages.BRANCHLINE_READS)
    tree, error = attempt(lambda: branchline.open(path)[name])
    if isinstance(error, branchline.UnsupportedBranchError):
        outcome.refuse("RNTuple", str(error))
        return outcome
    if error is not None:
        outcome.add_wrong("RNTuple", name, shown_error(error))
        return outcome
    if tree.num_entries != layout.entries:
        outcome.add_wrong("RNTuple", "its entries", f"{tree.num_entries}, not {layout.entries}")
        return outcome
    for field in trusted:
        check_field(tree, field, outcome)
    check_chunks(tree, rng, [], outcome)
    return outcome


def warm_up(root: Any, family: Family, folder: Path) -> None:
    """Compile the code that all cases need with ROOT, before the processes of the cases are forked."""
    layout = replace(random_layout(Random(0)), entries=2, folder="", late_at=1, clusters=[0])
    path = folder / "warm.root"
    texts = next(kind for kind in family.tops if isinstance(kind, Text))
    fields = [Field(name, texts, ["a", "b"], []) for name in ("early", "late")]
    fields[1].first_entry = 1
    assert all(is_written_by_root(root, family, field, Outcome(0)) for field in fields)
    write(root, family, path, fields, layout, Random(0))
    read_by_root(root, family, path, TREE, fields)


def random_fields(rng: Random, family: Family, layout: FieldLayout) -> list[Field]:
    chosen = []
    for i, kind in enumerate(rng.sample(family.tops, rng.randint(3, 8))):
        limits = Limits(elements=rng.choice((0, 2, 4, 6)))
        values = [kind.random(rng, limits) for _ in range(layout.entries)]
        chosen.append(Field(f"f{i}", kind, values, []))
    if layout.late_at is not None:
        chosen[-1].first_entry = layout.late_at
    return chosen


def is_written_by_root(root: Any, family: Family, field: Field, outcome: Outcome) -> bool:
    """Return whether ROOT can write a field. It does not find some optionals in sets, maps and tuples of classes."""
    found = root.RFieldBase.Check(field.name, family.slots[family.index(field.kind)].type)
    for one in found:
        outcome.lost.append(f"ROOT cannot write it: {one.fTypeName}: {str(one.fErrMsg).splitlines()[0]}")
        return False
    return True


def options(root: Any, layout: FieldLayout) -> Any:
    made = root.RNTupleWriteOptions()
    made.SetCompression(layout.compression)
    # The order matters, because each setting must be compatible with the previous settings.
    made.SetInitialUnzippedPageSize(min(64, layout.page_bytes))
    made.SetMaxUnzippedPageSize(layout.page_bytes)
    made.SetApproxZippedClusterSize(max(layout.cluster_bytes // 2, layout.page_bytes))
    made.SetMaxUnzippedClusterSize(max(layout.cluster_bytes, 2 * layout.page_bytes))
    made.SetPageBufferBudget(PAGE_BUDGET_BYTES)
    made.SetEnablePageChecksums(layout.checksums)
    made.SetEnableSamePageMerging(layout.same_pages_once and layout.checksums)
    return made


def write(root: Any, family: Family, path: Path, chosen: list[Field], layout: FieldLayout, rng: Random) -> None:
    """Write the RNTuple with ROOT."""
    file = root.TFile.Open(str(path), "RECREATE", "", layout.compression)
    if layout.folder:
        file.mkdir(layout.folder)
    directory = file.GetDirectory(layout.folder) if layout.folder else file
    writing = root.peers.NTupleWriting(rng.getrandbits(32))
    kept = []
    for field in chosen:
        packed = bytearray()
        for value in field.put_in[field.first_entry :]:
            field.kind.pack(value, packed)
        buffer = ctypes.create_string_buffer(bytes(packed), len(packed) + 1)
        held = root.peers.Held(family.slots[family.index(field.kind)])
        held.start(ctypes.addressof(buffer))
        kept.append((field, held, buffer))
    late = chosen[-1] if layout.late_at is not None else None
    for field, held, _ in kept:
        if field is not late:
            field.loses = writing.addField(field.name, held, layout.draw_encodings)
    writing.open(directory, TREE, options(root, layout))
    for entry in range(layout.entries):
        if entry == layout.late_at:
            late.loses = writing.addField(late.name, kept[-1][1], layout.draw_encodings)
        writing.fill()
        if entry in layout.clusters:
            writing.commitCluster(entry in layout.groups)
    if late is not None and layout.late_at == layout.entries:
        late.loses = writing.addField(late.name, kept[-1][1], layout.draw_encodings)
    writing.close()
    file.Close()


def read_by_root(root: Any, family: Family, path: Path, name: str, chosen: list[Field]) -> None:
    """Use the values that ROOT reads as the expected values."""
    held = [root.peers.Held(family.slots[family.index(field.kind)]) for field in chosen]
    names = root.std.vector("std::string")([field.name for field in chosen])
    pointers = root.std.vector("peers::Held*")()
    for one in held:
        pointers.push_back(one)
    root.peers.readFields(str(path), name, names, pointers)
    for field, one in zip(chosen, held, strict=True):
        reader = Reader(ctypes.string_at(one.bytesAt(), one.bytesCount()))
        field.values = [field.kind.unpack(reader) for _ in field.put_in]


def is_trusted(field: Field, outcome: Outcome) -> bool:
    """Return whether ROOT reads the written values, within the precision of the encoding."""
    parts = field.kind.everything()[:-1]
    if field.first_entry > 0 and any(isinstance(part, Variant) for part in parts):
        # In entries before a field was added, ROOT does not reset all variants in arrays and classes.
        outcome.lost.append(f"ROOT reads leftover variants: seed {outcome.seed}: {field.name} ({field.kind.cpp})")
        return False
    if field.loses or not field.kind.is_exact():
        return True
    pairs = list(zip(field.values, field.put_in, strict=True))
    for entry, (got, wanted) in enumerate(pairs[field.first_entry :], start=field.first_entry):
        found = difference(field.kind, plain(got), plain(wanted))
        if found is not None:
            outcome.lost.append(
                f"ROOT reads other values: seed {outcome.seed}: {field.name} ({field.kind.cpp}), entry {entry}: {found}"
            )
            return False
    return True


def check_field(tree: Any, field: Field, outcome: Outcome) -> None:
    """Compare a top-level field with the values that ROOT reads."""
    label = f"RNTuple: {family_name(field.kind.cpp)}"
    array, error = attempt(lambda: tree[field.name].array())
    if isinstance(error, branchline.UnsupportedBranchError):
        outcome.refuse(label, str(error))
        return
    wrong = shown_error(error) if error else first_difference(field.kind, array, [plain(one) for one in field.values])
    if wrong is None:
        outcome.equal[label] += 1
    else:
        outcome.add_wrong(label, field.name, wrong)
