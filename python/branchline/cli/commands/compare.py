"""`branchline compare`: which of two places, accesses, layouts or commands is faster, and how sure that is."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_out

if TYPE_CHECKING:
    from branchline.lab.comparison.command_samples import Subject
    from branchline.lab.comparison.reading_samples import ReadingOptions


class Comparing(NamedTuple):
    """How long two subjects are compared, and what is kept of it."""

    minutes: Annotated[int, Option("--minutes", minimum=1, metavar="N", help="Time that it may take.")] = 10
    precision: Annotated[
        str, Option("--precision", metavar="N%", help="End when half of the interval is as narrow as this.")
    ] = "2%"
    seed: Annotated[
        int | None,
        Option("--seed", minimum=0, metavar="N", help="Draws the order of the runs."),
    ] = None
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Write all samples to a file, as JSON.")
    ] = None


def compare(
    first: Annotated[str, Argument(metavar="A", help="A file, folder, pattern or URL; or a command, in quotes.")],
    plan: Comparing,
    second: Annotated[
        str | None, Argument(metavar="B", help="Another one, with the same data or the same work.")
    ] = None,
    access: Annotated[
        list[str],
        Option(
            "--access",
            metavar="MODE",
            help='How files are read, as "plain" or "plain,read_ahead=1 MiB"; given twice, A and B differ in it.',
        ),
    ] = [],  # noqa: B006 - never changed
    tree: Annotated[str, Option("--tree", help="The tree that is read (default: the only one).")] = "",
    branches: Annotated[str, Option("--branches", metavar="NAMES", help="What is read, as px,Muon_*; else all.")] = "",
    warm: Annotated[bool, Option("--warm", help="Read files from the page cache, and not cold.")] = False,
    cold: Annotated[
        list[str],
        Option(
            "--cold",
            metavar="PATH",
            help="Throw this file, or all below this folder, out of the page cache before each run; may be repeated.",
        ),
    ] = [],  # noqa: B006 - never changed
) -> None:
    """Says which of two places, access modes, layouts or commands is faster, by how much, and how sure that is.

    Both run in rounds, in an order that is drawn, and the first one twice: what it takes beside itself shows what the
    machine alone does. The ratio of their times has an interval by the signed-rank test; six rounds are needed for it.
    It says in which phase the difference lies; of commands only what is seen from outside, but for `branchline run`,
    which gets --force and --no-reuse. Files are read cold where they can be, and that is proved.

    Examples:
        Whether a server is as fast as the disk behind it:
            branchline compare /data/a.root root://localhost//data/a.root --cold /data/a.root
        Two ways to read the same files:
            branchline compare --access plain --access prefetch 'data/*.root'
        Whether a merged file is read faster, for some branches:
            branchline compare old.root new.root --tree Events --branches 'Muon_*'
        Whether a second process helps, with the files on the disk and not in memory:
            branchline compare --cold data 'branchline run w.py data -o one -j 1' 'branchline run w.py data -o two -j 2'
        Beside a macro of ROOT:
            branchline compare 'root -b -q macro.C' 'branchline run wagons.py data -o out'

    """
    from branchline.base.plain import to_plain
    from branchline.base.whole_files import check_writable, write_whole
    from branchline.lab.comparison.compare import ComparisonPlan, local_files, verdict
    from branchline.lab.comparison.compare import compare as compared
    from branchline.lab.comparison.reading_samples import ReadingOptions

    drawn = random.SystemRandom().randrange(10**6) if plan.seed is None else plan.seed
    files = tuple(file for path in cold for file in local_files(path))
    wanted = ReadingOptions(tree, tuple(one for one in branches.split(",") if one), not warm, files)
    one, other = _subjects(first, second, access, wanted)
    wished = ComparisonPlan(one, other, _part(plan.precision), plan.minutes * 60.0, seed=drawn, cold=files)
    wished.check()
    if plan.output is not None:
        check_writable(plan.output)
    log(f"the order of the runs is drawn by --seed {drawn}")
    found = compared(wished, log)
    for subject in (one, other):
        print_out(f"{subject.name}: {' '.join(subject.whole)}")
    for line in verdict(found):
        print_out(line)
    if plan.output is not None:
        write_whole(plan.output, json.dumps(to_plain(found), indent=1).encode())


def _subjects(first: str, second: str | None, access: list[str], wanted: ReadingOptions) -> tuple[Subject, Subject]:
    """What is compared. Raises OptionError for what does not go together."""
    from branchline.errors import OptionError
    from branchline.lab.comparison.command_samples import Command
    from branchline.lab.comparison.reading_samples import Reading, is_place

    if len(access) > 2:
        raise OptionError(f"--access is given {len(access)} times", hint="give it once for both, or twice")
    if not second and len(access) < 2:
        raise OptionError("there is nothing to compare it with", hint="give B, or --access twice")
    second = second or first
    accesses = [access[0], access[-1]] if access else ["", ""]
    if is_place(first) != is_place(second):
        place, command = (first, second) if is_place(first) else (second, first)
        raise OptionError(f"{place!r:.200} is a file, and {command!r:.200} a command", hint="compare two of a kind")
    if is_place(first):
        return Reading.of("A", first, accesses[0], wanted), Reading.of("B", second, accesses[1], wanted)
    if access or wanted.tree or wanted.branches or not wanted.is_cold:
        raise OptionError("--access, --tree, --branches and --warm are for files", hint="write them into the commands")
    commands = Command.of("A", first), Command.of("B", second)
    for one in commands:
        if one.added:
            log(f"{one.name} runs with {' '.join(one.added)}, so that nothing of the run before is taken")
    return commands


def _part(text: str) -> float:
    """Per cent as a part."""
    from branchline.errors import OptionError

    try:
        return float(text.removesuffix("%")) / 100
    except ValueError:
        raise OptionError(f"{text!r:.40} is no precision", hint="write it like 2%") from None
