"""The Python in the README runs as it stands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path


def test_the_lines_of_the_readme_run(repository: Path, collisions: Path, tmp_path: Path) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", (repository / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    shutil.copytree(collisions, tmp_path / "demo-data")
    (tmp_path / "lines.py").write_text(script)
    run = subprocess.run([sys.executable, "lines.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    assert "px" in run.stdout
    assert "Hist(Regular(50, 0, 5" in run.stdout or "$p_T$" in run.stdout
    assert (tmp_path / "out" / "report.html").exists()
