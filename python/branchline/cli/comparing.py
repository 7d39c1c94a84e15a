"""`branchline compare`: which of two commands is faster, and how sure that is."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Annotated

from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_out


def compare(
    first: Annotated[str, Argument(metavar="A", help="A command, in quotes.")],
    second: Annotated[str, Argument(metavar="B", help="Another one that does the same work.")],
    minutes: Annotated[int, Option("--minutes", minimum=1, metavar="N", help="Time that it may take.")] = 10,
    precision: Annotated[
        str, Option("--precision", metavar="N%", help="End when half of the interval is as narrow as this.")
    ] = "2%",
    cold: Annotated[
        list[str],
        Option(
            "--cold",
            metavar="PATH",
            help="Throw this file, or all below this folder, out of the page cache before each run; may be repeated.",
        ),
    ] = [],  # noqa: B006 - never changed
    seed: Annotated[
        int | None,
        Option("--seed", minimum=0, metavar="N", help="Draws the order of the runs."),
    ] = None,
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Write all samples to a file, as JSON.")
    ] = None,
) -> None:
    """Says which of two commands is faster, by how much, and how sure that is.

    Both run in rounds, in an order that is drawn, and the first one twice: what it takes beside itself shows what the
    machine alone does. The ratio of their times has an interval by the signed-rank test; six rounds are needed for it.
    Of trains (`branchline run`) it says in which phase the difference lies; they get --force and --no-reuse.

    Examples:
        Whether a second process helps, with the files on the disk and not in memory:
            branchline compare --cold data 'branchline run w.py data -o one -j 1' 'branchline run w.py data -o two -j 2'
        Beside a macro of ROOT:
            branchline compare 'root -b -q macro.C' 'branchline run wagons.py data -o out'

    """
    from branchline.lab.comparing import Plan, local_files
    from branchline.lab.comparing import compare as compared
    from branchline.lab.samples import Command
    from branchline.lab.verdict import verdict
    from branchline.report.whole_files import check_writable, write_whole
    from branchline.sensors.plain import to_plain

    drawn = random.SystemRandom().randrange(10**6) if seed is None else seed
    files = tuple(file for path in cold for file in local_files(path))
    commands = Command.of("A", first), Command.of("B", second)
    plan = Plan(*commands, _part(precision), minutes * 60.0, seed=drawn, cold=files)
    plan.check()
    if output is not None:
        check_writable(output)
    for one in commands:
        if one.added:
            log(f"{one.name} runs with {' '.join(one.added)}, so that nothing of the run before is taken")
    log(f"the order of the runs is drawn by --seed {drawn}")
    found = compared(plan, log)
    for line in verdict(found):
        print_out(line)
    if output is not None:
        write_whole(output, json.dumps(to_plain(found), indent=1).encode())


def _part(text: str) -> float:
    """Per cent as a part."""
    from branchline.errors import OptionError

    try:
        return float(text.removesuffix("%")) / 100
    except ValueError:
        raise OptionError(f"{text!r:.40} is no precision", hint="write it like 2%") from None
