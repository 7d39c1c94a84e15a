"""Installs the source distribution into a fresh environment by compiling it, writes a file and reads it.

python tests/wheel/try_sdist.py SDIST
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

WRITE_AND_READ = """
import branchline
with branchline.recreate("few.root") as file:
    file["events"] = {"x": [1.0, 2.0, 3.0]}
assert branchline.open("few.root")["events"].arrays(["x"]).x.tolist() == [1.0, 2.0, 3.0]
print("Branchline", branchline.__version__, "wrote and read a file")
"""


def main() -> None:
    sdist = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="branchline-sdist-") as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "venv", str(folder / "environment")], check=True)
        python = folder / "environment" / "bin" / "python"
        variables = {
            key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        }
        # Everything else comes as wheels: only ours is compiled, with the build system that pip isolates.
        install = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--only-binary",
            ":all:",
            "--no-binary",
            "branchline",
        ]
        subprocess.run([*install, str(sdist)], check=True, env=variables)
        subprocess.run([str(python), "-c", WRITE_AND_READ], check=True, env=variables, cwd=folder)


if __name__ == "__main__":
    main()
