"""The package as a module: what people write about it works, also where it travels to other processes."""

from __future__ import annotations

import subprocess
import sys

# A class of a notebook travels by its content, with the modules that it uses.
_NOTEBOOK = """
import pickle, sys
import branchline, cloudpickle

class Wagon:
    def process(self, events):
        return branchline.Table("rows", {})

made = pickle.loads(cloudpickle.dumps(Wagon()))
assert made.process.__globals__["branchline"] is sys.modules["branchline"]
"""


def test_a_wagon_of_a_notebook_that_uses_the_package_can_travel() -> None:
    ended = subprocess.run([sys.executable, "-c", _NOTEBOOK], capture_output=True, text=True, check=False, timeout=280)
    assert ended.returncode == 0, ended.stderr
