"""Reads all values of objects, and of the flat columns that `branchline convert --flatten` makes of them, on one core.

ROOT reads the objects with compiled dictionaries.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benches.conditions import machine_lines
from benches.passes import Ask, cpu_seconds, rounds, serve
from benches.root_loops import compile_headers
from benches.rounds import Spread
from benches.tables import spread, table
from benches.worker import REPOSITORY

HEADER = Path(__file__).with_name("flattened_root.h")
READERS = ("Branchline", "uproot", "ROOT")
# The objects: name, kind, and the split level of the branch.
OBJECTS = (
    ("vector of tracks, unsplit", "tracks", 0),
    ("vector of tracks, split", "tracks", 99),
    ("vector of pointers to tracks", "pointers", 0),
    ("vector of tracks with hits, unsplit", "hits", 0),
    ("vector of tracks with hits, split", "hits", 99),
)
UNFLATTENED, FLAT = "objects", ("ttree", "rntuple")
FORMS = (UNFLATTENED, *FLAT)


def written(cache: Path, number: int, events: int) -> dict[str, Path]:
    """Write the objects and their flat columns, unless the files exist. Returns the file of each form."""
    from branchline.writing.merging.convert import convert

    paths = {form: cache / f"flattened-{number}-{events}-{form}.root" for form in FORMS}
    if not paths[UNFLATTENED].exists():
        run("write", str(cache), str(paths[UNFLATTENED]), str(number), str(events))
    for form in FLAT:
        if not paths[form].exists():
            convert(paths[UNFLATTENED], paths[form], to=form, flatten=True, verify=True)
    return paths


def reading(reader: str, form: str, cache: Path, path: str) -> Callable[[], int]:
    """Return a function for one pass of a reader. It returns the number of entries read."""
    if reader == "Branchline":
        import branchline

        return lambda: len(branchline.open(path)["tree"].arrays(workers=1))
    if reader == "uproot":
        import uproot

        return lambda: len(uproot.open(path)["tree"].arrays())
    functions = compile_headers(cache, "flattened", [HEADER]).flattened
    return lambda: int(functions.ReadNtuple(path) if form == "rntuple" else functions.ReadTree(path))


@dataclass(frozen=True)
class FlattenedPass:
    """One pass of a reader, including opening the file."""

    form: str
    reader: str
    entries: int
    seconds: float
    cpu_seconds: float


def prepared(reader: str, form: str, cache: Path, path: str) -> Ask:
    """Return a function that runs a pass of a reader in this process."""
    work = reading(reader, form, cache, path)

    def one_pass() -> dict[str, Any]:
        cpu, began = cpu_seconds(), time.perf_counter()
        entries = work()
        took, used = time.perf_counter() - began, cpu_seconds() - cpu
        return asdict(FlattenedPass(form, reader, entries, took, used))

    return one_pass


def uproot_reads(path: Path) -> bool:
    """Whether uproot reads all branches of a file."""
    import uproot

    try:
        uproot.open(path)["tree"].arrays(entry_stop=1)
    except (NotImplementedError, ValueError):
        return False
    return True


def measure(cache: Path, paths: dict[str, Path], readers: list[str], repeats: int) -> list[FlattenedPass]:
    """Return the passes of all readers over all forms without the warm-up. A pass over the objects and the passes over
    their columns are in the same round. Raises RuntimeError unless all read the same entries.
    """
    passes = []
    arms = [[reader, form, str(cache), str(paths[form])] for form in FORMS for reader in readers]
    for number, said in enumerate(rounds("benches.flattened", arms, repeats)):
        done = [FlattenedPass(**one) for one in said]
        if len({one.entries for one in done}) != 1:
            raise RuntimeError(f"the readers of {paths[UNFLATTENED]} differ: {done}")
        passes += done if number > 0 else []
    return passes


def flattened_page(
    cache: Path, events: int, repeats: int, say: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Create the files, measure, and return the page and its rows."""
    cache.mkdir(parents=True, exist_ok=True)
    rows, in_megabytes, found = [], [], []
    for number, (name, _, _) in enumerate(OBJECTS):
        say(f"{name}: {events} events")
        paths = written(cache, number, events)
        readers = [one for one in READERS if one != "uproot" or uproot_reads(paths[UNFLATTENED])]
        passes = measure(cache, paths, readers, repeats)
        sizes = {form: path.stat().st_size for form, path in paths.items()}
        found += [{"objects": name, "size_bytes": sizes[one.form], **asdict(one)} for one in passes]
        rows += [[name, reader, *cells(reader, passes)] for reader in readers]
        in_megabytes.append([name, *(f"{sizes[form] / 1e6:.1f}" for form in FORMS)])
    head = ["objects", "reader", "objects, CPU ms", "flat TTree, CPU ms", "x", "flat RNTuple, CPU ms", "x"]
    lines = [
        "# Objects and their flat columns",
        "",
        f"{events} events with 0 to 39 tracks of 39 numbers, written by ROOT with zstd:5, and the files that "
        "`branchline convert --flatten` makes of them with the same codec. Some tracks have lists of 0 to 9 hits of 4 "
        "numbers, which are vectors of vectors in the flat TTree. All values are read. One core, from the "
        "page cache; each pass opens the file. CPU milliseconds: median, lowest and highest of the passes. **x** is "
        "the CPU time of reading the objects divided by that of reading the columns, pair by pair within a round.",
        "",
        "- **Branchline**: `arrays(workers=1)`; **uproot**: `arrays()`; both return arrays of all entries.",
        "  uproot is missing if it does not read the objects, such as vectors that ROOT stores memberwise",
        "- **ROOT**: `GetEntry` of all branches, with compiled dictionaries for the objects; `LoadEntry` of an RNTuple",
        "",
        *machine_lines(repeats),
        "",
        table(head, rows),
        "",
        table(["MB on disk", "objects", "flat TTree", "flat RNTuple"], in_megabytes),
        "",
    ]
    return "\n".join(lines), found


def cells(reader: str, passes: list[FlattenedPass]) -> list[str]:
    """Return the CPU milliseconds of a reader for each form, and how much faster than the objects it reads columns."""
    by_form = {form: [one.cpu_seconds for one in passes if (one.reader, one.form) == (reader, form)] for form in FORMS}
    objects = by_form[UNFLATTENED]
    row = [spread(Spread.of(objects), 1e3, 1)]
    for form in FLAT:
        row.append(spread(Spread.of(by_form[form]), 1e3, 1))
        row.append(spread(Spread.of([a / b for a, b in zip(objects, by_form[form], strict=True)])))
    return row


def run(*arguments: str) -> None:
    """Run a function of this module in a separate process."""
    subprocess.run(
        [sys.executable, "-m", "benches.flattened", *arguments], cwd=REPOSITORY, capture_output=True, check=True
    )


def main(reader: str, *arguments: str) -> None:
    if reader == "write":
        cache, path, number, events = arguments
        _, kind, split = OBJECTS[int(number)]
        functions = compile_headers(Path(cache), "flattened", [HEADER]).flattened
        functions.Write(path, kind, split, int(events))
        return
    form, cache, path = arguments
    serve(1, lambda: prepared(reader, form, Path(cache), path))


if __name__ == "__main__":
    main(*sys.argv[1:])
