"""The documents are true: their links lead somewhere, their rooms exist, their commands are commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from branchline.cli.command_list import SECTIONS

TOP = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
#: Written by `make docs`, whose strict build checks the links to them.
GENERATED = "generated/"


@pytest.fixture(scope="module")
def documents(repository: Path) -> list[Path]:
    pages = [page for page in (repository / "docs").rglob("*.md") if not {"generated", "_build"} & set(page.parts)]
    return [*(repository / name for name in TOP), *sorted(pages)]


def test_links_lead_to_files(documents: list[Path]) -> None:
    for document in documents:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8")):
            there = "://" in target or GENERATED in target or (document.parent / target).exists()
            assert there, f"{document} links to {target}, which is not there"


def test_commands_are_targets_of_the_makefile(documents: list[Path], repository: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (repository / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for document in documents:
        text = document.read_text(encoding="utf-8")
        for target in re.findall(r"(?:^    |^|`)make ([a-z-]+)(?=[ `\n])", text, re.MULTILINE):
            assert target in targets or target in ("the", "of"), f"{document}: there is no make {target}"


def test_commands_are_those_of_the_command_line(documents: list[Path]) -> None:
    known = {name.split()[0] for section in SECTIONS.values() for name in section}
    # A page there makes a command of its own.
    for document in (one for one in documents if "extending" not in one.parts):
        text = document.read_text(encoding="utf-8")
        for words in re.findall(r"(?:^|`)branchline ([a-z][a-z-]*(?: \| [a-z][a-z-]*)*)(?=[ `\n])", text, re.MULTILINE):
            unknown = set(words.split(" | ")) - known
            assert not unknown, f"{document}: there is no command {unknown}"


def test_the_architecture_names_every_room(repository: Path) -> None:
    text = (repository / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rooms = [f"{path.parent.name}/" for path in (repository / "python" / "branchline").glob("*/__init__.py")]
    crates = [f"crates/{path.parent.name}" for path in (repository / "crates").glob("*/Cargo.toml")]
    for room in rooms + crates:
        assert f"`{room}`" in text, f"ARCHITECTURE.md does not say what {room} is for"


def test_the_readme_names_the_rust_that_is_needed(repository: Path) -> None:
    (needed,) = re.findall(
        r'^rust-version = "(.*)"', (repository / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE
    )
    for name in ("README.md", "docs/index.md"):
        text = " ".join((repository / name).read_text(encoding="utf-8").split())
        assert f"Rust {needed} or later" in text


def test_the_settings_page_has_every_variable(repository: Path) -> None:
    """Every environment variable of ours that the code reads is described."""
    sources = [*(repository / "crates").glob("*/src/**/*.rs"), *(repository / "python").rglob("*.py")]
    # The folder of the test data is for the tests inside the sources.
    named = {name for path in sources for name in re.findall(r'"(BRANCHLINE_[A-Z_]+)"', path.read_text("utf-8"))}
    page = (repository / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    missing = sorted(name for name in named - {"BRANCHLINE_SHARED"} if f"`{name}`" not in page)
    assert not missing, f"docs/reference/settings.md does not describe {missing}"
