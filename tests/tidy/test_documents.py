"""Links, files, commands and Python names in the documents exist."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest

from branchline.cli.command_list import SECTIONS

TOP = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
#: Folder of pages that `make docs` generates. Its strict build checks the links to these pages.
GENERATED = "generated/"


@pytest.fixture(scope="module")
def documents(repository: Path) -> list[Path]:
    pages = [page for page in (repository / "docs").rglob("*.md") if not {"generated", "_build"} & set(page.parts)]
    return [*(repository / name for name in TOP), *sorted(pages)]


def test_links_lead_to_files(documents: list[Path]) -> None:
    for document in documents:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8")):
            there = "://" in target or GENERATED in target or (document.parent / target).exists()
            assert there, f"{document} links to {target}, which does not exist"


def test_commands_are_targets_of_the_makefile(documents: list[Path], repository: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (repository / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for document in documents:
        text = document.read_text(encoding="utf-8")
        for target in re.findall(r"(?:^    |^|`)make ([a-z-]+)(?=[ `\n])", text, re.MULTILINE):
            assert target in targets or target in ("the", "of"), f"{document}: unknown make target {target}"


def test_commands_are_those_of_the_command_line(documents: list[Path]) -> None:
    known = {name.split()[0] for section in SECTIONS.values() for name in section}
    # The pages under docs/extending add a new command.
    for document in (one for one in documents if "extending" not in one.parts):
        text = document.read_text(encoding="utf-8")
        for words in re.findall(r"(?:^|`)branchline ([a-z][a-z-]*(?: \| [a-z][a-z-]*)*)(?=[ `\n])", text, re.MULTILINE):
            unknown = set(words.split(" | ")) - known
            assert not unknown, f"{document}: unknown command {unknown}"


def test_the_architecture_names_every_package_and_crate(repository: Path) -> None:
    text = (repository / "ARCHITECTURE.md").read_text(encoding="utf-8")
    packages = [f"{path.parent.name}/" for path in (repository / "python" / "branchline").glob("*/__init__.py")]
    crates = [f"crates/{path.parent.name}" for path in (repository / "crates").glob("*/Cargo.toml")]
    for name in packages + crates:
        assert f"`{name}`" in text, f"ARCHITECTURE.md does not say what {name} is for"


def test_every_package_and_crate_has_a_page(repository: Path) -> None:
    packages = [path.parent.name for path in (repository / "python" / "branchline").glob("*/__init__.py")]
    crates = [path.parent.name for path in (repository / "crates").glob("*/Cargo.toml")]
    pages = {path.stem for path in (repository / "docs" / "explanation" / "packages").glob("*.md")}
    assert pages == {"index", *packages, *crates}


def test_breakpoints_of_the_architecture_exist(repository: Path) -> None:
    """`make docs` also checks with a trace that the Python functions are called in the order of the table."""
    text = (repository / "ARCHITECTURE.md").read_text(encoding="utf-8")
    steps = re.findall(r"^\| [^|]+ \| `([\w.]+)` \| `([\w./]+)` \|$", text, re.MULTILINE)
    assert len(steps) > 25
    for function, file in steps:
        folder = repository if file.startswith("crates/") else repository / "python" / "branchline"
        name = re.escape(function.rpartition(".")[2])
        defined = re.search(rf"\b(?:def|fn) {name}\b", (folder / file).read_text(encoding="utf-8"))
        assert defined, f"ARCHITECTURE.md names {function} of {file}, which does not exist"


@pytest.mark.parametrize(
    ("name", "words_max"), [("ARCHITECTURE.md", 2500), ("CONTRIBUTING.md", 1200), ("README.md", 900)]
)
def test_documents_for_newcomers_are_short(repository: Path, name: str, words_max: int) -> None:
    assert len((repository / name).read_text(encoding="utf-8").split()) <= words_max


def test_files_that_developers_are_sent_to_exist(repository: Path, sources: list[Path]) -> None:
    """Each source path in developer documents and package docstrings is the end of the path of an existing file."""
    package = repository / "python" / "branchline"
    explained = (repository / "docs" / "explanation" / "packages").glob("*.md")
    pages = [repository / "ARCHITECTURE.md", *explained, *(repository / "docs" / "extending").glob("*.md")]
    known = {f"/{path.relative_to(repository)}" for path in sources}
    for page in [*pages, *package.rglob("__init__.py")]:
        # A page under docs/extending may name files that its own code blocks create.
        text = page.read_text(encoding="utf-8")
        made = set(re.findall(r":caption: (\S+)", text))
        for name in re.findall(r"`([\w./-]+\.(?:py|rs|toml))`", text):
            there = any(path.endswith(f"/{name}") for path in known) or any(one.endswith(name) for one in made)
            assert there, f"{page.relative_to(repository)} names {name}, which does not exist"


def test_every_package_says_where_to_start(repository: Path) -> None:
    for path in (repository / "python" / "branchline").glob("*/__init__.py"):
        lines = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()
        assert len(lines) == 3, f"the docstring of {path} must have three lines"
        assert "Start" in lines[-1], path
        for name in re.findall(r"`([\w./]+\.py)`", lines[-1]):
            assert (path.parent / name).is_file(), f"{path} names {name}, which does not exist"


def test_the_readme_names_the_rust_that_is_needed(repository: Path) -> None:
    (needed,) = re.findall(
        r'^rust-version = "(.*)"', (repository / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE
    )
    for name in ("README.md", "docs/index.md"):
        text = " ".join((repository / name).read_text(encoding="utf-8").split())
        assert f"Rust {needed} or later" in text


def test_the_description_is_the_same_everywhere(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name in ("README.md", "docs/index.md", "CITATION.cff", "release/conda/recipe.yaml"):
        text = " ".join((repository / name).read_text(encoding="utf-8").split())
        assert project["description"] in text, name


def test_names_of_python_in_the_documents_exist(documents: list[Path]) -> None:
    """Check dotted names such as `branchline.trains.add`, in prose and in code blocks."""
    named: dict[str, Path] = {}
    # The pages under docs/extending name functions that their own code blocks create.
    for document in (one for one in documents if "extending" not in one.parts and one.name != "CHANGELOG.md"):
        for name in re.findall(r"(?<![\w/.\-:])branchline(?:\.[A-Za-z_]\w*)+", document.read_text(encoding="utf-8")):
            named.setdefault(name, document)
    assert len(named) > 20
    assert [f"{document}: {name}" for name, document in named.items() if not _exists(name)] == []


def _exists(name: str) -> bool:
    package, *parts = name.split(".")
    found = importlib.import_module(package)
    try:
        for part in parts:
            found = getattr(found, part)
    except AttributeError:
        return False
    return True
