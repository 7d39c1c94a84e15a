"""What a train takes in memory does not grow with the tables that its wagons write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import uproot
from tests.clusters.event_files import write_events

pytestmark = pytest.mark.slow

FILES, EVENTS_PER_FILE, STEP = 8, 800, 25
CHUNKS = FILES * EVENTS_PER_FILE // STEP
# Doubles without pattern, which do not compress: 2 MB for each chunk.
ROWS_PER_CHUNK = 250_000
MB = 10**6
WAGONS = f"""
import numpy as np

import branchline


class Noise:
    branches = ["run"]

    def __init__(self, chunks):
        self.chunks = chunks

    def process(self, events):
        number = (int(events.run[0]) * {EVENTS_PER_FILE} + int(events.metadata["entrystart"])) // {STEP}
        rows = {ROWS_PER_CHUNK} if number % ({CHUNKS} // self.chunks) == 0 else 0
        return branchline.Table({{"noise": np.random.default_rng(number).random(rows)}}, tree="noise")
"""
# The size of a process counts from its start, and a table once had all of its rows in it.
SCRIPT = """
import json, resource, sys
import branchline
import branchline.trains.subjobs.shares
import noise_wagon

# Each file is a sub-job, and each writes a piece.
branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES = 1
out, data, chunks = sys.argv[1], sys.argv[2], int(sys.argv[3])
result = branchline.run([noise_wagon.Noise(chunks)], data, out, workers=2, step_size=25, pictures="none")
assert result.errors == [], result.errors
[table] = result.record.tables
peaks = [resource.getrusage(who).ru_maxrss * 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({"job": peaks[0], "worker": peaks[1], "bytes": table.size_bytes, "rows": table.rows,
                  "pieces": table.pieces, "copied": table.merge_bytes, "path": result.outputs["Noise"].path}))
"""


def run(folder: Path, chunks: int) -> dict[str, int]:
    words = [sys.executable, "-c", SCRIPT, str(folder / f"out-{chunks}"), str(folder / "data"), str(chunks)]
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    made: dict[str, int] = json.loads(ended.stdout.splitlines()[-1])
    return made


@pytest.mark.long
def test_half_a_gigabyte_of_rows_takes_the_memory_of_a_few(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "noise_wagon.py").write_text(WAGONS)
    write_events(tmp_path / "data", FILES, EVENTS_PER_FILE)
    few, many = run(tmp_path, 8), run(tmp_path, CHUNKS)
    assert many["pieces"] == FILES
    assert many["rows"] == CHUNKS * ROWS_PER_CHUNK
    assert many["bytes"] > 450 * MB
    # Each byte is written twice in all: to a piece, and to the file.
    assert many["copied"] < 1.01 * many["bytes"]
    assert uproot.open(str(many["path"]))["noise"].num_entries == many["rows"]
    assert many["job"] - few["job"] < 20 * MB
    # A cluster that is being filled, and what a merge holds of its inputs.
    assert many["worker"] - few["worker"] < 150 * MB
