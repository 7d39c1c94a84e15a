"""`branchline merge`: many files become one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from branchline.cli.failure import say, tell, told
from branchline.cli.options import Argument, Option
from branchline.cli.reading_options import Reading, with_reading_options
from branchline.layout.merging import MergeProgress, MergeResult
from branchline.layout.merging import merge as merge_files
from branchline.limits import MB
from branchline.report.quantities import count, counted, size
from branchline.train.exit_codes import EXIT_INCOMPLETE


@with_reading_options
def merge(
    inputs: Annotated[
        list[str], Argument(metavar="IN...", help="Files, patterns, directories, lists of files (.txt).")
    ],
    output: Annotated[Path, Option("--output", "-o", help="The file to make.")],
    access: Reading,
    tree: Annotated[str | None, Option("--tree", help="The only tree to merge; everything by default.")] = None,
    order: Annotated[
        Literal["entry", "branch", "offset"],
        Option("--order", help="How the baskets of a file are laid down: by entry, by branch, as they were."),
    ] = "entry",
    codec: Annotated[
        str | None,
        Option("--codec", help="Compress the baskets anew: zstd:5, zlib:1, lz4:4, lzma:8, none."),
    ] = None,
    basket_size: Annotated[
        str | None, Option("--basket-size", help='Write entries to new baskets of this size: "256 kB".')
    ] = None,
    cluster_events: Annotated[
        int | None, Option("--cluster-events", min=1, help="Write entries to new clusters of so many.")
    ] = None,
    cluster_bytes: Annotated[
        str | None, Option("--cluster-bytes", help='Write entries to new clusters of about this size: "30 MB".')
    ] = None,
    max_size: Annotated[
        str | None, Option("--max-size", help='Make several files, none larger than this: "2 GB".')
    ] = None,
    skip_bad_files: Annotated[
        bool, Option("--skip-bad-files", help="Go on without files that cannot be merged, and list them.")
    ] = False,
    verify: Annotated[
        bool, Option("--verify", help="Read what was written again, and compare it with what was copied.")
    ] = False,
    memory: Annotated[str, Option("--memory", help="What open files and copied baskets may take.")] = "1 GiB",
    force: Annotated[bool, Option("--force", help="Replace a file that is there already.")] = False,
    resume: Annotated[
        bool, Option("--resume", help="Go on with what a merge of the same files left when it was killed.")
    ] = False,
    no_sync: Annotated[
        bool,
        Option("--no-sync", help="Do not wait until the disk has the output: a kill does no harm, a power cut may."),
    ] = False,
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Merges files: trees by copying baskets or making new ones, histograms and the like by adding them up."""
    with told(debug=debug):
        tell_of(
            partial(
                merge_files,
                inputs,
                output,
                tree=tree,
                order=order,
                codec=codec,
                basket_size=basket_size,
                cluster_events=cluster_events,
                cluster_bytes=cluster_bytes,
                max_size=max_size,
                skip_bad_files=skip_bad_files,
                verify=verify,
                memory_limit=memory,
                access=access(),
                force=force,
                resume=resume,
                sync=not no_sync,
            )
        )


def tell_of(job: Callable[..., MergeResult]) -> None:
    """Does what takes a ``progress``, shows it, and tells what was made."""
    with _progress_bar() as progress:
        merged = job(progress=progress)
    _tell(merged)
    if merged.skipped:
        raise SystemExit(EXIT_INCOMPLETE)


def _tell(merged: MergeResult) -> None:
    """What was made, and what is not in it."""
    for file in merged.skipped:
        say(f"skipped: {file.path}: {file.reason}")
    for sentence in merged.left_out:
        say(f"left out: {sentence}")
    for sentence in merged.notes:
        say(sentence)
    objects = f", {counted(merged.objects, 'other object')}" if merged.objects else ""
    tell(
        f"{' '.join(merged.paths)}: {count(merged.entries)} entries of {counted(merged.files, 'file')}, "
        f"{counted(merged.baskets, 'basket')} of {size(merged.basket_bytes)}{objects}, "
        f"{size(merged.size_bytes)} on disk"
    )


@contextmanager
def _progress_bar() -> Iterator[Callable[[MergeProgress], None] | None]:
    """Gives the function to call with the progress so far, None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    # Only who looks at it waits for it to be imported.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("merge"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} files  {task.fields[copied]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("merge", total=None, copied="")

        def report(now: MergeProgress) -> None:
            copied = f"{now.bytes_done / MB:,.0f} MB"
            bar.update(task, completed=now.files_done, total=now.files_count, copied=copied)

        yield report
