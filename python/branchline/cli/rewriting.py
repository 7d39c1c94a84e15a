"""`branchline reorder`, `recompress`, `skim`, `slim`: merges that change how trees lie, or leave something out."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from branchline.cli.failure import told
from branchline.cli.merging import merge as merge_command
from branchline.cli.merging import tell_of
from branchline.cli.options import Option
from branchline.cli.reading_options import with_reading_options
from branchline.errors import OptionError, WagonError
from branchline.layout.merging import merge as merge_files

if TYPE_CHECKING:
    from branchline.layout.keeping import Select


def _with_merge_options(*without: str) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Makes a command of a function that is given what is to be done and gives how: its own options come first, then
    those of `merge` but some, and the command does both.
    """

    def made(choose: Callable[..., tuple[Callable[..., Any], dict[str, Any]]]) -> Callable[..., None]:
        own = inspect.signature(choose, eval_str=True).parameters
        shared = {
            name: one
            for name, one in inspect.signature(inspect.unwrap(merge_command), eval_str=True).parameters.items()
            if name not in own and name not in without
        }

        @functools.wraps(choose)
        def command(**given: Any) -> None:
            debug, access = given.pop("debug"), given.pop("access")
            with told(debug=debug):
                make, options = choose(**{name: given.pop(name) for name in own})
                given["memory_limit"], given["sync"] = given.pop("memory"), not given.pop("no_sync")
                inputs, output = given.pop("inputs"), given.pop("output")
                tell_of(functools.partial(make, inputs, output, access=access(), **given, **options))

        places = [shared.pop("inputs"), shared.pop("output")]
        parameters = [
            one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*places, *own.values(), *shared.values())
        ]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        return with_reading_options(command)

    return made


@_with_merge_options("basket_size", "cluster_events", "cluster_bytes")
def reorder(
    order: Annotated[
        Literal["entry", "branch", "offset"],
        Option("--order", help="How baskets are laid down: by entry, by branch, as they were."),
    ] = "entry",
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Lays the baskets of trees down in another order."""
    return merge_files, {"order": order}


@_with_merge_options("basket_size", "cluster_events", "cluster_bytes")
def recompress(
    codec: Annotated[str, Option("--codec", help="zstd:5, zlib:1, lz4:4, lzma:8, none, or a number of ROOT.")],
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Compresses the baskets of trees anew, on all cores."""
    return merge_files, {"codec": codec}


@_with_merge_options()
def slim(
    branches: Annotated[
        str | None, Option("--branches", help="Branches to keep: names and patterns, commas between them.")
    ] = None,
    drop: Annotated[str | None, Option("--drop", help="Branches to leave out, likewise.")] = None,
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Keeps some branches of a tree, with those that count their elements."""
    # Only who leaves something out waits for what finds it.
    from branchline.layout.keeping import slim as slim_files

    return slim_files, {"branches": _names(branches), "drop": _names(drop)}


@_with_merge_options()
def skim(
    where: Annotated[
        str | None, Option("--where", help='Which entries to keep: "(nMuon > 1) & (MET_pt > 30)".')
    ] = None,
    wagon: Annotated[
        str | None, Option("--wagon", help="FILE:NAME of an object whose select(events) says it, or process.")
    ] = None,
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Keeps the entries of a tree for which an expression holds."""
    from branchline.layout.keeping import skim as skim_files

    if (where is None) == (wagon is None):
        raise OptionError("either --where or --wagon says which entries are kept")
    return skim_files, {"where": where if where is not None else _selecting(wagon or "")}


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _selecting(location: str) -> Select:
    """What the wagon with this name in a file says of events."""
    # Only who has one waits for it.
    from branchline.train.wagons import load_wagons

    path, _, name = location.rpartition(":")
    if not path:
        raise OptionError(f"no wagon is named in {location!r}", hint="FILE.py:NAME")
    wagons, _ = load_wagons(path)
    for one in wagons:
        if one.name == name:
            select: Select = getattr(one.thing, "select", one.process)
            return select
    names = ", ".join(one.name for one in wagons)
    raise WagonError(f"{path} has no wagon {name!r}", path=path, hint=f"it has {names}")
