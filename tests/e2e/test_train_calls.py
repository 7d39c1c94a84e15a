"""Every read of a train is in its records, as the kernel counts them: also those of looking, learning, and cutting."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.page_cache import in_page_cache
from tests.patience import HANG_S
from tests.peers.peers import missing
from tests.sampled import long_but

ENTRIES = 250_000
PROGRAM = """
import json, sys
import numpy as np
import branchline
from branchline.trains.subjobs import shares

class Sums:
    {named}
    def process(self, events):
        return float(np.sum(np.asarray(events.px)))

shares.SUBJOB_MIN_BYTES, shares.PARTS_OF_MIN = {subjob_bytes}, 1
result = branchline.run([Sums()], sys.argv[1], workers=1, step_size={step})
totals = result.job["totals"]
print(json.dumps([result.outputs["Sums"], result.job["subjobs"], totals["read_calls"], totals["bytes_read"]]))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 20 MB, which is not read whole in one request."""
    path = tmp_path_factory.mktemp("large") / "large.root"
    random = np.random.default_rng(3)
    names = [*(f"b{index}" for index in range(9)), "px"]
    with uproot.recreate(path, compression=None) as file:
        events = file.mktree("events", dict.fromkeys(names, "f8"))
        for _ in range(5):
            events.extend({name: random.normal(size=ENTRIES // 5) for name in names})
    return path


@pytest.mark.parametrize("named", ["branches = ['px']", "pass"])
@pytest.mark.parametrize("subjobs", long_but([1, 5], [5]))
def test_every_read_of_the_file_is_counted(large: Path, tmp_path: Path, named: str, subjobs: int) -> None:
    strace = shutil.which("strace") or missing("strace")
    # By default a part has more of the branches that are read than the file has.
    step = ENTRIES // subjobs
    program = PROGRAM.format(named=named, subjob_bytes=large.stat().st_size // subjobs + 1, step=step)
    calls = "trace=read,pread64,readv,preadv,preadv2"
    line = [strace, "-ff", "-y", "-e", calls, "-o", tmp_path / "trace", sys.executable, "-c", program, large]
    with in_page_cache(large):
        ended = subprocess.run(line, capture_output=True, text=True, timeout=HANG_S, check=False)
    if ended.returncode != 0 and "ptrace" in ended.stderr.lower():
        pytest.skip("this machine does not let programs be traced")
    assert ended.returncode == 0, ended.stderr
    total, subjobs_run, read_calls, bytes_read = json.loads(ended.stdout)
    assert subjobs_run == subjobs
    assert total == pytest.approx(float(np.sum(uproot.open(large)["events/px"].array(library="np"))))
    # One file for each thread, so that no line is cut in two by another thread's.
    lines = [line for part in tmp_path.glob("trace.*") for line in part.read_text().splitlines()]
    sizes = [re.search(r"= (\d+)$", line) for line in lines if str(large) in line]
    assert read_calls == len(sizes)
    assert bytes_read == sum(int(size[1]) for size in sizes if size)
