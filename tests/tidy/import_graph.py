"""Import graphs of the crates and of the Python package, and the import cycles in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

Graph = dict[Path, set[Path]]


def circles(graph: Graph) -> list[list[Path]]:
    """Return the strongly connected components with more than one file, each sorted (Kosaraju's algorithm)."""
    order: list[Path] = []
    seen: set[Path] = set()
    for start in graph:
        _visit(graph, start, seen, order)
    backwards: Graph = {path: set() for path in graph}
    for path, imported in graph.items():
        for other in imported:
            backwards[other].add(path)
    seen = set()
    found = []
    for start in reversed(order):
        members: list[Path] = []
        _visit(backwards, start, seen, members)
        if len(members) > 1:
            found.append(sorted(members))
    return sorted(found)


def _visit(graph: Graph, start: Path, seen: set[Path], finished: list[Path]) -> None:
    """Visit new files depth-first, and append them to ``finished`` in postorder."""
    if start in seen:
        return
    seen.add(start)
    open_files: list[tuple[Path, Iterator[Path]]] = [(start, iter(sorted(graph[start])))]
    while open_files:
        path, rest = open_files[-1]
        following = next((other for other in rest if other not in seen), None)
        if following is None:
            finished.append(path)
            open_files.pop()
        else:
            seen.add(following)
            open_files.append((following, iter(sorted(graph[following]))))


def module_parts(path: Path, root: Path) -> tuple[str, ...]:
    """Return the path of the module in a file: the names of the folders below ``root`` and of the file. For the file of
    a package, such as `__init__.py`, only the names of the folders.
    """
    parts = path.relative_to(root).with_suffix("").parts
    return parts[:-1] if parts[-1] in ("__init__", "mod", "lib") else parts


def circles_of_children(graph: Graph, root: Path) -> list[str]:
    """Return the import cycles between the files and subfolders of each folder, at every level below ``root``.

    The file of a package (`__init__`, `mod`, or the file with the same name as a folder beside it) belongs to the
    folder.
    """
    imports = {(module_parts(a, root), module_parts(b, root)) for a, others in graph.items() for b in others}
    folders = {module[:depth] for pair in imports for module in pair for depth in range(len(module))}
    found = []
    for folder in sorted(folders):
        depth = len(folder)
        children: Graph = {}
        for importer, imported in imports:
            if importer[:depth] == folder == imported[:depth] and len(importer) > depth < len(imported):
                mine, other = Path(importer[depth]), Path(imported[depth])
                children.setdefault(mine, set())
                children.setdefault(other, set())
                if mine != other:
                    children[mine].add(other)
        found += [f"{'/'.join(folder) or '.'}: {', '.join(map(str, circle))}" for circle in circles(children)]
    return found


# --- Python ---


def python_graph(package: Path) -> Graph:
    """Return the imports between the files of a package, including imports in functions and for type checking."""
    files = {_module_name(path, package): path for path in sorted(package.rglob("*.py"))}
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in files.items()}
    forwarded = {name: _forwarded_names(tree) for name, tree in trees.items() if files[name].name == "__init__.py"}
    graph: Graph = {path: set() for path in files.values()}
    for name, tree in trees.items():
        for module, item in _python_imports(tree):
            target = _python_target(module, item, files, forwarded)
            if target is not None and target != files[name]:
                graph[files[name]].add(target)
    return graph


