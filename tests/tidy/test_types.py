"""Only two packages use the type `Any`, and the number of its uses does not grow."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

#: Maximum number of uses of `Any` in each package. The numbers may only be lowered. In all other packages, mypy's
#: `disallow_any_explicit` in pyproject.toml forbids `Any`.
USES_OF_ANY = {
    "reading": 264,
    "trains": 179,
}


def test_no_package_gets_more_uses_of_any(repository: Path, python_sources: list[Path]) -> None:
    root = repository / "python" / "branchline"
    found: Counter[str] = Counter()
    for path in python_sources:
        if path.is_relative_to(root):
            found[path.relative_to(root).parts[0]] += _uses_of_any(path.read_text())
    wrong = [
        f"{package} uses Any {count} times, of at most {USES_OF_ANY.get(package, 0)}"
        for package, count in sorted(found.items())
        if count > USES_OF_ANY.get(package, 0)
    ]
    assert wrong == [], "use object, a TypeVar, a Protocol or a dataclass"


def _uses_of_any(source: str) -> int:
    return sum(
        (isinstance(node, ast.Name) and node.id == "Any") or (isinstance(node, ast.Attribute) and node.attr == "Any")
        for node in ast.walk(ast.parse(source))
    )
