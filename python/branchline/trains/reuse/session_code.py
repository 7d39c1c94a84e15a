"""Finds the source of functions and classes that are defined in a notebook or in an interactive session."""

from __future__ import annotations

import ast
import dis
import linecache
import sys
from collections.abc import Iterator
from types import FunctionType, MemberDescriptorType, ModuleType

from branchline.trains.reuse.canonical import UnknownValueError
from branchline.trains.reuse.source_code import codes_in, without_docstrings


def is_session(module: ModuleType | None) -> bool:
    """Return whether a module is a notebook or an interactive session, so that its code is in no file."""
    return module is not None and module is sys.modules.get("__main__") and not hasattr(module, "__file__")


def definition_of(value: object) -> ast.stmt:
    """Return the statement of a cell that defined a function or class. Raises UnknownValueError if it is not known."""
    name = getattr(value, "__name__", "")
    codes = [one.__code__ for one in functions_of(value)]
    files = {one.co_filename for one in codes}
    if len(files) == 1:
        first_line = min(one.co_firstlineno for one in codes)
        try:
            tree = ast.parse("".join(linecache.getlines(files.pop())))
        except (SyntaxError, ValueError):
            tree = ast.Module([], [])
        for statement in tree.body:
            decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
            begin = min([statement.lineno, *(one.lineno for one in decorators)])
            if begin <= first_line <= (statement.end_lineno or begin):
                return without_docstrings(statement)
    raise UnknownValueError(f"{name} is defined in an interactive session that does not keep its source")


def variables_read(statement: ast.stmt) -> set[str]:
    """Return the names of the variables of a session that a definition reads, without its local variables."""
    module = compile(ast.Module([statement], []), "<cell>", "exec")
    return {
        str(one.argval)
        for code in codes_in(module)
        for one in dis.get_instructions(code)
        if one.opname == "LOAD_NAME" or (one.opname.startswith("LOAD_") and "GLOBAL" in one.opname)
    }


def functions_of(value: object) -> Iterator[FunctionType]:
    """Yield a function, or the methods of a class. Raises UnknownValueError for a method from elsewhere."""
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, type):
        for name, one in vars(value).items():
            method = one.fget if isinstance(one, property) else getattr(one, "__func__", one)
            # Methods that a decorator such as `dataclass` has generated have no source of their own.
            if not isinstance(method, FunctionType) or method.__code__.co_filename.startswith("<string>"):
                continue
            if method.__qualname__ != f"{value.__qualname__}.{name}":
                raise UnknownValueError(f"the method {name} of {value.__name__} was replaced after its definition")
            yield method


def values_of(value: object) -> Iterator[tuple[str, object]]:
    """Yield the values that a function or class got when it was defined, or later: defaults, attributes, and variables
    of a surrounding function.
    """
    for one in functions_of(value):
        defaults = [*(one.__defaults__ or ()), *(one.__kwdefaults__ or {}).values()]
        cells = dict(zip(one.__code__.co_freevars, one.__closure__ or (), strict=True))
        # A method that calls `super()` refers to its class.
        variables = {name: cell.cell_contents for name, cell in cells.items() if name != "__class__"}
        yield from ((one.__qualname__, part) for part in (defaults, variables, vars(one)) if part)
    if isinstance(value, type):
        for name, attribute in vars(value).items():
            is_code = isinstance(attribute, FunctionType | classmethod | staticmethod | property | MemberDescriptorType)
            if not (is_code or name == "_abc_impl" or (name.startswith("__") and name.endswith("__"))):
                yield f"{value.__qualname__}.{name}", attribute
