"""Fixtures for checks of the source files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def sources(repository: Path) -> list[Path]:
    """Return all files of the repository: tracked files, and new files that Git does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [repository / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


@pytest.fixture(scope="session")
def python_sources(sources: list[Path]) -> list[Path]:
    return [path for path in sources if path.suffix == ".py"]


@pytest.fixture(scope="session")
def rust_sources(sources: list[Path]) -> list[Path]:
    return [path for path in sources if path.suffix == ".rs"]
