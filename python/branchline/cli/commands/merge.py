"""`branchline merge`, and the merges that rewrite trees: `reorder`, `recompress`, `slim` and `skim`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, Protocol

from branchline.base.exit_codes import EXIT_INCOMPLETE, EXIT_OK
from branchline.base.quantities import count, counted, size
from branchline.cli.options import ReadingSettings, requests_recorded
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_out
from branchline.cli.progress_bar import progress_bar
from branchline.cli.tables.filled_branches import log_filled
from branchline.errors import OptionError
from branchline.reading.access import Access
from branchline.writing.merging.merge import MergeProgress, MergeResult
from branchline.writing.merging.merge import merge as merge_files

if TYPE_CHECKING:
    from branchline.writing.merging.skim import SelectChunk

_LAYOUT = "How baskets lie in the output"
_SAFETY = "Limits and safety"
Order = Annotated[
    Literal["entry", "branch", "offset"],
    Option("--order", help="Order of the baskets of each file: by entry, by branch, or as they are.", group=_LAYOUT),
]
Codec = Annotated[
    str | None,
    Option(
        "--codec",
        metavar="CODEC",
        help="Compress baskets again: zstd:5, zlib:1, lz4:4, lzma:8, none, or a number of ROOT, as 505.",
        group=_LAYOUT,
    ),
]
TreeToMerge = Annotated[
    str | None, Option("--tree", metavar="NAME", help="Merge only this tree (default: everything).")
]
TreeToChange = Annotated[
    str | None,
    Option("--tree", metavar="NAME", help="The tree (default: the only one with such branches)."),
]
OnlyTree = Annotated[
    bool, Option("--only-tree", help="Leave out all other trees and objects (default: keep them whole).")
]
FillMissing = Annotated[
    bool,
    Option(
        "--fill-missing-branches",
        help="Write the branches of all files; entries of files that lack one get 0, false or nothing.",
    ),
]


class FilesToMerge(NamedTuple):
    """The inputs and the output of every command that merges."""

    inputs: Annotated[list[str], Argument(metavar="IN...", help="Files, patterns, directories, lists of files (.txt).")]
    output: Annotated[Path, Option("--output", "-o", metavar="OUT", help="The file to write.")]
    force: Annotated[bool, Option("--force", help="Replace OUT if it exists.")] = False


class NewBaskets(NamedTuple):
    """Options that put entries into new baskets."""

    basket_size: Annotated[
        str | None,
        Option("--basket-size", metavar="SIZE", help='Write new baskets of this size: "256 kB".', group=_LAYOUT),
    ] = None
    cluster_events: Annotated[
        int | None,
        Option("--cluster-events", minimum=1, help="Write new clusters of this many entries.", group=_LAYOUT),
    ] = None
    cluster_bytes: Annotated[
        str | None,
        Option(
            "--cluster-bytes", metavar="SIZE", help='Write new clusters of about this size: "30 MB".', group=_LAYOUT
        ),
    ] = None


class MergeLimits(NamedTuple):
    """Limits of a merge, and its reaction to failures."""

    max_size: Annotated[
        str | None,
        Option("--max-size", metavar="SIZE", help='Write several files, none larger than this: "2 GB".', group=_SAFETY),
    ] = None
    skip_bad_files: Annotated[
        bool, Option("--skip-bad-files", help="Leave out files that cannot be merged, and list them.", group=_SAFETY)
    ] = False
    verify: Annotated[
        bool, Option("--verify", help="Read the output again and compare it with what was copied.", group=_SAFETY)
    ] = False
    memory: Annotated[
        str, Option("--memory", metavar="SIZE", help="Memory for open files and copied baskets.", group=_SAFETY)
    ] = "1 GiB"
    resume: Annotated[
        bool, Option("--resume", help="Continue an earlier merge of the same files that was killed.", group=_SAFETY)
    ] = False
    no_sync: Annotated[
        bool,
        Option(
            "--no-sync",
            help="Do not wait until the output is on the disk: safe if the merge is killed, not if power fails.",
            group=_SAFETY,
        ),
    ] = False


def merge(
    files: FilesToMerge,
    baskets: NewBaskets,
    limits: MergeLimits,
    reading: ReadingSettings,
    tree: TreeToMerge = None,
    fill_missing_branches: FillMissing = False,
    order: Order = "entry",
    codec: Codec = None,
) -> int:
    """Merges files: copies the baskets of trees, and adds histograms and the like, as hadd does.

    Trees of one name must have the same branches in all files, unless missing ones are filled.

    Examples:
        Merge all files of a folder:
            branchline merge data/*.root -o all.root
        Merge NanoAOD of several runs, whose HLT branches differ:
            branchline merge nano/*.root -o all.root --fill-missing-branches
        Compress again, and continue if it is killed:
            branchline merge data/*.root -o all.root --codec zstd:5 --resume

    """
    make = partial(
        merge_files,
        tree=tree,
        fill_missing_branches=fill_missing_branches,
        order=order,
        codec=codec,
        basket_size=baskets.basket_size,
        cluster_events=baskets.cluster_events,
        cluster_bytes=baskets.cluster_bytes,
    )
    return run_merge(make, files, reading, limits)


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


class MakeMerge(Protocol):
    """A function that merges, with what only some commands have given already."""

    def __call__(
        self,
        inputs: list[str],
        output: Path,
        *,
        force: bool,
        access: Access,
        progress: Callable[[MergeProgress], None] | None,
        max_size: str | None,
        skip_bad_files: bool,
        verify: bool,
        memory_limit: str,
        resume: bool,
        sync: bool,
    ) -> MergeResult:
        """As `branchline.merge`."""


def run_merge(make: MakeMerge, files: FilesToMerge, reading: ReadingSettings, limits: MergeLimits) -> int:
    """Merges with a function, and prints the result."""
    with requests_recorded(reading.trace_to), _progress() as progress:
        merged = make(
            files.inputs,
            files.output,
            force=files.force,
            access=reading.access,
            progress=progress,
            max_size=limits.max_size,
            skip_bad_files=limits.skip_bad_files,
            verify=limits.verify,
            memory_limit=limits.memory,
            resume=limits.resume,
            sync=not limits.no_sync,
        )
    _print_result(merged)
    return EXIT_INCOMPLETE if merged.skipped else EXIT_OK


def _print_result(merged: MergeResult) -> None:
    for file in merged.skipped:
        log(f"skipped: {file.path}: {file.reason}")
    for sentence in merged.left_out:
        log(f"left out: {sentence}")
    log_filled(merged.filled)
    for sentence in merged.notes:
        log(sentence)
    objects = f", {counted(merged.objects, 'other object')}" if merged.objects else ""
    filled = f", {counted(len(merged.filled), 'branch', 'branches')} filled" if merged.filled else ""
    print_out(
        f"{' '.join(merged.paths)}: {count(merged.entries)} entries of {counted(merged.files, 'file')}, "
        f"{counted(merged.baskets, 'basket')} of {size(merged.basket_bytes)}{objects}{filled}, "
        f"{size(merged.size_bytes)} on disk"
    )


@contextmanager
def _progress() -> Iterator[Callable[[MergeProgress], None] | None]:
    with progress_bar("merge", unit="files") as update:
        if update is None:
            yield None
            return

        def report(now: MergeProgress) -> None:
            update(now.files_done, now.files_count, size(now.bytes_done))

        yield report
