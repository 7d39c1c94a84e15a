"""Where a package of an extra is missing, the error names the extra to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WITHOUT = "import sys; sys.modules['{package}'] = None; "


def test_a_name_of_the_package_says_which_extra_it_needs() -> None:
    code = WITHOUT.format(package="cloudpickle") + "import branchline; branchline.run"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingPackageError" in done.stderr
    assert "pip install 'branchline[trains]'" in done.stderr


def test_a_command_says_which_extra_it_needs(tmp_path: Path) -> None:
    (tmp_path / "wagons.py").write_text("class One:\n    def process(self, events):\n        return 1\n")
    code = WITHOUT.format(package="matplotlib") + "from branchline.cli import main; main()"
    command = [sys.executable, "-c", code, "run", "wagons.py", "none.root", "-o", "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "matplotlib" in done.stderr
    assert "pip install 'branchline[reports]'" in done.stderr


def test_another_missing_module_stays_what_it_is() -> None:
    code = (
        "from branchline.extras import missing_packages_explained as explained\nwith explained():\n    import nowhere"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip().splitlines()[-1] == "ModuleNotFoundError: No module named 'nowhere'"
