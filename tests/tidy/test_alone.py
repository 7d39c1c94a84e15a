"""What is done about the few tests that fail beside others: each runs again, and one that passes then is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

UNSTEADY = """
from pathlib import Path


def test_unsteady():
    mark = Path(__file__).with_suffix(".ran")
    ran, _ = mark.exists(), mark.touch()
    assert ran
"""
WRONG = "def test_wrong():\n    assert False\n"


def run(repository: Path, folder: Path, files: dict[str, str]) -> tuple[int, str]:
    """The exit code and the output of tests in these files, and of what runs them again."""
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    pytest = [sys.executable, "-m", "pytest", "-q", "-o", "cache_dir=cache"]
    code = subprocess.run(pytest, cwd=folder, capture_output=True, check=False).returncode
    again = [sys.executable, str(repository / "tests" / "alone.py"), str(code), "cache"]
    done = subprocess.run(again, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_one_that_passes_alone_is_named_and_stops_nothing(repository: Path, tmp_path: Path) -> None:
    code, said = run(repository, tmp_path, {"test_a.py": UNSTEADY})
    assert code == 0
    assert "UNSTEADY test_a.py::test_unsteady: failed beside others" in said


def test_one_that_fails_alone_too_is_a_failure(repository: Path, tmp_path: Path) -> None:
    code, said = run(repository, tmp_path, {"test_a.py": UNSTEADY, "test_b.py": WRONG})
    assert code == 1
    assert "FAILED test_b.py::test_wrong: also alone" in said


def test_many_failures_are_not_tried_again(repository: Path, tmp_path: Path) -> None:
    code, said = run(repository, tmp_path, {f"test_{letter}.py": WRONG for letter in "abcdef"})
    assert (code, said) == (1, "")


def test_what_kept_pytest_from_running_is_not_tried_again(repository: Path, tmp_path: Path) -> None:
    code, said = run(repository, tmp_path, {"test_a.py": "import no_such_module_at_all\n"})
    assert (code, said) == (2, "")
