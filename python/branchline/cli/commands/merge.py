"""`branchline merge` and the commands that rewrite trees: `reorder`, `recompress`, `slim` and `skim`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from branchline.base.codecs import USUAL_SETTINGS
from branchline.base.exit_codes import EXIT_INCOMPLETE, EXIT_OK
from branchline.base.quantities import count, counted, size
from branchline.cli.options import (
    CLUSTER_BYTES_OPTION,
    LAYOUT,
    ClusterEvents,
    KeptBranches,
    OutputFile,
    ReadingSettings,
    requests_recorded,
)
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_out
from branchline.cli.progress_bar import progress_bar
from branchline.cli.tables.lines import log_filled
from branchline.errors import OptionError
from branchline.reading.access import Access
from branchline.writing.merging.merge import MergeOptions, MergeProgress, MergeResult
from branchline.writing.merging.merge import merge as merge_files

if TYPE_CHECKING:
    from branchline.writing.merging.skim import SelectChunk

_SAFETY = "Limits and safety"
_CODECS = f"{USUAL_SETTINGS}, none, or a ROOT compression setting, such as 505."
Codec = Annotated[str | None, Option("--codec", metavar="CODEC", help=f"Recompress baskets: {_CODECS}", group=LAYOUT)]
TreeToMerge = Annotated[
    str | None, Option("--tree", metavar="NAME", help="Merge only this tree (default: everything).")
]
TreeToChange = Annotated[
    str | None,
    Option("--tree", metavar="NAME", help="The tree to change (default: the only tree that has the branches)."),
]
OnlyTree = Annotated[bool, Option("--only-tree", help="Leave out all other trees and objects (default: keep them).")]
FillMissing = Annotated[
    bool,
    Option(
        "--fill-missing-branches",
        help="Write the branches of all files; entries of files that lack a branch get 0, false or an empty value.",
    ),
]


class BasketOptions(NamedTuple):
    """Options for how a merge stores entries in the output."""

    order: Annotated[
        Literal["entry", "branch", "offset"],
        Option(
            "--order",
            help="Order of the baskets of each file: by entry, by branch, or by offset (unchanged).",
            group=LAYOUT,
        ),
    ] = "entry"
    basket_size: Annotated[
        str | None,
        Option("--basket-size", metavar="SIZE", help='Write new baskets of this size: "256 kB".', group=LAYOUT),
    ] = None
    cluster_events: ClusterEvents = None
    cluster_bytes: Annotated[str | None, CLUSTER_BYTES_OPTION] = None


class Safety(NamedTuple):
    """Options for the limits of a merge and its behaviour on failures."""

    max_size: Annotated[
        str | None,
        Option(
            "--max-size",
            metavar="SIZE",
            help='Split the output into files of at most this size: "2 GB".',
            group=_SAFETY,
        ),
    ] = None
    skip_bad_files: Annotated[
        bool, Option("--skip-bad-files", help="Leave out files that cannot be merged, and list them.", group=_SAFETY)
    ] = False
    verify: Annotated[
        bool, Option("--verify", help="Read the output back and compare it with the input.", group=_SAFETY)
    ] = False
    memory: Annotated[
        str, Option("--memory", metavar="SIZE", help="Memory for open files and copied baskets.", group=_SAFETY)
    ] = "1 GiB"
    resume: Annotated[bool, Option("--resume", help="Continue a killed merge of the same files.", group=_SAFETY)] = (
        False
    )
    no_sync: Annotated[
        bool,
        Option(
            "--no-sync",
            help="Do not wait until the output is on disk: safe if the merge is killed, unsafe on power failure.",
            group=_SAFETY,
        ),
    ] = False


class Merging(NamedTuple):
    """The arguments and options shared by all merging commands."""

    inputs: Annotated[list[str], Argument(metavar="IN...", help="Files, patterns, directories, lists of files (.txt).")]
    to: OutputFile
    layout: BasketOptions
    safety: Safety
    reading: ReadingSettings

    @contextmanager
    def options(self, codec: str | None) -> Iterator[MergeOptions]:
        """Yield the options for the Python functions `merge`, `slim` and `skim`.

        Inside the ``with`` block, reads are recorded and progress is shown.
        """
        safety = self.safety
        with requests_recorded(self.reading.trace_to), _progress() as progress:
            yield {
                "order": self.layout.order,
                "codec": codec,
                "basket_size": self.layout.basket_size,
                "cluster_events": self.layout.cluster_events,
                "cluster_bytes": self.layout.cluster_bytes,
                "max_size": safety.max_size,
                "skip_bad_files": safety.skip_bad_files,
                "verify": safety.verify,
                "memory_limit": safety.memory,
                "access": self.reading.access,
                "force": self.to.force,
                "resume": safety.resume,
                "sync": not safety.no_sync,
                "progress": progress,
            }


def merge(
    merging: Merging, tree: TreeToMerge = None, fill_missing_branches: FillMissing = False, codec: Codec = None
) -> int:
    """Merge files: copy the baskets of trees, and add histograms and similar objects, as hadd does.

    Trees with the same name must have the same branches in all files, unless missing ones are filled.

    Examples:
        Merge all files of a folder:
            branchline merge data/*.root -o all.root
        Merge NanoAOD of several runs, whose HLT branches differ:
            branchline merge nano/*.root -o all.root --fill-missing-branches
        Recompress, and continue if it is killed:
            branchline merge data/*.root -o all.root --codec zstd:5 --resume

    """
    with merging.options(codec) as options:
        options["fill_missing_branches"] = fill_missing_branches
        merged = merge_files(merging.inputs, merging.to.output, tree=tree, **options)
    return _finished(merged)


def reorder(merging: Merging, tree: TreeToMerge = None, codec: Codec = None) -> int:
    """Write the baskets of trees in another order.

    Examples:
        Order baskets by entry, for programs that read all branches:
            branchline reorder in.root -o out.root
        Order baskets by branch, for programs that read few branches:
            branchline reorder in.root -o out.root --order branch

    """
    return merge(merging, tree, codec=codec)


def recompress(
    merging: Merging,
    codec: Annotated[str, Option("--codec", metavar="CODEC", help=_CODECS)],
    tree: TreeToMerge = None,
) -> int:
    """Recompress the baskets of trees, on all cores.

    Examples:
        Make a file that decompresses faster:
            branchline recompress in.root -o out.root --codec zstd:5

    """
    return merge(merging, tree, codec=codec)


def slim(
    merging: Merging,
    kept: KeptBranches,
    tree: TreeToChange = None,
    only_tree: OnlyTree = False,
    codec: Codec = None,
) -> int:
    """Keep some branches of a tree, and their counter branches, such as nMuon.

    All other trees and objects are kept.

    Examples:
        Keep muons and the missing energy:
            branchline slim in.root -o out.root --branches "Muon_*,MET_*"
        Leave out the trigger bits:
            branchline slim in.root -o out.root --drop "HLT_*"

    """
    # Imported here since it imports numpy.
    from branchline.writing.merging.skim import slim as slim_files

    with merging.options(codec) as options:
        slimmed = slim_files(
            merging.inputs, merging.to.output, **kept.names(), tree=tree, only_tree=only_tree, **options
        )
    return _finished(slimmed)


def skim(
    merging: Merging,
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
    codec: Codec = None,
) -> int:
    """Keep some entries of a tree, selected by an expression or by a wagon.

    All other trees and objects are kept, such as the sums of weights in the tree Runs of NanoAOD.

    Examples:
        Keep events with two muons:
            branchline skim in.root -o out.root --where "nMuon > 1"
        Keep the events that a wagon selects:
            branchline skim in.root -o out.root --wagon wagons.py:dimuons

    """
    from branchline.writing.merging.skim import skim as skim_files

    if (where is None) == (wagon is None):
        raise OptionError("skim needs either --where or --wagon")
    selection = None if wagon is None else _selection_of(wagon, merging.reading.access)
    with merging.options(codec) as options:
        skimmed = skim_files(
            merging.inputs,
            merging.to.output,
            where=where,
            select_chunk=selection,
            tree=tree,
            only_tree=only_tree,
            **options,
        )
    return _finished(skimmed)


def _selection_of(location: str, access: Access) -> SelectChunk:
    """Return the selection function of a wagon, which is given by its location in a file."""
    # Imported here since only skims with a wagon need it.
    from branchline.trains.wagons.wagons import load_wagon
    from branchline.trains.worker.selecting import WagonSelection

    path, _, name = location.rpartition(":")
    if not path:
        raise OptionError(f"{location!r} does not name a wagon", hint="write FILE.py:NAME")
    wagon, others = load_wagon(path, name)
    return WagonSelection(others, wagon.name, access)


def _finished(merged: MergeResult) -> int:
    """Print the result of a merge, and return the exit code."""
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
    return EXIT_INCOMPLETE if merged.skipped else EXIT_OK


@contextmanager
def _progress() -> Iterator[Callable[[MergeProgress], None] | None]:
    with progress_bar("merge", unit="files") as update:
        if update is None:
            yield None
            return

        def report(now: MergeProgress) -> None:
            update(now.files_done, now.files_count, size(now.bytes_done))

        yield report
