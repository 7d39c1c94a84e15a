"""What is done about the few tests that fail beside others: each runs again, and one that passes then is named. It
fails the run, unless the register has it with a reason.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from tests.alone import registered

UNSTEADY = """
from pathlib import Path


def test_unsteady():
    mark = Path(__file__).with_suffix(".ran")
    ran, _ = mark.exists(), mark.touch()
    assert ran
"""
WRONG = "def test_wrong():\n    assert False\n"


def run(repository: Path, folder: Path, files: dict[str, str], register: str = "") -> tuple[int, str]:
    """The exit code and the output of tests in these files, and of what runs them again."""
    (folder / "unsteady.toml").write_text(register)
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    pytest = [sys.executable, "-m", "pytest", "-q", "-o", "cache_dir=cache"]
    code = subprocess.run(pytest, cwd=folder, capture_output=True, check=False).returncode
    again = [sys.executable, str(repository / "tests" / "alone.py"), str(code), "cache", "unsteady.toml"]
    done = subprocess.run(again, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_one_that_passes_alone_fails_the_run_and_says_what_to_do(repository: Path, tmp_path: Path) -> None:
    code, said = run(repository, tmp_path, {"test_a.py": UNSTEADY})
    assert code == 1
    assert "UNSTEADY test_a.py::test_unsteady: failed beside others, passes alone" in said
    assert "or name it in unsteady.toml with the reason" in said


def test_one_of_the_register_is_printed_with_its_reason_and_stops_nothing(repository: Path, tmp_path: Path) -> None:
    """Its name without parameters stands for all of them."""
    text = UNSTEADY.replace("test_unsteady()", "test_unsteady(one)")
    text = f"import pytest\n{text}".replace("def test_", "@pytest.mark.parametrize('one', ['[1]'])\ndef test_")
    code, said = run(repository, tmp_path, {"test_a.py": text}, '"test_a.py::test_unsteady" = "it is slow"\n')
    assert (code, "passes alone; it is known to: it is slow" in said) == (0, True)


def test_one_of_the_register_does_not_cover_another(repository: Path, tmp_path: Path) -> None:
    register = '"test_a.py::test_unsteady" = "it needs its own mark"\n'
    code, said = run(repository, tmp_path, {"test_a.py": UNSTEADY, "test_b.py": UNSTEADY}, register)
    assert code == 1
    assert "UNSTEADY test_b.py::test_unsteady: failed beside others, passes alone; see above why" in said


@pytest.mark.parametrize("register", ['"test_a.py::test_unsteady" = " "', "[test_a]", "no TOML"])
def test_a_register_without_reasons_is_refused(tmp_path: Path, register: str) -> None:
    (tmp_path / "unsteady.toml").write_text(register)
    with pytest.raises(ValueError, match=r"has no reason|Expected|Invalid"):
        registered(tmp_path / "unsteady.toml")


def test_every_test_of_the_register_is_there(repository: Path) -> None:
    for name in registered(repository / "tests" / "unsteady.toml"):
        path, _, test = name.partition("::")
        functions = {
            one.name
            for one in ast.walk(ast.parse((repository / path).read_text(encoding="utf-8")))
            if isinstance(one, ast.FunctionDef)
        }
        assert test.rpartition("::")[2].partition("[")[0] in functions, f"{name} is gone: take it out of the register"


def test_one_that_fails_alone_too_is_a_failure(repository: Path, tmp_path: Path) -> None:
    register = '"test_a.py::test_unsteady" = "it is slow"\n"test_b.py::test_wrong" = "it is wrong"\n'
    code, said = run(repository, tmp_path, {"test_a.py": UNSTEADY, "test_b.py": WRONG}, register)
    assert code == 1
    assert "FAILED test_b.py::test_wrong: also alone" in said


def test_many_failures_are_not_tried_again(repository: Path, tmp_path: Path) -> None:
    code, said = run(repository, tmp_path, {f"test_{letter}.py": WRONG for letter in "abcdef"})
    assert (code, said) == (1, "")


def test_what_kept_pytest_from_running_is_not_tried_again(repository: Path, tmp_path: Path) -> None:
    code, said = run(repository, tmp_path, {"test_a.py": "import no_such_module_at_all\n"})
    assert (code, said) == (2, "")
