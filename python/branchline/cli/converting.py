"""`branchline convert`: a TTree becomes an RNTuple, an RNTuple a TTree, and both a Parquet file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from branchline.cli.failure import say, tell, told
from branchline.cli.options import Argument, Option
from branchline.cli.reading_options import Reading, with_reading_options
from branchline.layout.targets import CLUSTER_BYTES, PAGE_BYTES, ConvertProgress
from branchline.report.quantities import count, counted, size

KINDS = {"rntuple": "RNTuple", "ttree": "TTree", "parquet": "Parquet"}


@with_reading_options
def convert(
    inputs: Annotated[
        list[str],
        Argument(metavar="IN...", help="Files, patterns, directories, lists of files (.txt), FILE:TREE."),
    ],
    output: Annotated[Path, Option("--output", "-o", help="The file to make.")],
    access: Reading,
    to: Annotated[
        Literal["rntuple", "ttree", "parquet"] | None,
        Option("--to", help="What it is to be; told by the name *.parquet, else the other of the two."),
    ] = None,
    tree: Annotated[str | None, Option("--tree", help="Tree of the files that do not name one.")] = None,
    branches: Annotated[
        str | None, Option("--branches", help="Branches to keep, names or patterns with commas between them.")
    ] = None,
    drop: Annotated[str | None, Option("--drop", help="Branches to leave out, written as --branches.")] = None,
    codec: Annotated[str, Option("--codec", help="zstd:5, zlib:1, lz4:4, lzma:8, none.")] = "zstd:5",
    cluster_events: Annotated[int | None, Option("--cluster-events", min=1, help="Entries of a cluster.")] = None,
    cluster_bytes: Annotated[
        str, Option("--cluster-bytes", help="Compressed bytes of a cluster, about.")
    ] = CLUSTER_BYTES,
    page_size: Annotated[
        str, Option("--page-size", help="Bytes of a page or basket before compression, at most.")
    ] = PAGE_BYTES,
    memory: Annotated[str, Option("--memory", help="What reading may hold.")] = "1 GiB",
    force: Annotated[bool, Option("--force", help="Replace a file that is there already.")] = False,
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Converts trees: a TTree to an RNTuple, an RNTuple to a TTree, both to Parquet."""
    from branchline.layout.converting import convert as convert_files

    with told(debug=debug):
        with _progress_bar() as progress:
            made = convert_files(
                inputs,
                output,
                to=to,
                tree=tree,
                branches=branches.split(",") if branches else None,
                drop=drop.split(",") if drop else (),
                codec=codec,
                cluster_entries=cluster_events,
                cluster_bytes=cluster_bytes,
                page_bytes=page_size,
                memory_limit=memory,
                access=access(),
                force=force,
                progress=progress,
            )
        for old, new in made.renamed:
            say(f"renamed: {old} is field {new}")
        for sentence in made.left_out:
            say(f"left out: {sentence}")
        tell(
            f"{made.path}: {KINDS[made.kind]} of {count(made.entries)} entries of {counted(made.files, 'file')}, "
            f"{counted(made.fields, 'field')} in {counted(made.clusters, 'cluster')}, {size(made.size_bytes)} on disk"
        )


@contextmanager
def _progress_bar() -> Iterator[Callable[[ConvertProgress], None] | None]:
    """Gives the function to call with the progress so far, None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("convert"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} files  {task.fields[done]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("convert", total=None, done="")

        def report(now: ConvertProgress) -> None:
            bar.update(task, completed=now.files_done, total=now.files_count, done=f"{now.entries_done:,} entries")

        yield report
