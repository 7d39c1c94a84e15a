"""Objects that several threads open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import hist
from tests.patience import HANG_S

import branchline

OPENS_FIRST = """
import sys, threading
from branchline.reading.trees.file import File

importing, release, kinds = threading.Event(), threading.Event(), []

def pause(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "register" and "objects" in frame.f_code.co_filename:
        sys.setprofile(None)
        importing.set()
        release.wait(60)

def read(file):
    kinds.append(type(file["h"]).__name__)

def read_with_pause(file):
    sys.setprofile(pause)
    read(file)

threads = [threading.Thread(target=one, args=(File(sys.argv[1]),)) for one in (read_with_pause, read)]
threads[0].start()
assert importing.wait(60)
threads[1].start()
threads[1].join(0.5)
release.set()
for one in threads:
    one.join()
print(kinds)
"""


def test_an_object_is_whole_while_another_thread_imports_what_it_needs(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "h.root") as file:
        file["h"] = hist.Hist.new.Reg(10, 0, 1).Double()
    line = [sys.executable, "-c", OPENS_FIRST, tmp_path / "h.root"]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=HANG_S)
    assert done.stdout == "['Histogram', 'Histogram']\n"
