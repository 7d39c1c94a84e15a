"""Where a package of an extra is missing, the error names the extra to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.unit.trains.wagons.conftest import write_file

WITHOUT = "import sys; sys.modules['{package}'] = None; "


def test_a_name_of_the_package_says_which_extra_it_needs() -> None:
    code = WITHOUT.format(package="cloudpickle") + "import branchline; branchline.run"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingPackageError" in done.stderr
    assert "pip install 'branchline[trains]'" in done.stderr


def test_a_command_says_which_extra_it_needs(tmp_path: Path) -> None:
    (tmp_path / "wagons.py").write_text("class One:\n    def process(self, events):\n        return 1\n")
    code = WITHOUT.format(package="psutil") + "from branchline.cli import main; main()"
    command = [sys.executable, "-c", code, "run", "wagons.py", "none.root", "-o", "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "psutil" in done.stderr
    assert "pip install 'branchline[trains]'" in done.stderr


WAGONS = """
import awkward as ak
import hist

class One:
    def process(self, events):
        histogram = hist.Hist.new.Reg(10, -3, 3).Double().fill(events.px)
        plane = hist.Hist.new.Reg(10, -3, 3).Reg(10, -3, 3).Double().fill(events.px, events.px)
        return {"px": histogram, "plane": plane, "events": len(events), "first": ak.Array([{"x": 1.0}])}
"""


def test_a_train_without_the_extra_reports_runs_and_says_what_it_left_out(tmp_path: Path) -> None:
    write_file(tmp_path / "data.root", 1)
    (tmp_path / "wagons.py").write_text(WAGONS)
    hidden = "".join(WITHOUT.format(package=one) for one in ("matplotlib", "mplhep", "jinja2", "markupsafe", "pyarrow"))
    code = hidden + "from branchline.cli import main; main()"
    command = [sys.executable, "-c", code, "run", "wagons.py", "data.root", "-o", "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for what in ("pictures of some histograms are left out", "sensors.parquet is left out", "report.html is left out"):
        assert what in done.stdout
    assert "pip install 'branchline[reports]'" in done.stdout
    names = sorted(str(one.relative_to(tmp_path / "out")) for one in (tmp_path / "out").rglob("*") if one.is_file())
    results = [f"results/One/{one}" for one in ("first.json", "first.npz", "plane.json", "px.json")]
    # One axis is drawn without matplotlib.
    others = ["job.json", "ledger.sqlite", "pictures/One/px.svg", "results.root", "results/One.json"]
    assert names == [*others, *results]
    assert "report.html" not in done.stdout.splitlines()[-1]


def test_another_missing_module_stays_what_it_is() -> None:
    code = "from branchline.base.imports import missing_packages_explained as e\nwith e():\n    import nowhere"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip().splitlines()[-1] == "ModuleNotFoundError: No module named 'nowhere'"


OPTIONAL = ("boost_histogram", "cloudpickle", "hist", "matplotlib", "pandas", "psutil", "pyarrow", "uproot")
WRITE_AND_READ = """
import branchline
with branchline.recreate("few.root") as file:
    file["events"] = {"x": [1.0, 2.0]}
    file["text"] = "a text"
assert branchline.open("few.root")["events"]["x"].array().to_list() == [1.0, 2.0]
"""


def test_trees_are_written_and_read_without_any_extra(tmp_path: Path) -> None:
    code = "".join(WITHOUT.format(package=one) for one in OPTIONAL) + WRITE_AND_READ
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
