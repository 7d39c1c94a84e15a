"""What is done about the few tests that fail beside others: each runs again, one that passes then is named, and a few
of them do not stop the run.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.alone import ALONE_RUNS

UNSTEADY = """
from pathlib import Path


def test_unsteady():
    mark = Path(__file__).with_suffix(".ran")
    ran, _ = mark.exists(), mark.touch()
    assert ran
"""
# It passes once only, when it runs for the second time.
WRONG_AT_LAST = """
from pathlib import Path


def test_wrong_at_last():
    mark = Path(__file__).with_suffix(".ran")
    runs = len(mark.read_bytes()) if mark.exists() else 0
    mark.write_bytes(bytes(runs + 1))
    assert runs == 1
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


def test_a_few_that_pass_alone_are_named_and_do_not_stop_the_run(repository: Path, tmp_path: Path) -> None:
    code, said = run(repository, tmp_path, {"test_a.py": UNSTEADY, "test_b.py": UNSTEADY})
    assert code == 0
    assert said.count("1 passed") == 2 * ALONE_RUNS
    for name in ("a", "b"):
        assert f"UNSTEADY test_{name}.py::test_unsteady: failed beside others, passes alone" in said


def test_more_of_them_fail_the_run(repository: Path, tmp_path: Path) -> None:
    code, said = run(repository, tmp_path, {f"test_{letter}.py": UNSTEADY for letter in "abc"})
    assert code == 1
    assert "3 unsteady tests in one run are too many" in said


def test_one_that_fails_alone_too_fails_the_run(repository: Path, tmp_path: Path) -> None:
    code, said = run(repository, tmp_path, {"test_a.py": UNSTEADY, "test_b.py": WRONG})
    assert code == 1
    assert "UNSTEADY test_a.py::test_unsteady" in said
    assert "FAILED test_b.py::test_wrong: also alone" in said


def test_one_that_passes_alone_only_sometimes_fails_the_run(repository: Path, tmp_path: Path) -> None:
    code, said = run(repository, tmp_path, {"test_a.py": WRONG_AT_LAST})
    assert code == 1
    assert "FAILED test_a.py::test_wrong_at_last: also alone" in said


def test_many_failures_are_not_tried_again(repository: Path, tmp_path: Path) -> None:
    code, said = run(repository, tmp_path, {f"test_{letter}.py": WRONG for letter in "abcdef"})
    assert (code, said) == (1, "")


def test_what_kept_pytest_from_running_is_not_tried_again(repository: Path, tmp_path: Path) -> None:
    code, said = run(repository, tmp_path, {"test_a.py": "import no_such_module_at_all\n"})
    assert (code, said) == (2, "")
