"""`branchline plot` and `table`: figures and tables of several samples from the results of a train."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from branchline.base.exit_codes import EXIT_OK
from branchline.base.text_tables import TextTable
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_block_out, print_out
from branchline.errors import StorageError

SystematicsFile = Annotated[
    Path | None,
    Option("--systematics", metavar="FILE", help="TOML file with rates, envelopes, correlations of variations."),
]


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
        Literal["root", "cms", "atlas", "lhcb", "alice", "dune"],
        Option("--style", help="Style and label of an experiment."),
    ] = "root",
    label: Annotated[str, Option("--label", help="Text next to the experiment, such as 'Work in progress'.")] = "",
    energy: Annotated[
        str | None, Option("--energy", metavar="E", help="Centre-of-mass energy: '13.6' is in TeV, or '900 GeV'.")
    ] = None,
    log_scale: Annotated[bool, Option("--log", help="Draw heights on a logarithmic scale.")] = False,
    panel: Annotated[
        Literal["ratio", "pull", "difference", "none"],
        Option("--panel", help="Comparison of data and simulation below the picture."),
    ] = "ratio",
    systematics: SystematicsFile = None,
    blind: Annotated[
        list[str] | None,
        Option("--blind", metavar="NAME", help="Histogram (WAGON/KEY) whose data are left out; may be repeated."),
    ] = None,
    no_overflow: Annotated[
        bool,
        Option("--no-overflow", help="Leave out entries outside the axis, instead of adding them to the outer bins."),
    ] = False,
) -> int:
    """Plot histograms of samples: scaled and stacked simulation, data as points, their ratio, a band of uncertainties.

    Examples:
        Plot all histograms of a run over samples:
            branchline plot out
        Plot one in the style of an experiment:
            branchline plot out --histogram spectrum/pt --signal zprime --style cms --energy 13.6 --format pdf

    """
    # Fonts of a style that are missing are replaced, so users need no warning about them.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    # Imported here since they import numpy and matplotlib.
    from branchline.trains.results.load import load
    from branchline.trains.results.plot import all_stacks, drawn, missing_histogram
    from branchline.trains.results.plot_options import PlotOptions
    from branchline.trains.results.systematics import Systematics
    from branchline.writing.objects.root_names import SafeNames

    results = load(out)
    chosen = []
    for name in histogram or results:
        found = all_stacks(results, name.partition("/")[0], overflow=not no_overflow)
        chosen += [one for one in found if name in (one.wagon, one.name)]
        if histogram and not any(name in (one.wagon, one.name) for one in found):
            raise missing_histogram(name, [one.name for one in found], str(out))
    unknown = [name for name in blind or () if name not in [one.name for one in chosen]]
    if unknown:
        raise missing_histogram(unknown[0], [one.name for one in chosen], str(out))
    declared = Systematics() if systematics is None else Systematics.read(systematics)
    if chosen:
        variations = [name for one in chosen for name in one.variations()]
        declared.check(variations, [member.sample for one in chosen for member in one.samples], str(out))
    safe = SafeNames()
    for stack in chosen:
        options = PlotOptions(
            signal=signal or (),
            panel=panel,
            overflow=not no_overflow,
            log=log_scale,
            style=style,
            label=label,
            energy=energy,
            systematics=declared,
            blind=stack.name in (blind or ()),
        )
        _write(drawn(stack, options).savefig, (output or out / "plots") / f"{safe.give(stack.name)}.{format_}")
    if not chosen:
        log("no wagon has a histogram of one or two axes with separate samples: set by_dataset = True in the wagon")
    return EXIT_OK


def table(
    out: Annotated[Path, Argument(metavar="OUT", help="Directory with the results of a run.")],
    kind: Annotated[
        Literal["yields", "cutflows", "variations"],
        Argument(metavar="KIND", help="What to list: yields, cutflows or variations (the largest first)."),
    ],
    name: Annotated[
        list[str] | None,
        Option(
            "--of",
            metavar="NAME",
            help="WAGON/KEY, or a wagon for cutflows; REGION=WAGON/KEY names a column of yields; may be repeated "
            "(default: all).",
        ),
    ] = None,
    format_: Annotated[
        Literal["text", "latex", "markdown", "html"], Option("--format", help="Format of the tables.")
    ] = "text",
    systematics: SystematicsFile = None,
    blind: Annotated[
        list[str] | None,
        Option("--blind", metavar="REGION", help="Column of yields whose data are not shown; may be repeated."),
    ] = None,
) -> int:
    """Print tables of samples: yields of regions with uncertainties, cutflows, and the largest variations.

    Examples:
        Print the yields of two regions for a paper, without the data of the signal region:
            branchline table out yields --of SR=selected/4j2b --of CR=selected/4j1b --blind SR --format latex
        Find the uncertainties with the largest effect on a histogram:
            branchline table out variations --of selected/4j2b

    """
    # Imported here since they import numpy.
    from branchline.trains.results.load import load
    from branchline.trains.results.plot import all_stacks
    from branchline.trains.results.result_tables import cutflows, largest_variations, yields
    from branchline.trains.results.systematics import Systematics

    results = load(out)
    declared = None if systematics is None else Systematics.read(systematics)
    if kind == "cutflows":
        tables = [cutflows(results, wagon) for wagon in name or results]
    else:
        stacks = [] if name else [stack for wagon in results for stack in all_stacks(results, wagon)]
        names = name or [one.name for one in stacks if len(one.axes) == 1]
        if kind == "variations":
            tables = [largest_variations(results, one, systematics=declared) for one in names]
        else:
            regions = {one.partition("=")[0]: one.partition("=")[2] or one for one in names}
            tables = [yields(results, regions, systematics=declared, blind=blind or ())]
    forms: dict[str, Callable[[TextTable], str]] = {
        "text": str,
        "latex": TextTable.latex,
        "markdown": TextTable.markdown,
        "html": TextTable.html,
    }
    for at, one in enumerate(tables):
        if at:
            print_out("")
        if format_ == "text":
            print_out(one.title)
        print_block_out(forms[format_](one).rstrip("\n"))
    return EXIT_OK


def _write(save: Callable[[Path], None], path: Path) -> None:
    """Write a plot and print its path. Raises StorageError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(path)
    except OSError as error:
        raise StorageError(f"cannot write the plot: {error}", path=str(path)) from error
    print_out(str(path))
