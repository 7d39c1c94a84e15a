"""`branchline convert`: TTree to RNTuple, RNTuple to TTree, and both to Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from branchline.base.quantities import count, counted, size
from branchline.cli.options import ReadingSettings, requests_recorded
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_out
from branchline.cli.progress_bar import progress_bar
from branchline.writing.columns.output_file import CLUSTER_BYTES, PAGE_BYTES, ConvertProgress

KINDS = {"rntuple": "RNTuple", "ttree": "TTree", "parquet": "Parquet"}
_LAYOUT = "How the output is laid out"


class OutputLayout(NamedTuple):
    """The layout of the output."""

    codec: Annotated[
        str, Option("--codec", metavar="CODEC", help="zstd:5, zlib:1, lz4:4, lzma:8 or none.", group=_LAYOUT)
    ] = "zstd:5"
    cluster_events: Annotated[
        int | None, Option("--cluster-events", minimum=1, help="Entries of a cluster.", group=_LAYOUT)
    ] = None
    cluster_bytes: Annotated[
        str,
        Option("--cluster-bytes", metavar="SIZE", help="Approximate compressed size of a cluster.", group=_LAYOUT),
    ] = CLUSTER_BYTES
    page_size: Annotated[
        str,
        Option("--page-size", metavar="SIZE", help="Largest page or basket, before compression.", group=_LAYOUT),
    ] = PAGE_BYTES


def convert(
    inputs: Annotated[
        list[str], Argument(metavar="IN...", help="Files, patterns, directories, lists of files (.txt), FILE:TREE.")
    ],
    output: Annotated[Path, Option("--output", "-o", metavar="OUT", help="The file to write.")],
    layout: OutputLayout,
    reading: ReadingSettings,
    to: Annotated[
        Literal["rntuple", "ttree", "parquet"] | None,
        Option("--to", help="Format of OUT (default: Parquet for *.parquet, else the other of TTree and RNTuple)."),
    ] = None,
    tree: Annotated[
        str | None, Option("--tree", metavar="NAME", help="Tree of the files, where IN does not name one.")
    ] = None,
    branches: Annotated[
        str | None,
        Option("--branches", metavar="NAMES", help="Branches to keep: names and patterns, separated by commas."),
    ] = None,
    drop: Annotated[
        str | None, Option("--drop", metavar="NAMES", help="Branches to leave out, written as --branches.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace OUT if it exists.")] = False,
    memory: Annotated[str, Option("--memory", metavar="SIZE", help="Memory for reading.")] = "1 GiB",
) -> None:
    """Converts trees: a TTree to an RNTuple, an RNTuple to a TTree, or either to Parquet.

    Examples:
        Convert a TTree to an RNTuple:
            branchline convert in.root:Events -o out.root
        Write some branches of many files to one Parquet file:
            branchline convert data/*.root --tree Events -o muons.parquet --branches "nMuon,Muon_*"

    """
    # Imported here since it imports awkward.
    from branchline.writing.merging.convert import convert as convert_files

    with requests_recorded(reading.trace_to), _progress() as progress:
        made = convert_files(
            inputs,
            output,
            to=to,
            tree=tree,
            branches=branches.split(",") if branches else None,
            drop=drop.split(",") if drop else (),
            codec=layout.codec,
            cluster_entries=layout.cluster_events,
            cluster_bytes=layout.cluster_bytes,
            page_bytes=layout.page_size,
            memory_limit=memory,
            access=reading.access,
            force=force,
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


@contextmanager
def _progress() -> Iterator[Callable[[ConvertProgress], None] | None]:
    with progress_bar("convert", unit="files") as update:
        if update is None:
            yield None
            return

        def report(now: ConvertProgress) -> None:
            update(now.files_done, now.files_count, f"{count(now.entries_done)} entries")

        yield report
