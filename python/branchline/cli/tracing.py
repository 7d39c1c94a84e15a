"""`branchline trace`: follow the reads of a program, show them, compare them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

from branchline.cli.failure import say, told
from branchline.cli.reading_options import Reading, with_reading_options
from branchline.cli.terminal import output
from branchline.report.quantities import count, counted, duration, percent, significant, size
from branchline.report.whole_files import check_writable
from branchline.tracing import follow, read_trace
from branchline.tracing.comparing import TOTALS, compare, sentences, write_comparison
from branchline.tracing.form import check_replaceable
from branchline.tracing.page import write_page
from branchline.tracing.perfetto import write_perfetto
from branchline.tracing.recording import recover as recover_trace
from branchline.tracing.replaying import Replayed, replay_baskets, replay_requests
from branchline.tracing.sentences import headline, remarks
from branchline.tracing.summary import summarise

#: Rows of a table on the terminal; --json has them all.
ROWS_SHOWN = 25

trace = typer.Typer(
    name="trace",
    help="Every read of a job or of any other program: follow it, look at it, compare it.",
    no_args_is_help=True,
    add_completion=False,
)

TraceFile = Annotated[Path, typer.Argument(metavar="TRACE", help="A trace (.parquet).")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@trace.callback()
def begin() -> None:
    """Arrow's own allocators give memory back at once and are given it anew: half of the time of reading a trace."""
    pa.set_memory_pool(pa.system_memory_pool())


@trace.command("run", context_settings={"allow_interspersed_args": False})
def run_command(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="Any program with its arguments.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The trace to write.")] = Path("trace.parquet"),
    debug: Debug = False,
) -> None:
    """Follows any program through strace, and says which branches and baskets its reads of ROOT files hit.

    It ends with the exit code of the program. Reads through io_uring and through mapped memory are not seen.
    """
    with told(debug=debug):
        # Before the command runs, perhaps for hours.
        check_replaceable(output)
        check_writable(output)
        found = follow(command)
        found.write(output)
        for line in headline(summarise(found)):
            say(line)
        for note in found.notes:
            say(note)
        say(f"look at it with: branchline trace show {output}")
        raise SystemExit(int(found.about["exit_code"]))


