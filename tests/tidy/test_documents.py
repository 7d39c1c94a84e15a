"""The documents are true: their links lead somewhere, their rooms exist, their commands are commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
DOCUMENTS += [f"docs/{name}.md" for name in ("storages", "layout", "traces", "reads-of-esd")]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_to_files(repository: Path, name: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (repository / name).read_text(encoding="utf-8")):
        assert "://" in target or (repository / name).parent.joinpath(target).exists(), target


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_are_targets_of_the_makefile(repository: Path, name: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (repository / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for target in re.findall(
        r"(?:^    |`)make ([a-z-]+)", (repository / name).read_text(encoding="utf-8"), re.MULTILINE
    ):
        assert target in targets, target


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
    assert f"Rust {needed} or later" in (repository / "README.md").read_text(encoding="utf-8")