def _module_name(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _python_imports(tree: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Yield the module and the name of each import. The name is None if a module itself is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)


def _forwarded_names(tree: ast.AST) -> dict[str, str]:
    """Return the names that an `__init__` re-exports, including lazy re-exports (`lazily`), each with the module that
    defines it.
    """
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {alias.asname or alias.name: node.module for alias in node.names}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lazily":
            for argument in node.args:
                if isinstance(argument, ast.Dict):
                    given = ast.literal_eval(argument)
                    names |= {name: module for module, listed in given.items() for name in listed}
    return names


def _python_target(
    module: str, item: str | None, files: dict[str, Path], forwarded: dict[str, dict[str, str]]
) -> Path | None:
    """Return the file that defines an imported name; None if the name is not part of this package."""
    visited = set()
    while (module, item) not in visited:
        visited.add((module, item))
        if item is not None and f"{module}.{item}" in files:
            return files[f"{module}.{item}"]
        if item is not None and (files.get(module, Path()).parent / f"{item}.pyi").exists():
            return None  # the compiled module
        if item is None or item not in forwarded.get(module, {}):
            return files.get(module)
        module = forwarded[module][item]
    return files.get(module)


# --- Rust ---

_COMMENT_OR_TEXT = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|\'(?:\\[^\']+|[^\\\'])\'', re.DOTALL
)
_CHILD = re.compile(r"(#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*)?(?:pub(?:\([a-z: ]+\))?\s+)?\bmod\s+(\w+)\s*([;{])")
_USE = re.compile(r"(pub(?:\([a-z: ]+\))?\s+)?\buse\s+([^;]+);")
_INLINE_TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod\s+\w+\s*\{")
_VISIBILITY = re.compile(r"\bpub\s*\([^)]*\)")
_PATH = re.compile(r"\b(?:crate|super|self)(?:::\w+)+")


@dataclass
class _Module:
    """The module in a file of a crate."""

    path: Path
    parent: _Module | None
    children: dict[str, _Module] = field(default_factory=dict)
    # Paths in `use` declarations, by the name that each declaration introduces. `pub use` re-exports the name.
    passed_on: dict[str, list[str]] = field(default_factory=dict)
    globs: list[list[str]] = field(default_factory=list)
    paths: list[list[str]] = field(default_factory=list)


def rust_graph(crate: Path) -> Graph:
    """Return the references between the files of a crate (`use` declarations and paths in code), excluding tests."""
    root = _rust_module(crate / "src" / "lib.rs", None)
    modules = list(_all_modules(root))
    graph: Graph = {module.path: set() for module in modules}
    for module in modules:
        for path in module.paths:
            target = _rust_target(module, root, path)
            if target is not None and target is not module:
                graph[module.path].add(target.path)
    return graph


def _all_modules(module: _Module) -> Iterator[_Module]:
    yield module
    for child in module.children.values():
        yield from _all_modules(child)


def _rust_module(path: Path, parent: _Module | None) -> _Module:
    module = _Module(path, parent)
    code = _without_tests(_COMMENT_OR_TEXT.sub(" ", path.read_text(encoding="utf-8")))
    folder = path.parent if path.name in ("lib.rs", "mod.rs") else path.with_suffix("")
    for tested, name, opening in _CHILD.findall(code):
        if opening == ";" and not tested:
            own_file, inside = folder / f"{name}.rs", folder / name / "mod.rs"
            module.children[name] = _rust_module(own_file if own_file.exists() else inside, module)
    for passed_on, tree in _USE.findall(code):
        for used, name in _use_paths(" ".join(tree.split())):
            module.paths.append(used)
            if name == "*":
                module.globs.append(used)
            elif passed_on:
                module.passed_on[name] = used
    code = _VISIBILITY.sub("pub", _USE.sub(" ", code))
    module.paths += [match[0].split("::") for match in _PATH.finditer(code)]
    for name in module.children:
        module.paths += [match[0].split("::") for match in re.finditer(rf"(?<![\w:]){name}(?:::\w+)+", code)]
    return module


def _without_tests(code: str) -> str:
    """Return the code without its inline test modules."""
    while match := _INLINE_TESTS.search(code):
        depth, end = 1, match.end()
        while depth and end < len(code):
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
        code = code[: match.start()] + code[end:]
    return code


def _use_paths(tree: str) -> Iterator[tuple[list[str], str]]:
    """Yield each path of a `use` tree such as `a::{b, c as d, e::*}`, with the name that it introduces."""
    head, brace, rest = tree.partition("{")
    if not brace:
        path, _, alias = head.strip().partition(" as ")
        parts = path.strip().split("::")
        if parts[-1] == "self":
            parts.pop()
        yield parts, alias.strip() or parts[-1]
        return
    prefix = head.strip().removesuffix("::")
    for part in _split_outside_braces(rest.rstrip().removesuffix("}")):
        yield from _use_paths(f"{prefix}::{part}" if prefix else part)


def _split_outside_braces(text: str) -> Iterable[str]:
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def _rust_target(module: _Module, root: _Module, path: list[str], depth: int = 0) -> _Module | None:
    """Return the module that defines the item with this path; None if the item is not part of this crate."""
    here: _Module | None = module
    parts = list(path)
    if parts[0] == "crate":
        here = root
        parts.pop(0)
    elif parts[0] in ("self", "super"):
        while parts and parts[0] in ("self", "super"):
            here = here.parent if here is not None and parts[0] == "super" else here
            parts.pop(0)
    elif parts[0] not in module.children:
        return None
    while parts and here is not None and parts[0] in here.children:
        here = here.children[parts.pop(0)]
    if here is None or not parts or depth > 8:
        return here
    if parts[0] in here.passed_on:
        return _rust_target(here, root, here.passed_on[parts[0]] + parts[1:], depth + 1) or here
    return here
