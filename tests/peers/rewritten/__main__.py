"""Merge each file with itself in every way, and read the results: `python -m tests.peers.rewritten [FILE...]`.

By default, uses the files of the shared test data. `--ways fast,skim` and `--readers ours,uproot,root` select ways and
readers. Prints every merge that is refused, wrong, slow or large in memory, and a table of all outcomes at the end.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.peers.peers import import_root, shared_data
from tests.peers.rewritten.files import WAYS, check_file
from tests.peers.rewritten.root_reader import declare


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--readers", default="ours,uproot,root")
    arguments = parser.parse_args()
    root = import_root()
    if root:
        declare(root)
    shared = shared_data()
    files = arguments.files or sorted(str(path) for path in (shared / "root").iterdir()) if shared else arguments.files
    readers = set(arguments.readers.split(","))
    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for path in files:
            for way in arguments.ways.split(","):
                found = check_file(root if "root" in readers else None, path, way, Path(folder), readers)
                counts[way, found.outcome] += 1
                if found.outcome not in ("fine", "no tree") or found.resident_bytes > 900 << 20 or found.seconds > 30:
                    said = f"{found.seconds:.1f} s, {found.resident_bytes >> 20} MiB: {found.message}"
                    print(found.file, way, found.outcome, said, flush=True)
    for (way, outcome), count in sorted(counts.items()):
        print(way, outcome, count)
    return int(any(outcome not in ("fine", "refused", "no tree") for _, outcome in counts))


sys.exit(main())