@trace.command()
def show(
    path: TraceFile,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page with pictures that zoom down to one basket.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Shows what a trace holds: calls and bytes per file, branch and event, sizes, seeks, what was read in vain."""
    with told(debug=debug):
        found = read_trace(path)
        if html is not None:
            write_page(found, html)
        if as_json:
            typer.echo(json.dumps(summarise(found), indent=1))
            return
        print_summary(summarise(found), output())
        if html is not None:
            typer.echo(f"look at {html}")


@trace.command()
def diff(
    first: Annotated[Path, typer.Argument(metavar="A", help="A trace (.parquet).")],
    second: Annotated[Path, typer.Argument(metavar="B", help="The one to compare it with.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with both, side by side.")] = None,
    debug: Debug = False,
) -> None:
    """Compares two traces: what changed and by how much."""
    with told(debug=debug):
        traces = read_trace(first), read_trace(second)
        found = compare(*traces)
        if html is not None:
            write_comparison(*traces, html)
        if as_json:
            typer.echo(json.dumps({**found, "sentences": sentences(found)}, indent=1))
            return
        print_comparison(found, output())
        if html is not None:
            typer.echo(f"look at {html}")


@trace.command()
def recover(
    path: Annotated[Path, typer.Argument(metavar="TRACE", help="The file that --trace was given.")],
    debug: Debug = False,
) -> None:
    """Writes the trace of a job that was killed, from what it left."""
    with told(debug=debug):
        found = recover_trace(path)
        for line in headline(summarise(found)):
            say(line)


@trace.command()
@with_reading_options
def replay(
    path: TraceFile,
    on: Annotated[
        str | None,
        typer.Option("--on", help="Where the files are now: a directory, a URL, or OLD=NEW for beginnings of paths."),
    ] = None,
    requests: Annotated[
        bool, typer.Option("--requests", help="Ask for the same ranges; else the same baskets are planned anew.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    debug: Debug = False,
    *,
    access: Reading,
) -> None:
    """Plays a trace again without what was done with the bytes: what it takes at another storage, or read otherwise."""
    with told(debug=debug):
        found = (replay_requests if requests else replay_baskets)(read_trace(path), on, access())
        if as_json:
            typer.echo(json.dumps(found.as_json(), indent=1))
            return
        print_replayed(found, output())


@trace.command()
def export(
    path: TraceFile,
    output: Annotated[Path, typer.Argument(metavar="OUT.json", help="A file that ui.perfetto.dev opens.")],
    debug: Debug = False,
) -> None:
    """Writes a trace in the format of Perfetto and of chrome://tracing."""
    with told(debug=debug):
        write_perfetto(read_trace(path), output)
        typer.echo(f"open {output} at ui.perfetto.dev")


def print_replayed(found: Replayed, console: Console) -> None:
    """What playing a trace took, beside the original."""
    _print(console, found.how, ("", "original", "now"), [
        ("time with requests on their way", duration(found.original_seconds), duration(found.seconds)),
        ("read calls", count(found.original_calls), count(found.read_calls)),
        ("bytes read", size(found.original_bytes), size(found.read_bytes)),
    ])  # fmt: skip
    if found.left_out:
        console.print(f"{counted(found.left_out, 'request')} failed or have no known place, and were left out")


def print_summary(found: dict[str, Any], console: Console) -> None:
    """The tables of a trace."""
    _print(console, "files", ("file", "size", *_READ_HEAD, "of the file", "seeks"), [
        (row["file"], "-" if row["size_bytes"] is None else size(row["size_bytes"]), *_read(row),
         percent(row["distinct_bytes"], row["size_bytes"] or 0), count(row["seeks"]))
        for row in found["files"]
    ])  # fmt: skip
    _print(console, "what was hit", ("what", *_READ_HEAD), [(row["what"], *_read(row)) for row in found["kinds"]])
    _print(
        console,
        "branches, those with most bytes first",
        ("branch", "tree", "calls", "bytes", "baskets", "read again", "in vain", "reading"),
        [
            (row["branch"], row["tree"], count(row["read_calls"]), size(row["read_bytes"]), count(row["baskets"]),
             size(row["read_bytes"] - row["distinct_bytes"]), size(row["unwanted_bytes"]), duration(row["reading_s"]))
            for row in found["branches"]
        ],
    )  # fmt: skip
    _print(console, "sizes of requests", ("up to", "calls", "bytes"), [
        (size(row["up_to_bytes"]), count(row["read_calls"]), size(row["read_bytes"])) for row in found["sizes"]
    ])  # fmt: skip
    _print(console, "events", ("file", "events", "calls of the first", "most of a later one", "median", "before"), [
        (row["file"], count(len(row["read_calls"])), *_events(row["read_calls"]), count(row["opening_calls"]))
        for row in found["events"]
        if row["read_calls"]
    ])  # fmt: skip
    _print(console, "time of threads", ("doing", "times", "time"), [
        (row["what"], count(row["count"]), duration(row["seconds"])) for row in found["spans"]
    ])  # fmt: skip
    for line in (*headline(found), *remarks(found), *found["about"].get("notes", ())):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def print_comparison(found: dict[str, Any], console: Console) -> None:
    """The tables of two traces, and what changed."""
    for name, about in zip(("first", "second"), found["about"], strict=True):
        console.print(f"{name}: {about.get('command', 'a job')}", markup=False, highlight=False, soft_wrap=True)
    shown = {name: show for name, _, show in TOTALS}
    _print(console, "the whole", ("", "first", "second", "second / first"), [
        (row["label"], shown[row["name"]](row["first"]), shown[row["name"]](row["second"]), _factor(row))
        for row in found["totals"]
    ])  # fmt: skip
    heads = ("calls", "bytes", "second / first")
    for name, key in (("files", "name"), ("kinds", "what"), ("branches", "branch")):
        _print(console, name, (key, *heads), [(row[key], *_pair(row)) for row in found[name]])
    for line in sentences(found):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _pair(row: dict[str, Any]) -> tuple[str, ...]:
    calls, read = row["read_calls"], row["read_bytes"]
    return (
        f"{count(calls['first'])} -> {count(calls['second'])}",
        f"{size(read['first'])} -> {size(read['second'])}",
        _factor(read),
    )


def _factor(row: dict[str, Any]) -> str:
    return "-" if row["factor"] is None else significant(row["factor"], 3)


_READ_HEAD = ("calls", "bytes")


def _read(row: dict[str, Any]) -> tuple[str, str]:
    return count(row["read_calls"]), size(row["read_bytes"])


def _events(calls: list[int]) -> tuple[str, str, str]:
    later = sorted(calls[1:]) or [0]
    return count(calls[0]), count(later[-1]), significant(later[len(later) // 2], 3)


def _print(console: Console, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        return
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for number, heading in enumerate(head):
        is_name = number == 0 or heading == "tree"
        table.add_column(heading, justify="left" if is_name else "right", no_wrap=True)
    for row in rows[:ROWS_SHOWN]:
        table.add_row(*row)
    console.print(table)
    if len(rows) > ROWS_SHOWN:
        console.print(f"and {counted(len(rows) - ROWS_SHOWN, 'row')} more; --json has them all", highlight=False)
