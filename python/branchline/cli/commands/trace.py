"""`branchline trace`: record which bytes a program reads, and show and compare traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from branchline.cli.commands.report import ReportTo, command_reported
from branchline.cli.options import ReadingSettings, requests_recorded
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_json, print_out

TraceFile = Annotated[Path, Argument(metavar="TRACE", help="A trace (.parquet).")]
AsJson = Annotated[bool, Option("--json", help="Print everything as JSON.")]


def run_command(
    command: Annotated[
        list[str], Argument(metavar="-- COMMAND...", help="Any program with its arguments.", takes_rest=True)
    ],
    output: Annotated[Path, Option("--output", "-o", metavar="TRACE", help="The trace to write.")] = Path(
        "trace.parquet"
    ),
    report_to: ReportTo = None,
) -> int:
    """Record the reads of any program with strace: which branches and baskets of ROOT files they access.

    Exits with the code of the program. Reads through io_uring and memory mappings are not recorded.

    Examples:
        Record what a ROOT macro reads:
            branchline trace run -o macro.parquet -- root -b -q macro.C
        Report the reads to a control room:
            branchline trace run --report-to http://127.0.0.1:8765 -- root -b -q macro.C

    """
    from branchline.base.whole_files import check_writable
    from branchline.tracing.facts import headline
    from branchline.tracing.strace import follow
    from branchline.tracing.trace import check_replaceable
    from branchline.tracing.trace_summary import summarise

    _use_system_memory()
    # Checked before the program runs, which may take hours.
    check_replaceable(output)
    check_writable(output)
    with command_reported(command, report_to) as reported:
        found = follow(command, begin=reported.begin)
        summary = summarise(found)
        reported.end(summary)
    found.write(output)
    for line in headline(summary):
        log(line)
    for note in found.notes:
        log(note)
    log(f"show it with: branchline trace show {output}")
    return found.job.exit_code or 0


def show(
    path: TraceFile,
    as_json: AsJson = False,
    html: Annotated[
        Path | None,
        Option("--html", metavar="FILE", help="Write a page with plots that can be zoomed to single baskets."),
    ] = None,
) -> None:
    """Show a trace: calls and bytes by file, branch and event, sizes of requests, seeks, bytes read but not used.

    Examples:
        Write the page of a trace:
            branchline trace show trace.parquet --html trace.html

    """
    from branchline.cli.tables.terminal import console
    from branchline.cli.tables.trace_tables import print_summary
    from branchline.tracing.trace import read_trace
    from branchline.tracing.trace_page import write_page
    from branchline.tracing.trace_summary import summarise

    _use_system_memory()
    found = read_trace(path)
    if html is not None:
        write_page(found, html)
    if as_json:
        print_json(summarise(found).as_json())
        return
    print_summary(summarise(found), console())
    if html is not None:
        print_out(f"page written to {html}")


def diff(
    first: Annotated[Path, Argument(metavar="A", help="A trace (.parquet).")],
    second: Annotated[Path, Argument(metavar="B", help="The trace to compare it with.")],
    as_json: AsJson = False,
    html: Annotated[Path | None, Option("--html", metavar="FILE", help="Write a page with both side by side.")] = None,
) -> None:
    """Compare two traces: what changed, and by how much.

    Examples:
        Compare the reads of two jobs:
            branchline trace diff before.parquet after.parquet

    """
    from branchline.cli.tables.terminal import console
    from branchline.cli.tables.trace_tables import print_comparison
    from branchline.tracing.trace import read_trace
    from branchline.tracing.trace_comparison import compare, write_comparison

    _use_system_memory()
    traces = read_trace(first), read_trace(second)
    found = compare(*traces)
    if html is not None:
        write_comparison(*traces, html)
    if as_json:
        print_json(found.as_json())
        return
    print_comparison(found, console())
    if html is not None:
        print_out(f"page written to {html}")


def recover(
    path: Annotated[Path, Argument(metavar="TRACE", help="The file given to --trace or -o.")],
) -> None:
    """Create the trace of a killed job from the records that the job has already written.

    Examples:
        Recover the trace of a killed job:
            branchline trace recover trace.parquet

    """
    from branchline.tracing.facts import headline
    from branchline.tracing.recording import recover as recover_trace
    from branchline.tracing.trace_summary import summarise

    _use_system_memory()
    for line in headline(summarise(recover_trace(path))):
        log(line)


def replay(
    path: TraceFile,
    reading: ReadingSettings,
    on: Annotated[
        str | None,
        Option(
            "--on",
            metavar="PLACE",
            help="Current location of the files: a directory, a URL, or OLD=NEW to replace a prefix of their paths.",
        ),
    ] = None,
    requests: Annotated[
        bool, Option("--requests", help="Request the same byte ranges (default: plan requests for the same baskets).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Repeat the reads of a trace without processing the bytes: from another storage, or with other options.

    Examples:
        Read the same baskets from a server:
            branchline trace replay trace.parquet --on root://server.example//store

    """
    from branchline.cli.tables.terminal import console
    from branchline.cli.tables.trace_tables import print_replayed
    from branchline.tracing.replay import replay_baskets, replay_requests
    from branchline.tracing.trace import read_trace

    _use_system_memory()
    with requests_recorded(reading.trace_to):
        found = (replay_requests if requests else replay_baskets)(read_trace(path), on, reading.access)
    if as_json:
        print_json(found.as_json())
        return
    print_replayed(found, console())


def export(
    path: TraceFile,
    output: Annotated[Path, Argument(metavar="OUT.json", help="The file to write, for ui.perfetto.dev.")],
) -> None:
    """Export a trace in the format of Perfetto and chrome://tracing.

    Examples:
        View a trace in Perfetto:
            branchline trace export trace.parquet trace.json

    """
    from branchline.tracing.perfetto import write_perfetto
    from branchline.tracing.trace import read_trace

    _use_system_memory()
    write_perfetto(read_trace(path), output)
    print_out(f"open {output} at ui.perfetto.dev")


def import_requests(
    path: Annotated[Path, Argument(metavar="BLKPARSE.txt", help="The text output of blkparse.")],
    output: Annotated[Path, Option("--output", "-o", metavar="TRACE", help="The trace to write.")] = Path(
        "trace.parquet"
    ),
) -> None:
    """Convert the requests that blktrace recorded at block devices to a trace: what really reached the disk.

    Write its output with `blktrace -d /dev/sda -w 60 -o - | blkparse -i - > reads.txt`, which needs root and a kernel
    with CONFIG_BLK_DEV_IO_TRACE. `branchline trace show --html` then draws offsets and seeks, as seekwatcher does.

    Examples:
        Convert what a disk read:
            branchline trace import reads.txt -o disk.parquet

    """
    from branchline.tracing.blkparse import read_blkparse
    from branchline.tracing.facts import headline
    from branchline.tracing.trace import check_replaceable
    from branchline.tracing.trace_summary import summarise

    _use_system_memory()
    check_replaceable(output)
    found = read_blkparse(path)
    found.write(output)
    for line in headline(summarise(found)):
        log(line)
    for note in found.notes:
        log(note)
    log(f"show it with: branchline trace show {output}")


def _use_system_memory() -> None:
    """Make Arrow use the system's allocator: Arrow's own allocators return memory immediately, which takes half of the
    read time.
    """
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
