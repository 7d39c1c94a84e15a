"""`branchline plot`: plot histograms of several samples from the results of a train."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from branchline.base.exit_codes import EXIT_OK
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_out
from branchline.errors import NoSuchKeyError, StorageError


def plot(
    out: Annotated[Path, Argument(metavar="OUT", help="Directory with the results of a run.")],
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FOLDER", help="Folder for the pictures (default: OUT/plots).")
    ] = None,
    histogram: Annotated[
        list[str] | None,
        Option("--histogram", metavar="NAME", help="A wagon, or WAGON/KEY; may be repeated (default: all)."),
    ] = None,
    signal: Annotated[
        list[str] | None, Option("--signal", metavar="SAMPLE", help="Sample to draw as a line; may be repeated.")
    ] = None,
    format_: Annotated[Literal["png", "pdf", "svg"], Option("--format", help="Format of the pictures.")] = "png",
    style: Annotated[
        Literal["root", "cms", "atlas", "lhcb", "alice"], Option("--style", help="Style of an experiment.")
    ] = "root",
    label: Annotated[str, Option("--label", help="Text above the pictures, such as 'Work in progress'.")] = "",
    log_scale: Annotated[bool, Option("--log", help="Draw heights on a logarithmic scale.")] = False,
    no_ratio: Annotated[bool, Option("--no-ratio", help="Leave out the ratio of data to simulation.")] = False,
    no_overflow: Annotated[
        bool,
        Option("--no-overflow", help="Leave out entries outside the axis, instead of adding them to the outer bins."),
    ] = False,
) -> int:
    """Plot histograms of samples: scaled and stacked simulation, data as points, their ratio, a band of variations.

    Examples:
        Plot all histograms of a run over samples:
            branchline plot out
        Plot one in the style of an experiment:
            branchline plot out --histogram spectrum/pt --signal zprime --style cms --format pdf

    """
    # Fonts of a style that are missing are replaced, so users need no warning about them.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    # Imported here since they import numpy and matplotlib.
    from branchline.trains.results.load import load
    from branchline.trains.results.plot import all_stacks, drawn
    from branchline.writing.objects.root_names import SafeNames

    results = load(out)
    wanted = list(histogram or results)
    folder = output or out / "plots"
    safe = SafeNames()
    count = 0
    for name in wanted:
        found = all_stacks(results, name.partition("/")[0], overflow=not no_overflow)
        chosen = [one for one in found if name in (one.wagon, one.name)]
        if not chosen and histogram:
            there = ", ".join(one.name for one in found)
            what = f"no one-dimensional histogram {name!r} with separate samples"
            raise NoSuchKeyError(what, path=str(out), hint=f"choose one of {there}" if there else None)
        for stack in chosen:
            figure = drawn(
                stack,
                signal=signal or (),
                ratio=not no_ratio,
                overflow=not no_overflow,
                log=log_scale,
                style=style,
                label=label,
            )
            _write(figure.savefig, folder / f"{safe.give(stack.name)}.{format_}")
            count += 1
    if not count:
        log("no wagon has a one-dimensional histogram with separate samples: set by_dataset = True in the wagon")
    return EXIT_OK


def _write(save: Callable[[Path], None], path: Path) -> None:
    """Write a plot and print its path. Raises StorageError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(path)
    except OSError as error:
        raise StorageError(f"cannot write the plot: {error}", path=str(path)) from error
    print_out(str(path))
