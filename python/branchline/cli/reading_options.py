"""The options of every command that reads, one for each field of `branchline.Access`."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from branchline.access import Access
from branchline.cli.failure import say, told
from branchline.cli.options import Option

#: Types of the options by those of the fields; typer knows no unions.
_TYPES: dict[str, Any] = {
    "str": str,
    "int | str": str,
    "int | str | None": str | None,
    "str | None": str | None,
    "int | None": int | None,
    "int": int,
    "bool": bool,
}
_PANEL = "How to read"

#: Makes the Access where errors are told.
Reading = Callable[[], Access]


def with_reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with these options in the place of its argument ``access``, which is a Reading."""
    fields = dataclasses.fields(Access)
    names = [f"access_{field.name}" for field in fields]

    @functools.wraps(command)
    def with_access(**given: Any) -> None:
        values = {field.name: given.pop(name) for name, field in zip(names, fields, strict=True)}
        with traced(given.pop("trace_to")):
            command(access=functools.partial(Access, **values), **given)

    hints = get_type_hints(command, include_extras=True)
    own = [one.replace(annotation=hints[one.name]) for one in inspect.signature(command).parameters.values()]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=_option(field))
        for name, field in zip(names, fields, strict=True)
    ]
    options.append(inspect.Parameter("trace_to", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=TRACE))
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own if one.name != "access"]
    with_access.__signature__ = inspect.Signature([*parameters, *options])  # type: ignore[attr-defined]
    with_access.__annotations__ = {one.name: one.annotation for one in [*parameters, *options]}
    return with_access


TRACE = Annotated[Path | None, Option("--trace", help="Record every request in this file.", panel=_PANEL)]


@contextmanager
def traced(path: Path | None) -> Iterator[None]:
    """Records what is read inside, if that is wanted, and says where."""
    if path is None:
        yield
        return
    # Only who traces waits for it to be imported.
    from branchline.locations import shown_command
    from branchline.tracing.recording import recording

    with told(debug=False):
        try:
            with recording(path, shown_command(["branchline", *sys.argv[1:]])):
                yield
        finally:
            if path.is_file():
                say(f"every request is in {path}: branchline trace show {path}")


def _option(field: dataclasses.Field[Any]) -> Any:
    about = field.metadata
    option = Option(about["flag"], help=about["help"], panel=_PANEL)
    return Annotated[_TYPES[str(field.type)], option]
