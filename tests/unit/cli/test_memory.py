"""Too little memory is reported as such, and not as an internal error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from branchline.cli.printing import errors_printed

WAGONS = """
import numpy as np
{at_load}

class Large:
    def process(self, events):
        return np.ones({count})
"""


def test_a_memory_error_of_the_command_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^1$"), errors_printed(debug=False):
        bytearray(2**62)
    printed = capsys.readouterr().err
    assert printed.startswith("branchline: error: not enough memory: MemoryError (raise the limit")


def test_a_library_that_does_not_fit_is_reported_as_memory(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^1$"), errors_printed(debug=False):
        raise ImportError("libarrow.so.2600: failed to map segment from shared object")
    assert "error: not enough memory: libarrow" in capsys.readouterr().err
    with pytest.raises(SystemExit, match=r"^1$"), errors_printed(debug=False):
        raise ImportError("no module named x")
    assert "internal error in Branchline" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("at_load", "count", "message"),
    [
        ("np.ones(10**15)", 1, "w.py cannot be loaded: MemoryError: Unable to allocate"),
        ("import sys; sys.exit(5)", 1, "w.py cannot be loaded: it calls sys.exit(5)"),
        ("", 10**15, "wagon Large stopped at"),
    ],
)
@pytest.mark.parametrize("command", ["run", "test"])
def test_wagons_without_memory_or_that_exit_are_named(
    tmp_path: Path, at_load: str, count: int, message: str, command: str
) -> None:
    import uproot

    with uproot.recreate(tmp_path / "f.root") as file:
        file.mktree("events", {"x": "float64"})
        file["events"].extend({"x": [1.0, 2.0]})
    (tmp_path / "w.py").write_text(WAGONS.format(at_load=at_load, count=count))
    out = ("-o", "out", "-j", "1") if command == "run" else ()
    ended = subprocess.run(
        [sys.executable, "-m", "branchline", command, "w.py", "f.root", *out],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode in ((3, 1) if at_load == "" else (1,))
    if at_load or command == "run":
        assert message in ended.stderr
    assert "MemoryError" in ended.stderr + ended.stdout or at_load.endswith("(5)")
    assert "internal error in Branchline" not in ended.stderr
    assert "report" not in ended.stderr
