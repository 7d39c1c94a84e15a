"""The Python in the README runs as it stands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import awkward as ak
import uproot


def test_the_lines_of_the_readme_run(repository: Path, collisions: Path, tmp_path: Path) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", (repository / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    shutil.copytree(collisions, tmp_path / "demo-data")
    (tmp_path / "lines.py").write_text(script)
    for _ in range(2):  # as the cell of a notebook is
        run = subprocess.run([sys.executable, "lines.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100)
        assert run.returncode == 0, run.stderr
    assert "px" in run.stdout
    with uproot.open(tmp_path / "out" / "results.root") as results:
        (histogram,) = [results[key] for key in results.keys(filter_classname="TH1*")]
    events = uproot.concatenate([f"{path}:events" for path in sorted(collisions.glob("*.root"))])
    charged = (events.status > 0) & (events.charge != 0)
    assert histogram.values(flow=True).sum() == ak.sum(charged)
    assert (tmp_path / "out" / "report.html").exists()
