"""The wagons of the checks, as files that a user has in a folder: workers elsewhere must be sent both."""

from __future__ import annotations

from pathlib import Path

CUTS = """
LARGEST = 2.5
"""

PLAIN = """
import awkward as ak
import hist
import numpy as np
from own_cuts import LARGEST


class Spectra:
    name = "spectra"

    def process(self, events):
        pt = events.pt[events.pt < LARGEST]
        histogram = hist.Hist.new.Reg(40, 0, 4, name="pt").Weight()
        histogram.fill(ak.flatten(pt), weight=0.1)
        return {"pt": histogram, "events": len(events)}


class Momenta:
    name = "momenta"

    def process(self, events):
        return {"sum": 0.1 * float(np.sum(np.asarray(events.px))), "events": len(events)}
"""

TABLES = (
    PLAIN
    + """
import os
import signal
from pathlib import Path

import branchline


class Skim:
    name = "skim"

    def process(self, events):
        if int(events.run[0]) == 3 and events.metadata["entrystart"] > 0 and not os.path.exists("MARK"):
            Path("MARK").touch()
            if VICTIM:
                os.kill(VICTIM, signal.SIGKILL)
        good = events[events.px > 0]
        rows = {"px": good.px, "run": good.run, "pt": good.pt}
        objects = {"pt": ak.flatten(good.pt)}
        return {
            "tree": branchline.Table(rows, tree="Events"),
            "ntuple": branchline.Table(rows, format="rntuple"),
            "parquet": branchline.Table(objects, format="parquet"),
            "events": len(good),
        }
"""
)

FAILING = (
    PLAIN
    + """

class Fails:
    name = "fails"

    def process(self, events):
        if int(events.run[0]) == 3:
            raise ValueError("a mistake of the wagon")
        return len(events)
"""
)

CRASHING = (
    PLAIN
    + """
import ctypes


class Crashes:
    name = "crashes"

    def process(self, events):
        if int(events.run[0]) == 3:
            ctypes.string_at(0)
        return len(events)
"""
)

# Kills a process once, the first time that it sees a file: its own, or the one that started it.
KILLING = (
    PLAIN
    + """
import os
import signal
from pathlib import Path


class Kills:
    name = "kills"

    def process(self, events):
        mark = Path("MARK")
        if int(events.run[0]) == 3 and not mark.exists():
            mark.touch()
            os.kill(VICTIM, signal.SIGKILL)
        return len(events)
"""
)

# Two wagons that end their process together in one file, and not alone.
TOGETHER = (
    PLAIN
    + """
import os

# By the number of the process: what a wagon changes in the environment is restored.
LAST_RUN = {}


class Company:
    name = "company"

    def process(self, events):
        LAST_RUN[os.getpid()] = int(events.run[0])
        return len(events)


class Crashes:
    name = "crashes"

    def process(self, events):
        if int(events.run[0]) == 3 and LAST_RUN.pop(os.getpid(), None) == 3:
            os._exit(9)
        return len(events)
"""
)

# Wants more memory than any machine has: in one file once, or for every chunk that is not small.
HUNGRY = (
    PLAIN
    + """
from pathlib import Path


class Hungry:
    name = "hungry"

    def process(self, events):
        mark = Path("MARK")
        if int(events.run[0]) == 3 and (len(events) > LARGEST_CHUNK or not mark.exists()):
            mark.touch()
            np.ones(2**58)
        return len(events)
"""
)

# Waits for long in one file, the first time that it is seen.
STUCK = (
    PLAIN
    + """
import os
import time
from pathlib import Path


class Stuck:
    name = "stuck"

    def process(self, events):
        mark = Path("MARK")
        if int(events.run[0]) == 3 and not mark.exists():
            mark.write_text(str(os.getpid()))
            time.sleep(600)
        return len(events)
"""
)

SLOW = (
    PLAIN
    + """
import time
from pathlib import Path


class Slow:
    name = "slow"

    def process(self, events):
        Path("FOLDER", f"{int(events.run[0])}-{events.metadata['entrystart']}").touch()
        time.sleep(PAUSE_S)
        return len(events)
"""
)

#: Each chunk leaves a file with the path of what was read, and the machine of the worker.
ON_HOST = (
    PLAIN
    + """
import os
import time
import uuid
from pathlib import Path


class OnHost:
    name = "on_host"

    def process(self, events):
        Path("FOLDER", uuid.uuid4().hex).write_text(f"{events.metadata['filename']} {os.environ['HOST_OF_WORKER']}")
        time.sleep(PAUSE_S)
        return len(events)
"""
)


def write_wagons(folder: Path, text: str, **values: object) -> str:
    """Writes the file and its module next to it, and returns its path. ``values`` replace their names in it."""
    folder.mkdir(exist_ok=True)
    (folder / "own_cuts.py").write_text(CUTS)
    path = folder / "wagons.py"
    for name, value in values.items():
        text = text.replace(name, str(value))
    path.write_text(text)
    return str(path)
