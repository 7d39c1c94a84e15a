"""Only `branchline.base.texts` writes to the terminal and to logs, because it escapes names that others have chosen."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import REPOSITORY

PACKAGE = REPOSITORY / "python" / "branchline"
#: Modules that write something else: answers to the parent process through a pipe, a message of a signal handler, or
#: output of the user's code.
OTHERS = {
    "lab/advice/timed_read.py",
    "lab/sampling/job_process.py",
    "control/trains/owner_process.py",
    "cli/printing.py",
    "jobs/workers/worker_process.py",
}
STREAMS = {"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
DESCRIPTORS = {"1", "2", "STDERR", "_STANDARD_ERROR"}


def printing(source: str) -> Iterator[int]:
    """Yield the lines that write to the terminal."""
    # Parse only files that contain one of these words, because parsing all sources takes seconds.
    if not any(word in source for word in ("print(", ".write", "writelines")):
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        is_stream = any(called in (f"{one}.write", f"{one}.writelines") for one in STREAMS)
        is_descriptor = called == "os.write" and bool(node.args) and ast.unparse(node.args[0]) in DESCRIPTORS
        if called == "print" or is_stream or is_descriptor:
            yield node.lineno


def test_one_module_writes_to_the_terminal(python_sources: list[Path]) -> None:
    wrong = [
        f"{path.relative_to(REPOSITORY)}:{line}"
        for path in python_sources
        if path.is_relative_to(PACKAGE) and path.relative_to(PACKAGE).as_posix() not in OTHERS
        for line in printing(path.read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n".join(["print with branchline.base.texts:", *wrong])


def test_each_way_to_print_is_found() -> None:
    for source in ("print(1)", "import sys\nsys.stderr.write('x')", "import os\nos.write(2, b'x')"):
        assert list(printing(source))
