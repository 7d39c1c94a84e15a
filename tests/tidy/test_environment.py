"""Environment variables and exit codes are each defined in a single place."""

from __future__ import annotations

import re
from pathlib import Path

from branchline import _core
from branchline.base import exit_codes
from branchline.base.environment import VARIABLES
from branchline.reading.access import WAITS

PYTHON_HOME = "python/branchline/base/environment.py"
RUST_HOME = "crates/trace/src/environment.rs"
NAME = re.compile(r"""["']BRANCHLINE_[A-Z_]+["']""")


def test_names_of_variables_are_written_in_one_file_of_each_language(repository: Path) -> None:
    sources = [*(repository / "python").rglob("*.py"), *(repository / "crates").glob("*/src/**/*.rs")]
    found = {
        path.relative_to(repository).as_posix() for path in sources if NAME.search(path.read_text(encoding="utf-8"))
    }
    assert found == {PYTHON_HOME, RUST_HOME}


def test_the_table_has_all_variables_of_both_languages(repository: Path) -> None:
    names = [one.name for one in VARIABLES]
    assert len(set(names)) == len(names)
    assert set(_core.environment_names()) <= set(names)
    written = NAME.findall((repository / RUST_HOME).read_text(encoding="utf-8"))
    assert sorted(one[1:-1] for one in written) == sorted(_core.environment_names())
    written = NAME.findall((repository / PYTHON_HOME).read_text(encoding="utf-8"))
    assert sorted(one[1:-1] for one in written) == sorted(names)


def test_the_page_of_settings_includes_the_table(repository: Path) -> None:
    page = (repository / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    assert ":::{include} generated/environment.txt\n:::" in page


def test_defaults_of_the_table_are_those_of_the_engine() -> None:
    defaults = {one.name: one.default for one in VARIABLES}
    for setting in WAITS.values():
        assert float(defaults[setting.variable]) == setting.default


def test_each_exit_code_has_a_meaning() -> None:
    codes = {value for name, value in vars(exit_codes).items() if name.startswith("EXIT_")}
    assert codes == set(exit_codes.MEANINGS)
