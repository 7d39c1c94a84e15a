"""Finds the source of functions and classes that are defined in a notebook or in an interactive session."""

from __future__ import annotations

import ast
import dis
import linecache
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType

from branchline.trains.reuse.canonical import UnknownValueError
from branchline.trains.reuse.source_code import codes_in, without_docstrings


def is_session(module: ModuleType | None) -> bool:
    """Return whether a module is a notebook or an interactive session, so that its code is in no file."""
    return module is not None and module is sys.modules.get("__main__") and not hasattr(module, "__file__")


def definition_of(value: object) -> ast.stmt:
    """Return the statement of a cell that defined a function or class. Raises UnknownValueError if it is not known."""
    name = getattr(value, "__name__", "")
    codes = list(_codes_of(value))
    if None in codes:
        raise UnknownValueError(f"a method of {name} was replaced after its definition")
    files = {one.co_filename for one in codes if one is not None}
    if len(files) == 1:
        first_line = min(one.co_firstlineno for one in codes if one is not None)
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


def _codes_of(value: object) -> Iterator[CodeType | None]:
    """Yield the code of a function, or of the methods of a class. None stands for a method from elsewhere."""
    if isinstance(value, FunctionType):
        yield value.__code__
    elif isinstance(value, type):
        for name, one in vars(value).items():
            method = one.fget if isinstance(one, property) else getattr(one, "__func__", one)
            # Methods that a decorator such as `dataclass` has generated have no source of their own.
            if isinstance(method, FunctionType) and not method.__code__.co_filename.startswith("<string>"):
                yield method.__code__ if method.__qualname__ == f"{value.__qualname__}.{name}" else None
