"""Generates a table of the files of each package and crate, with the first sentence of their documentation."""

from __future__ import annotations

import ast
import re
from pathlib import Path


def write(folder: Path, repository: Path) -> None:
    """Write files-of-NAME.md for each Python package and each crate."""
    for package in sorted((repository / "python" / "branchline").glob("*/__init__.py")):
        _write_table(folder, package.parent, "*.py")
    for crate in sorted((repository / "crates").glob("*/src/lib.rs")):
        _write_table(folder, crate.parent, "*.rs", crate.parent.parent.name)


def _write_table(folder: Path, root: Path, pattern: str, name: str = "") -> None:
    rows = ["| file | content |", "|---|---|"]
    for path in sorted(root.rglob(pattern)):
        sentence = _first_sentence(path)
        if sentence and path.name not in ("__init__.py", "lib.rs"):
            rows.append(f"| `{path.relative_to(root)}` | {sentence} |")
    (folder / f"files-of-{name or root.name}.md").write_text("\n".join(rows) + "\n", encoding="utf-8")


def _first_sentence(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        described = ast.get_docstring(ast.parse(text)) or ""
    else:
        lines = text.splitlines()
        described = "\n".join(line[3:].strip() for line in lines if line.startswith("//!"))
    paragraph = " ".join(described.split("\n\n")[0].split())
    sentence = re.split(r"(?<=\w[.)`]) (?=[A-Z`])", paragraph)[0]
    # Remove intra-doc links of Rust, which do not work in Markdown.
    sentence = re.sub(r"\[(`[^`]+`)\](?:\([^)]*\))?", r"\1", sentence)
    return sentence.replace("``", "`").replace("|", "\\|").replace("<", "&lt;")
