"""Find the wagons in a Python file without running the file: classes, parameters, branches and required wagons."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from branchline.base.limits import SOURCE_PARTS_MAX, WAGON_CLASSES_MAX, WAGON_SOURCE_MAX_BYTES
from branchline.errors import OptionError, WagonError
from branchline.trains.wagons.parameters import KINDS, SIMPLE_KINDS, Value, WagonParameter

_NAMES_MAX = 20 * SOURCE_PARTS_MAX


@dataclass(frozen=True)
class WagonClass:
    """A class with a method ``process(events)``.

    ``branches`` is None unless the class lists its branches as literals. ``line`` is the class's line in the file.
    """

    name: str
    parameters: list[WagonParameter] = field(default_factory=list)
    branches: list[str] | None = None
    requires: list[str] = field(default_factory=list)
    description: str = ""
    line: int = 0

    def checked(self, given: dict[str, object]) -> dict[str, Value]:
        """Return the values ``given``, each converted to its parameter's type.

        Raises OptionError for an unknown parameter, an invalid value, or a missing value without a default.
        """
        known = {one.name: one for one in self.parameters}
        for name in given:
            if name not in known:
                raise OptionError(f"{self.name} has no parameter {name!r:.80}", hint=f"it has {_listed(list(known))}")
        missing = [one.name for one in self.parameters if one.default is None and one.name not in given]
        if missing:
            raise OptionError(f"{self.name} needs a value for {_listed(missing)}")
        return {name: known[name].checked(value) for name, value in given.items()}


def wagon_classes(source: str, path: str = "wagons.py") -> list[WagonClass]:
    """Return the wagons that a file defines, in file order.

    Parameters are the arguments of ``__init__``, or the fields of a dataclass. Each needs a type or a literal default.
    Raises WagonError if the file is not valid Python, is too long, or contains no wagon.
    """
    if len(source.encode(errors="surrogatepass")) > WAGON_SOURCE_MAX_BYTES:
        raise WagonError(f"{path} is longer than {WAGON_SOURCE_MAX_BYTES} bytes", path=path)
    try:
        tree = ast.parse(source, path)
    except SyntaxError as error:
        raise WagonError(f"{path}, line {error.lineno}: {error.msg}", path=path) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise WagonError(f"{path} cannot be parsed: {error}", path=path) from None
    try:
        return _found(tree, path)
    except RecursionError:
        raise WagonError(f"{path} is nested too deeply", path=path) from None


def _found(tree: ast.Module, path: str) -> list[WagonClass]:
    """Return the wagons that a module defines.

    Raises WagonError if the module defines no wagon, or is so large that the search would take minutes.
    """
    classes = {one.name: one for one in tree.body if isinstance(one, ast.ClassDef)}
    _check_count(len(classes), "classes", SOURCE_PARTS_MAX, path)
    bases = {
        name: list(dict.fromkeys(base.id for base in one.bases if isinstance(base, ast.Name) and base.id in classes))
        for name, one in classes.items()
    }
    lineages = {name: [classes[one] for one in _lineage(name, bases)] for name in classes if not name.startswith("_")}
    for name, lineage in lineages.items():
        _check_count(sum(len(one.body) for one in lineage), f"statements in {name}", SOURCE_PARTS_MAX, path)
    lineages = {name: one for name, one in lineages.items() if _has_process(one)}
    if not lineages:
        raise WagonError(f"{path} contains no wagon", path=path, hint="a wagon is a class with process(self, events)")
    _check_count(len(lineages), "wagons", WAGON_CLASSES_MAX, path)
    found: list[WagonClass] = []
    names = 0
    for lineage in lineages.values():
        found.append(_wagon(lineage[0], lineage, path))
        names += len(found[-1].branches or ()) + len(found[-1].requires)
        _check_count(names, "names of branches", _NAMES_MAX, path)
    return found


def _check_count(count: int, what: str, count_max: int, path: str) -> None:
    if count > count_max:
        raise WagonError(f"{path} has {count} {what}, more than {count_max}", path=path)


def _lineage(name: str, bases: dict[str, list[str]]) -> dict[str, None]:
    """Return the names of a class and of its direct and indirect base classes in the same file.

    The names are dictionary keys, which are ordered and unique.
    """
    lineage: dict[str, None] = {}
    waiting = deque([name])
    while waiting:
        now = waiting.popleft()
        if now not in lineage:
            lineage[now] = None
            waiting += bases[now]
    return lineage


def _functions(lineage: Sequence[ast.ClassDef], name: str) -> Iterator[ast.FunctionDef]:
    for one in lineage:
        yield from (part for part in one.body if isinstance(part, ast.FunctionDef) and part.name == name)


def _has_process(lineage: Sequence[ast.ClassDef]) -> bool:
    process = next(_functions(lineage, "process"), None)
    return process is not None and not any(_last_name(one) == "abstractmethod" for one in process.decorator_list)


def _wagon(one: ast.ClassDef, lineage: Sequence[ast.ClassDef], path: str) -> WagonClass:
    made = next(_functions(lineage, "__init__"), None)
    if made is not None:
        parameters = _of_arguments(made, one.name, path)
    elif any(_last_name(decorator) == "dataclass" for decorator in one.decorator_list):
        parameters = _of_fields(lineage, path)
    else:
        parameters = []
    branches = _names(lineage, "branches", path)
    return WagonClass(
        one.name,
        parameters,
        branches,
        _names(lineage, "requires", path) or [],
        (ast.get_docstring(one) or "").partition("\n")[0],
        one.lineno,
    )


def _of_arguments(made: ast.FunctionDef, name: str, path: str) -> list[WagonParameter]:
    arguments = made.args
    if arguments.vararg or arguments.kwarg:
        what = f"{path}, line {made.lineno}: the __init__ of {name} has * or ** parameters"
        raise WagonError(what, path=path, hint="name each parameter, with a type")
    count = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
    _check_count(count - 1, f"parameters of {name}", SOURCE_PARTS_MAX, path)
    plain = [*arguments.posonlyargs, *arguments.args][1:]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    pairs = [*zip(plain, defaults, strict=True), *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return [_parameter(one.arg, one.annotation, default, one.lineno, path) for one, default in pairs]


def _of_fields(lineage: Sequence[ast.ClassDef], path: str) -> list[WagonParameter]:
    found: dict[str, WagonParameter] = {}
    for one in reversed(lineage):
        for part in one.body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                if "ClassVar" in _written(part.annotation):
                    continue
                name = part.target.id
                _check_count(len(found) + (name not in found), "parameters of a wagon", SOURCE_PARTS_MAX, path)
                found[name] = _parameter(name, part.annotation, part.value, part.lineno, path)
    return list(found.values())


def _parameter(
    name: str, annotation: ast.expr | None, default: ast.expr | None, line: int, path: str
) -> WagonParameter:
    """Return a parameter. Raises WagonError for an unsupported type, or a default of a different type."""
    value = None if default is None else _constant(default)
    kind = _kind_of(annotation, value)
    where = f"{path}, line {line}: parameter {name}"
    if kind is None:
        hint = f"annotate it with one of: {_listed(list(KINDS))}"
        raise WagonError(f"{where} has no supported type", path=path, hint=hint)
    if default is not None and value is None:
        raise WagonError(f"{where} has a default that is not a literal: {ast.unparse(default):.60}", path=path)
    try:
        return WagonParameter(name, kind, None if value is None else WagonParameter(name, kind).checked(value))
    except OptionError as error:
        raise WagonError(f"{where}: {error}", path=path) from None


def _kind_of(annotation: ast.expr | None, value: object) -> str | None:
    if annotation is not None:
        text = _written(annotation)
        return text if text in KINDS else None
    if isinstance(value, list):
        inner = {type(one).__name__ for one in value}
        inner = {"float"} if inner == {"int", "float"} else inner
        return f"list[{inner.pop()}]" if len(inner) == 1 and inner <= SIMPLE_KINDS.keys() else None
    name = type(value).__name__
    return name if name in SIMPLE_KINDS else None


def _written(annotation: ast.expr) -> str:
    """Return a type annotation as a string. Returns "" for annotations that are neither in KINDS nor ClassVar."""
    if isinstance(annotation, ast.Constant):
        return annotation.value if isinstance(annotation.value, str) else ""
    if isinstance(annotation, ast.Subscript):
        outer = _last_name(annotation.value)
        if outer == "ClassVar" or not isinstance(annotation.value, ast.Name):
            return outer
        return f"{outer}[{annotation.slice.id}]" if isinstance(annotation.slice, ast.Name) else ""
    is_plain = isinstance(annotation, ast.Name) or _last_name(annotation) == "ClassVar"
    return _last_name(annotation) if is_plain else ""


def _constant(node: ast.expr) -> object:
    """Return the value of a literal; None for other expressions."""
    try:
        value: object = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        # Dataclasses write the default of a list as field(default_factory=lambda: [...]).
        return _made_by_factory(node)
    return list(value) if isinstance(value, tuple) else value


def _made_by_factory(node: ast.expr) -> object:
    if not (isinstance(node, ast.Call) and _last_name(node.func) == "field"):
        return None
    for one in node.keywords:
        if one.arg == "default":
            return _constant(one.value)
        if one.arg == "default_factory" and isinstance(one.value, ast.Lambda):
            return _constant(one.value.body)
        if one.arg == "default_factory" and isinstance(one.value, ast.Name) and one.value.id == "list":
            return []
    return None


def _names(lineage: Sequence[ast.ClassDef], attribute: str, path: str) -> list[str] | None:
    """Return the list of names that a class attribute contains; None if the attribute is missing or not a literal."""
    for one in lineage:
        for part in one.body:
            targets = part.targets if isinstance(part, ast.Assign) else []
            value = part.value if isinstance(part, ast.Assign | ast.AnnAssign) else None
            targets = [part.target] if isinstance(part, ast.AnnAssign) else targets
            if value is None or not any(isinstance(target, ast.Name) and target.id == attribute for target in targets):
                continue
            if isinstance(value, ast.List | ast.Tuple):
                _check_count(len(value.elts), f"names in {attribute} of {one.name}", _NAMES_MAX, path)
            found = _constant(value)
            if found is None:
                return None
            if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
                raise WagonError(
                    f"{path}, line {part.lineno}: {attribute} of {one.name} is not a list of names", path=path
                )
            return found
    return None


def _last_name(node: ast.expr) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"
