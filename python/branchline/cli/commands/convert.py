"""`branchline convert`: TTree to RNTuple, RNTuple to TTree, both to Parquet, and objects to flat columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Literal, NamedTuple

from branchline.base.codecs import DEFAULT_CODEC, USUAL_SETTINGS
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
from branchline.writing.columns.output_file import CLUSTER_BYTES, PAGE_BYTES, ConvertProgress

KINDS = {"rntuple": "RNTuple", "ttree": "TTree", "parquet": "Parquet"}


class OutputLayout(NamedTuple):
    """Options for how entries are stored in the output."""

    codec: Annotated[str, Option("--codec", metavar="CODEC", help=f"{USUAL_SETTINGS} or none.", group=LAYOUT)] = (
        DEFAULT_CODEC
    )
    cluster_events: ClusterEvents = None
    cluster_bytes: Annotated[str, CLUSTER_BYTES_OPTION] = CLUSTER_BYTES
    page_size: Annotated[
        str,
        Option(
            "--page-size", metavar="SIZE", help="Maximum size of a page or basket, before compression.", group=LAYOUT
        ),
    ] = PAGE_BYTES


def convert(
    inputs: Annotated[
        list[str], Argument(metavar="IN...", help="Files, patterns, directories, lists of files (.txt), FILE:TREE.")
    ],
    target: OutputFile,
    kept: KeptBranches,
    layout: OutputLayout,
    reading: ReadingSettings,
    to: Annotated[
        Literal["rntuple", "ttree", "parquet"] | None,
        Option(
            "--to",
            help="Format of OUT (default: Parquet for *.parquet, otherwise RNTuple for TTrees and TTree for RNTuples).",
        ),
    ] = None,
    tree: Annotated[
        str | None, Option("--tree", metavar="NAME", help="Tree to convert if IN does not name one.")
    ] = None,
    flatten: Annotated[
        bool,
        Option(
            "--flatten",
            help="Write a column for each member of objects, such as Track_fPos_fX; --branches and --drop also take "
            "names of columns.",
        ),
    ] = False,
    verify: Annotated[
        bool, Option("--verify", help="Read the columns of --flatten back and compare them with the input.")
    ] = False,
    memory: Annotated[str, Option("--memory", metavar="SIZE", help="Memory for reading.")] = "1 GiB",
) -> None:
    """Convert trees: a TTree to an RNTuple, an RNTuple to a TTree, or either to Parquet.

    Examples:
        Convert a TTree to an RNTuple:
            branchline convert in.root:Events -o out.root
        Write some branches of many files to one Parquet file:
            branchline convert data/*.root --tree Events -o muons.parquet --branches "nMuon,Muon_*"
        Write the members of objects as columns of numbers, and compare them with the objects:
            branchline convert objects.root -o flat.root --flatten --to ttree --verify

    """
    # Imported here since it imports awkward.
    from branchline.writing.merging.convert import convert as convert_files

    names = kept.names()
    with requests_recorded(reading.trace_to), _progress() as progress:
        made = convert_files(
            inputs,
            target.output,
            to=to,
            tree=tree,
            branches=names["branches"],
            flatten=flatten,
            verify=verify,
            drop=names["drop"] or (),
            codec=layout.codec,
            cluster_entries=layout.cluster_events,
            cluster_bytes=layout.cluster_bytes,
            page_bytes=layout.page_size,
            memory_limit=memory,
            access=reading.access,
            force=target.force,
            progress=progress,
        )
    for old, new in made.renamed:
        log(f"renamed: {old} is field {new}")
    for sentence in made.left_out:
        log(f"left out: {sentence}")
    print_out(
        f"{made.path}: {KINDS[made.kind]} of {count(made.entries)} entries of {counted(made.files, 'file')}, "
        f"{counted(made.fields, 'field')} in {counted(made.clusters, 'cluster')}, {size(made.size_bytes)} on disk"
    )
    if verify:
        print_out("verified: the output was read again, and all columns have the values of the input")


@contextmanager
def _progress() -> Iterator[Callable[[ConvertProgress], None] | None]:
    with progress_bar("convert", unit="files") as update:
        if update is None:
            yield None
            return

        def report(now: ConvertProgress) -> None:
            update(now.files_done, now.files_count, f"{count(now.entries_done)} entries")

        yield report
