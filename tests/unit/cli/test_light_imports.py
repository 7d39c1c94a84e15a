"""What takes long to import is imported by the commands that use it, and by no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import uproot

HEAVY = ("awkward", "hist", "matplotlib", "numpy", "pandas", "pyarrow", "uproot")


def loaded_by(folder: Path, *words: str) -> set[str]:
    """The packages that a command has loaded at its end."""
    code = "import atexit, sys; atexit.register(lambda: print(*sys.modules)); from branchline.cli import main; main()"
    run = [sys.executable, "-c", code, *words]
    done = subprocess.run(run, capture_output=True, text=True, cwd=folder, check=False)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "branchline" in loaded
    return loaded


def test_merging_imports_nothing_that_takes_longer_than_it() -> None:
    code = "import sys, branchline.cli.commands.merge; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded.intersection(HEAVY)
    assert "branchline" in loaded


def test_commands_without_tables_import_nothing_that_draws_them(tmp_path: Path) -> None:
    for words in (["version"], ["verify", "none.root", "none.root"], ["merge", "none.root", "-o", "out.root"]):
        assert not loaded_by(tmp_path, *words).intersection({*HEAVY, "rich"}), words


def test_verifying_a_true_copy_imports_nothing_that_reads_values(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "in.root") as file:
        file["events"] = {"x": np.arange(10.0)}
    loaded_by(tmp_path, "merge", "in.root", "-o", "out.root")
    assert (tmp_path / "out.root").is_file()
    assert not loaded_by(tmp_path, "verify", "out.root", "in.root").intersection({*HEAVY, "rich"})


def test_help_and_completion_import_nothing_that_commands_work_with(tmp_path: Path) -> None:
    for words in (["--help"], ["trace", "--help"], ["run", "-h"], ["completion", "bash"]):
        assert not loaded_by(tmp_path, *words).intersection({*HEAVY, "rich"}), words


def test_a_control_room_imports_at_its_start_neither_what_reads_events_nor_a_client_of_logins() -> None:
    code = "import sys, branchline.control.web.server; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "starlette" in loaded
    assert not loaded.intersection({"awkward", "httpx", "joserfc", "matplotlib", "pandas", "pyarrow"})


def test_a_control_room_without_jobs_imports_no_statistics(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from branchline.control.room import ControlRoom; "
        "room = ControlRoom(Path(sys.argv[1])); "
        "[room.findings.look(period) for period in ('day', 'week', 'month')]; room.close(); print(*sys.modules)"
    )
    run = [sys.executable, "-c", code, str(tmp_path / "room")]
    done = subprocess.run(run, check=True, capture_output=True, text=True)
    loaded = done.stdout.split()
    assert "branchline.control.findings.speed" in loaded
    assert not {"scipy.stats", "scipy.special"}.intersection(loaded)


def test_names_of_the_package_are_there_when_they_are_asked_for() -> None:
    import branchline

    for name in branchline.__all__:
        assert getattr(branchline, name) is not None
        assert name in dir(branchline)
