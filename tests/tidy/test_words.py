"""Sources have meaningful file names, no paths of a particular machine, no leftover debugging code, and only ASCII."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

# Names that would fit any contents. Code that two packages need gets a specific name.
EMPTY_NAMES = {"util", "utils", "common", "core", "manager", "managers", "helper", "helpers", "misc"}

# These patterns are written so that they do not match this file.
MACHINE_PATHS = re.compile(r"/(?:home|root|Users|work|opt)/[\w.]+|/tmp/\w")
REGISTRY_HOSTS = re.compile(r"\b(?:pypi|pythonhosted|anaconda|conda-forge)[.](?:org|io)\b|crates[.]io|--index[-]url")
LEFTOVERS = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b|\bdbg!|\bbreak" + r"point\(\)")

# Placeholders that only make sense in an f-string: `{name!r}` and `{value.attribute}`.
PLACEHOLDER = re.compile(r"\{\w+(?:\.\w+)*![rsa](?::[^{}]*)?\}|\{\w+(?:\.\w+)+(?::[^{}]*)?\}")

LOCKS = {"Cargo.lock"}
TEXT_SUFFIXES = {
    ".py",
    ".pyi",
    ".rs",
    ".toml",
    ".md",
    ".sh",
    ".txt",
    ".html",
    ".css",
    ".js",
    ".C",
    ".h",
    ".cpp",
    ".yml",
}
ASCII_SUFFIXES = {".py", ".pyi", ".rs", ".toml", ".sh", ".C", ".h", ".cpp"}


def texts(sources: list[Path]) -> list[Path]:
    named = {"Makefile", "run", "LICENSE"}
    return [path for path in sources if (path.suffix in TEXT_SUFFIXES or path.name in named) and path.name not in LOCKS]


def found(pattern: re.Pattern[str], paths: list[Path], repository: Path) -> list[str]:
    """Return all matches of the pattern, as `file:line text`."""
    return [
        f"{path.relative_to(repository)}:{number} {match[0]}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for match in pattern.finditer(line)
    ]


def test_no_file_or_folder_has_a_name_that_says_nothing(repository: Path, sources: list[Path]) -> None:
    for path in sources:
        if path.suffix in (".py", ".rs"):
            names = {part.removesuffix(path.suffix) for part in path.relative_to(repository).parts}
            assert not names & EMPTY_NAMES, path


def test_messages_with_values_are_f_strings(repository: Path, python_sources: list[Path]) -> None:
    missing = []
    for path in python_sources:
        if path.is_relative_to(repository / "python"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            exempt = {id(part) for one in ast.walk(tree) if isinstance(one, ast.JoinedStr) for part in one.values}
            # Docstrings may contain examples with placeholders.
            exempt |= {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
            missing += [
                f"{path.relative_to(repository)}:{one.lineno} {one.value}"
                for one in ast.walk(tree)
                if isinstance(one, ast.Constant) and isinstance(one.value, str) and id(one) not in exempt
                if PLACEHOLDER.search(one.value)
            ]
    assert not missing


def test_no_path_of_one_machine_is_named(repository: Path, sources: list[Path]) -> None:
    assert not found(MACHINE_PATHS, texts(sources), repository)


def test_no_registry_is_named(repository: Path, sources: list[Path]) -> None:
    assert not found(REGISTRY_HOSTS, texts(sources), repository)


def test_no_leftovers(repository: Path, sources: list[Path]) -> None:
    assert not found(LEFTOVERS, texts(sources), repository)


def test_sources_are_ascii(repository: Path, sources: list[Path]) -> None:
    paths = [path for path in sources if path.suffix in ASCII_SUFFIXES]
    assert not found(re.compile(r"[^\x00-\x7f]"), paths, repository)


def test_no_line_ends_in_blanks_and_every_file_ends_in_one_newline(repository: Path, sources: list[Path]) -> None:
    paths = [path for path in texts(sources) if path.read_bytes()]
    assert not found(re.compile(r"[ \t\r]+$"), paths, repository)
    ragged = [path for path in paths if not re.search(rb"[^\n]\n\Z", path.read_bytes())]
    assert not ragged, ragged


def test_a_name_of_a_class_means_one_thing(repository: Path, sources: list[Path]) -> None:
    package = repository / "python" / "branchline"
    paths = [path for path in sources if path.suffix == ".py" and package in path.parents]
    counts = Counter(line.rpartition(" ")[2] for line in found(re.compile(r"^class [A-Z]\w*"), paths, repository))
    assert not {name for name, count in counts.items() if count > 1}
