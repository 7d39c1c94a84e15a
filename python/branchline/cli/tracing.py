"""`branchline trace`: follow the reads of a program, show them, compare them.

What works on traces is imported by the command that wants it: the help of all commands needs nothing of it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from branchline.cli.failure import say, told
from branchline.cli.reading_options import Reading, with_reading_options
from branchline.cli.terminal import output as terminal

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
    import pyarrow as pa

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
    from branchline.report.whole_files import check_writable
    from branchline.tracing.following import follow
    from branchline.tracing.form import check_replaceable
    from branchline.tracing.sentences import headline
    from branchline.tracing.summary import summarise

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
    from branchline.cli.trace_tables import print_summary
    from branchline.tracing.form import read_trace
    from branchline.tracing.page import write_page
    from branchline.tracing.summary import summarise

    with told(debug=debug):
        found = read_trace(path)
        if html is not None:
            write_page(found, html)
        if as_json:
            typer.echo(json.dumps(summarise(found), indent=1))
            return
        print_summary(summarise(found), terminal())
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
    from branchline.cli.trace_tables import print_comparison
    from branchline.tracing.comparing import compare, sentences, write_comparison
    from branchline.tracing.form import read_trace

    with told(debug=debug):
        traces = read_trace(first), read_trace(second)
        found = compare(*traces)
        if html is not None:
            write_comparison(*traces, html)
        if as_json:
            typer.echo(json.dumps({**found, "sentences": sentences(found)}, indent=1))
            return
        print_comparison(found, terminal())
        if html is not None:
            typer.echo(f"look at {html}")


@trace.command()
def recover(
    path: Annotated[Path, typer.Argument(metavar="TRACE", help="The file that --trace was given.")],
    debug: Debug = False,
) -> None:
    """Writes the trace of a job that was killed, from what it left."""
    from branchline.tracing.recording import recover as recover_trace
    from branchline.tracing.sentences import headline
    from branchline.tracing.summary import summarise

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
    from branchline.cli.trace_tables import print_replayed
    from branchline.tracing.form import read_trace
    from branchline.tracing.replaying import replay_baskets, replay_requests

    with told(debug=debug):
        found = (replay_requests if requests else replay_baskets)(read_trace(path), on, access())
        if as_json:
            typer.echo(json.dumps(found.as_json(), indent=1))
            return
        print_replayed(found, terminal())


@trace.command()
def export(
    path: TraceFile,
    output: Annotated[Path, typer.Argument(metavar="OUT.json", help="A file that ui.perfetto.dev opens.")],
    debug: Debug = False,
) -> None:
    """Writes a trace in the format of Perfetto and of chrome://tracing."""
    from branchline.tracing.form import read_trace
    from branchline.tracing.perfetto import write_perfetto

    with told(debug=debug):
        write_perfetto(read_trace(path), output)
        typer.echo(f"open {output} at ui.perfetto.dev")
