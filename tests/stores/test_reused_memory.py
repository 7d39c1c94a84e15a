"""Answers come into the memory of those before them: new pages cost as much as the bytes that come into them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.stores.conftest import Served

ANSWER_BYTES = 8 * 2**20
ANSWERS = 4
PAGES = ANSWERS * ANSWER_BYTES // 4096

READ = f"""
import json, resource, sys
from branchline._core import Store

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

store = Store(sys.argv[1])
taken = []
for _ in range(4):
    before = faults()
    answers = store.read([(0, {ANSWER_BYTES})] * {ANSWERS}).contents
    assert all(bytes(one[-3:]) == b"end" for one in answers)
    del answers
    taken.append(faults() - before)
print(json.dumps(taken))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts page faults as Linux does")
@pytest.mark.parametrize("place", ["local", "http", "root"])
def test_four_answers_of_the_largest_size_take_no_new_pages(place: str, served: Served) -> None:
    file = served.data / f"large-{place}.bin"
    file.write_bytes(bytes(ANSWER_BYTES - 3) + b"end")
    urls = {
        "local": str(file),
        "http": f"http://127.0.0.1:{served.nginx.port}/{file.name}",
        "root": f"root://127.0.0.1:{served.xrootd.port}//{file.name}",
    }
    try:
        done = subprocess.run([sys.executable, "-c", READ, urls[place]], capture_output=True, text=True, timeout=280)
    finally:
        file.unlink()
    assert done.returncode == 0, done.stderr
    first, *later = json.loads(done.stdout)
    assert first > PAGES
    # Stacks of threads and the like, of which the first answers need most.
    assert max(later) < PAGES // 8
