"""`branchline reorder`, `recompress`, `skim`, `slim`: merges that change how trees lie, or leave something out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from branchline.cli.commands.merge import Codec, FilesToMerge, MergeLimits, NewBaskets, Order, TreeToMerge, run_merge
from branchline.cli.parameters import Option
from branchline.cli.read_options import ReadingSettings
from branchline.errors import OptionError
from branchline.writing.merging.merge import merge as merge_files

if TYPE_CHECKING:
    from branchline.reading.access import Access
    from branchline.writing.merging.skim import SelectChunk

TreeToChange = Annotated[
    str | None,
    Option("--tree", metavar="NAME", help="The tree (default: the only one with such branches)."),
]
OnlyTree = Annotated[
    bool, Option("--only-tree", help="Leave out all other trees and objects (default: keep them whole).")
]


def reorder(
    files: FilesToMerge,
    limits: MergeLimits,
    reading: ReadingSettings,
    tree: TreeToMerge = None,
    order: Order = "entry",
    codec: Codec = None,
) -> int:
    """Writes the baskets of trees in another order.

    Examples:
        Order baskets by entry, for programs that read all branches:
            branchline reorder in.root -o out.root
        Order baskets by branch, for programs that read few branches:
            branchline reorder in.root -o out.root --order branch

    """
    return run_merge(partial(merge_files, tree=tree, order=order, codec=codec), files, reading, limits)


def recompress(
    files: FilesToMerge,
    codec: Annotated[
        str,
        Option("--codec", metavar="CODEC", help="zstd:5, zlib:1, lz4:4, lzma:8, none, or a number of ROOT, as 505."),
    ],
    limits: MergeLimits,
    reading: ReadingSettings,
    tree: TreeToMerge = None,
    order: Order = "entry",
) -> int:
    """Compresses the baskets of trees again, on all cores.

    Examples:
        Make a file that decompresses faster:
            branchline recompress in.root -o out.root --codec zstd:5

    """
    return run_merge(partial(merge_files, tree=tree, order=order, codec=codec), files, reading, limits)


def slim(
    files: FilesToMerge,
    baskets: NewBaskets,
    limits: MergeLimits,
    reading: ReadingSettings,
    branches: Annotated[
        str | None,
        Option("--branches", metavar="NAMES", help="Branches to keep: names and patterns, separated by commas."),
    ] = None,
    drop: Annotated[
        str | None, Option("--drop", metavar="NAMES", help="Branches to leave out, written as --branches.")
    ] = None,
    tree: TreeToChange = None,
    only_tree: OnlyTree = False,
    order: Order = "entry",
    codec: Codec = None,
) -> int:
    """Keeps some branches of a tree, and the branches that count their elements.

    All other trees and objects are kept whole.

    Examples:
        Keep muons and the missing energy:
            branchline slim in.root -o out.root --branches "Muon_*,MET_*"
        Leave out the trigger bits:
            branchline slim in.root -o out.root --drop "HLT_*"

    """
    # Imported here since it imports numpy.
    from branchline.writing.merging.skim import slim as slim_files

    make = partial(
        slim_files,
        branches=_names(branches),
        drop=_names(drop),
        tree=tree,
        only_tree=only_tree,
        order=order,
        codec=codec,
        basket_size=baskets.basket_size,
        cluster_events=baskets.cluster_events,
        cluster_bytes=baskets.cluster_bytes,
    )
    return run_merge(make, files, reading, limits)


def skim(
    files: FilesToMerge,
    baskets: NewBaskets,
    limits: MergeLimits,
    reading: ReadingSettings,
    where: Annotated[
        str | None,
        Option(
            "--where", metavar="EXPRESSION", help='Keep entries for which this is true: "(nMuon > 1) & (MET_pt > 30)".'
        ),
    ] = None,
    wagon: Annotated[
        str | None,
        Option(
            "--wagon",
            metavar="FILE.py:NAME",
            help="Keep entries for which this wagon's select(events), or process(events), is true.",
        ),
    ] = None,
    tree: TreeToChange = None,
    only_tree: OnlyTree = False,
    order: Order = "entry",
    codec: Codec = None,
) -> int:
    """Keeps some entries of a tree, chosen by an expression or by a wagon.

    All other trees and objects are kept whole, such as the sums of weights in the tree Runs of NanoAOD.

    Examples:
        Keep events with two muons:
            branchline skim in.root -o out.root --where "nMuon > 1"
        Keep what a wagon selects:
            branchline skim in.root -o out.root --wagon wagons.py:dimuons

    """
    from branchline.writing.merging.skim import skim as skim_files

    if (where is None) == (wagon is None):
        raise OptionError("skim needs either --where or --wagon")
    selection = None if wagon is None else _selection_of(wagon, reading.access)
    make = partial(
        skim_files,
        where=where,
        select_chunk=selection,
        tree=tree,
        only_tree=only_tree,
        order=order,
        codec=codec,
        basket_size=baskets.basket_size,
        cluster_events=baskets.cluster_events,
        cluster_bytes=baskets.cluster_bytes,
    )
    return run_merge(make, files, reading, limits)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _selection_of(location: str, access: Access) -> SelectChunk:
    """The selection by a wagon in a file."""
    # Imported here since only skims with a wagon need it.
    from branchline.trains.wagons.wagons import load_wagon
    from branchline.trains.worker.selecting import WagonSelection

    path, _, name = location.rpartition(":")
    if not path:
        raise OptionError(f"{location!r} names no wagon", hint="write FILE.py:NAME")
    wagon, others = load_wagon(path, name)
    return WagonSelection(others, wagon.name, access)
