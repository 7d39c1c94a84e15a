"""Ctrl-C ends a wait at once; a forked process neither hangs nor disturbs the one that it came from."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.unit.reading.trees.conftest import Sample, write_sample

# Both read once before they say so: Ctrl-C in the middle of an import is an error of the module that is imported.
WAITING = """
import sys, branchline
tree = branchline.open(sys.argv[1])["events"]
tree.arrays(entry_stop=1)
print("reading", flush=True)
while True:
    tree.arrays(workers=int(sys.argv[2]))
"""

ITERATING = """
import sys, branchline
next(branchline.iterate(sys.argv[1] + ":events", step_size=1))
print("reading", flush=True)
while True:
    for _ in branchline.iterate([sys.argv[1] + ":events"] * 100, workers=int(sys.argv[2])):
        pass
"""

FORKING = """
import os, sys, warnings, branchline
warnings.simplefilter("ignore")  # Python itself warns of forks while threads run
location = sys.argv[1]
tree = branchline.open(location)
wanted = tree["energy"].array().tolist()
stream = branchline.iterate([location] * 50, ["energy"], step_size=20)
first = next(stream)
children = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        same = tree["energy"].array().tolist() == wanted
        same = same and branchline.concatenate([location] * 3, ["energy"], workers=2).energy.tolist() == 3 * wanted
        os._exit(0 if same else 1)
    children.append(child)
rest = sum(len(part) for part in stream)
codes = [os.waitpid(child, 0)[1] for child in children]
print(codes, len(first) + rest)
"""


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that takes seconds to decompress."""
    path = tmp_path_factory.mktemp("slow") / "slow.root"
    random = np.random.default_rng(2)
    with uproot.recreate(path, compression=uproot.LZMA(1)) as file:
        tree = file.mktree("events", dict.fromkeys("ab", "float64"))
        part = {name: random.integers(0, 99, 100_000) / 7.0 for name in "ab"}
        for _ in range(6):
            tree.extend(part)
    return path


@pytest.mark.parametrize("program", [WAITING, ITERATING])
@pytest.mark.parametrize("workers", [1, 3])
def test_ctrl_c_ends_a_wait_at_once(slow: Path, program: str, workers: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(slow), str(workers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "reading\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    # The programs never end by themselves.
    _, stderr = process.communicate(timeout=280)
    assert stderr.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode in (-signal.SIGINT, 128 + signal.SIGINT, 1)


def test_a_forked_process_reads_too(tmp_path: Path) -> None:
    made: Sample = write_sample(tmp_path / "forked.root", uproot.ZLIB(1), (40, 60))
    environment = os.environ | {"PYTHONFAULTHANDLER": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", FORKING, made.location],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env=environment,
    )
    assert ended.stdout == "[0, 0, 0, 0, 0] 5000\n", ended.stderr
