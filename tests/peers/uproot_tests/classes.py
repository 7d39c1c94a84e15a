"""Select uproot's tests of its reading interface and of writing. All other tests do not count, for a named reason."""

from __future__ import annotations

import ast
import re
from pathlib import Path

#: Names of uproot's module that belong to its reading interface.
READING = frozenset({"open", "iterate", "concatenate", "num_entries", "exceptions", "KeyInFileError", "__version__"})

#: A test that writes a file.
WRITES = re.compile(r"uproot\.(recreate|update|create|writing|to_writable|as_TGraph|from_pyroot|sink)\b")
OTHER_PACKAGES = ("other packages", re.compile(r"uproot\.(graphed\w*|_graphed|dask\w*|_dask|extras)\b"))

#: Reasons why a test of reading does not count. The first pattern that matches the code of the test decides.
REASONS = (
    ("writes", WRITES),
    OTHER_PACKAGES,
    ("needs the network", re.compile(r"(https?|root|s3|simplecache|github|ssh|zip|memory)(::|://)|_server\b")),
    ("internals", re.compile(rf"uproot\.(?!(?:{'|'.join(sorted(READING))})\b)\w+")),
    (
        "internals",
        re.compile(
            r"\.(interpretation|chunk|cursor|streamer_named|streamers|streamer|class_named|source|debug|debug_array|"
            r"awkward_form|key|basket\w*|page_list_envelopes|page_link_list|header|footer|"
            r"_(?!version)\w+|column_records|"
            r"field_records|show_streamers|class_version|get_field_metadata|is_memberwise|remove_class|reset_classes)\b"
        ),
    ),
    ("internals", re.compile(r"\b(interp_options|file_handler|reset_classes)\b")),
)

#: Reasons why a test that writes does not count.
REASONS_WRITING = (
    OTHER_PACKAGES,
    ("needs the network", re.compile(r"(https?|root|s3|simplecache|github|ssh)(::|://)|_server\b")),
)


def writes(path: Path) -> bool:
    """Return whether a file has a test that writes."""
    return WRITES.search(path.read_text().replace("from uproot", "uproot")) is not None


def reasons_of(path: Path, *, writing: bool = False) -> dict[str, str]:
    """Return why tests of a file do not count, by test name. Tests that count are missing from it."""
    source = path.read_text()
    module = ast.parse(source)
    texts = {name: _text(node) for node in module.body for name in _defined(node)}
    found = {}
    for name in [one for one in texts if one.startswith(("test", "Test"))]:
        text = _with_what_it_uses(name, texts)
        reason = _reason(text, REASONS_WRITING if writing else REASONS)
        if writing and not WRITES.search(text):
            reason = "does not write"
        if reason is not None:
            found[name] = reason
    return found


def _text(node: ast.AST) -> str:
    """Return the code of a node without comments and docstrings."""
    for one in ast.walk(node):
        if isinstance(one, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(one) is not None:
            one.body = one.body[1:] or [ast.Pass()]
    return ast.unparse(node)


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.ImportFrom):
        return [one.asname or one.name for one in node.names]
    return []


def _with_what_it_uses(name: str, texts: dict[str, str]) -> str:
    """Return the code of a test, and of everything in its file that it uses, including fixtures."""
    wanted, seen = [name], set()
    while wanted:
        one = wanted.pop()
        seen.add(one)
        words = set(re.findall(r"\w+", texts[one]))
        wanted += [other for other in texts if other in words and other not in seen]
    return "\n".join(texts[one] for one in sorted(seen)).replace("from uproot", "uproot")


def _reason(text: str, reasons: tuple[tuple[str, re.Pattern[str]], ...]) -> str | None:
    return next((reason for reason, names in reasons if names.search(text)), None)
