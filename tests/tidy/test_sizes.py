"""Functions, lines, files and folders do not exceed their maximum sizes, and each file starts with a description."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

FUNCTION_LINES_MAX = 100
FILE_LINES_MAX = 600
LINE_CHARACTERS_MAX = 120
FOLDER_MODULES_MAX = 20

RUST_FUNCTION = re.compile(r"^(\s*)(?:pub(?:\([a-z: ]+\))? )?(?:const )?(?:unsafe )?(?:extern \"C\" )?fn (\w+)")


def python_functions(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield the name, first line and number of lines of each function in a file that is long enough for a function
    above the limit.
    """
    text = path.read_text(encoding="utf-8")
    if text.count("\n") <= FUNCTION_LINES_MAX:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno is not None:
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def rust_functions(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield the name, first line and number of lines of each Rust function. rustfmt indents the closing brace like the
    `fn`.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    for start, line in enumerate(lines):
        head = RUST_FUNCTION.match(line)
        if head is None or line.rstrip().endswith((";", "}")):
            continue
        closing = head[1] + "}"
        stop = next((index for index in range(start + 1, len(lines)) if lines[index].rstrip() == closing), start)
        # A declaration in a trait has no body and ends with a semicolon.
        ends = (line.startswith(head[1] + ")") and line.endswith(";") for line in lines[start:stop])
        declared = next((True for is_end in ends if is_end), None)
        if declared is None:
            yield head[2], start + 1, stop - start + 1


def test_functions_fit_a_screen(repository: Path, python_sources: list[Path], rust_sources: list[Path]) -> None:
    too_long = [
        f"{path.relative_to(repository)}:{line} {name} has {count} lines"
        for functions, paths in ((python_functions, python_sources), (rust_functions, rust_sources))
        for path in paths
        for name, line, count in functions(path)
        if count > FUNCTION_LINES_MAX
    ]
    assert not too_long, "\n".join(too_long)


def test_the_lines_of_rust_functions_are_counted(tmp_path: Path) -> None:
    source = tmp_path / "lib.rs"
    trait = "trait A {\n    fn a(&self);\n    fn d(\n        &self,\n    ) -> u8;\n}\n"
    source.write_text(trait + "\npub fn b(\n    c: u8,\n) -> u8 {\n    if c {\n    }\n}\n")
    assert list(rust_functions(source)) == [("b", 8, 6)]


def test_files_have_one_subject(repository: Path, python_sources: list[Path], rust_sources: list[Path]) -> None:
    too_long = [
        f"{path.relative_to(repository)} has {count} lines"
        for path in python_sources + rust_sources
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > FILE_LINES_MAX
    ]
    assert not too_long, "\n".join(too_long)


def test_folders_have_few_modules(repository: Path, python_sources: list[Path], rust_sources: list[Path]) -> None:
    ours = [repository / "python" / "branchline", *(repository / "crates").glob("*/src")]
    counts = Counter(
        path.parent for path in python_sources + rust_sources if any(path.is_relative_to(root) for root in ours)
    )
    full = [
        f"{path.relative_to(repository)} has {count}" for path, count in counts.items() if count > FOLDER_MODULES_MAX
    ]
    assert not full, "\n".join(full)


def test_lines_fit_a_screen(repository: Path, python_sources: list[Path], rust_sources: list[Path]) -> None:
    """rustfmt does not wrap comments and strings, so it does not report long lines in them."""
    too_long = [
        f"{path.relative_to(repository)}:{number} has {len(line)} characters"
        for path in python_sources + rust_sources
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line.partition("  # noqa")[0]) > LINE_CHARACTERS_MAX and "://" not in line
    ]
    assert not too_long, "\n".join(too_long)


def test_files_say_first_what_they_are_for(
    repository: Path, python_sources: list[Path], rust_sources: list[Path]
) -> None:
    silent = [path for path in rust_sources if not path.read_text(encoding="utf-8").startswith("//!")]
    for path in python_sources:
        lines = path.read_text(encoding="utf-8").splitlines()
        first = next((line for line in lines if line and not line.startswith("#")), None)
        if first is not None and not first.startswith('"""'):
            silent.append(path)
    assert not silent, "\n".join(str(path.relative_to(repository)) for path in silent)
