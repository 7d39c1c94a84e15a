"""`branchline compare`: which of two storage systems, access modes, layouts or commands is faster, with a confidence
interval.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_out

if TYPE_CHECKING:
    from branchline.lab.comparison.command_samples import ComparedSubject
    from branchline.lab.comparison.reading_samples import ReadingOptions


class Comparing(NamedTuple):
    """Options for how long to measure, and for where to write the samples."""

    minutes: Annotated[int, Option("--minutes", minimum=1, metavar="N", help="Time limit.")] = 10
    precision: Annotated[
        str,
        Option("--precision", metavar="N%", help="Stop when the half-width of the confidence interval is this small."),
    ] = "2%"
    seed: Annotated[
        int | None,
        Option("--seed", minimum=0, metavar="N", help="Seed for the order of the runs."),
    ] = None
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Write all samples to a file, as JSON.")
    ] = None


def compare(
    first: Annotated[str, Argument(metavar="A", help="A file, folder, pattern or URL; or a command, in quotes.")],
    plan: Comparing,
    second: Annotated[
        str | None, Argument(metavar="B", help="What to compare A with: the same data or work in another form.")
    ] = None,
    access: Annotated[
        list[str],
        Option(
            "--access",
            metavar="MODE",
            help='Access mode, such as "plain" or "plain,read_ahead=1 MiB"; twice if A and B differ.',
        ),
    ] = [],  # noqa: B006 - never changed
    tree: Annotated[str, Option("--tree", help="The tree to read (default: the only one).")] = "",
    branches: Annotated[
        str, Option("--branches", metavar="NAMES", help="Branches to read, such as px,Muon_* (default: all).")
    ] = "",
    warm: Annotated[bool, Option("--warm", help="Read files from the page cache instead of cold.")] = False,
    cold: Annotated[
        list[str],
        Option(
            "--cold",
            metavar="PATH",
            help="Evict this file, or all files in this folder, from the page cache before each run; may be repeated.",
        ),
    ] = [],  # noqa: B006 - never changed
) -> None:
    """Measure which of two storages, access modes, layouts or commands is faster, by how much, and with what
    confidence.

    A and B run in rounds, in random order. A runs twice per round: the ratio of its two times shows the noise of the
    machine. The ratio of the times of A and B has a confidence interval from the signed-rank test, which needs six
    rounds. The result names the phase in which the difference arises. `branchline run` gets the options --force and
    --no-reuse; for other commands, only externally visible quantities are compared. If possible, files are read cold,
    and the result says whether they were.

    Examples:
        Whether a server is as fast as its disk:
            branchline compare /data/a.root root://localhost//data/a.root --cold /data/a.root
        Two ways to read the same files:
            branchline compare --access plain --access prefetch 'data/*.root'
        Whether a merged file is read faster, for some branches:
            branchline compare old.root new.root --tree Events --branches 'Muon_*'
        Whether a second process helps, with the files on disk and not in memory:
            branchline compare --cold data 'branchline run w.py data -o one -j 1' 'branchline run w.py data -o two -j 2'
        Compare with a ROOT macro:
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
    log(f"order of the runs: --seed {drawn}")
    found = compared(wished, log)
    for subject in (one, other):
        print_out(f"{subject.name}: {' '.join(subject.whole)}")
    for line in verdict(found):
        print_out(line)
    if plan.output is not None:
        write_whole(plan.output, json.dumps(to_plain(found), indent=1).encode())


def _subjects(
    first: str, second: str | None, access: list[str], wanted: ReadingOptions
) -> tuple[ComparedSubject, ComparedSubject]:
    """Return the two subjects to compare. Raises OptionError for an invalid combination of arguments."""
    from branchline.errors import OptionError
    from branchline.lab.comparison.command_samples import ShellCommand
    from branchline.lab.comparison.reading_samples import Reading, is_place

    if len(access) > 2:
        raise OptionError(f"--access is given {len(access)} times", hint="give it once for both, or twice")
    if not second and len(access) < 2:
        raise OptionError("nothing to compare with", hint="give B, or --access twice")
    second = second or first
    accesses = [access[0], access[-1]] if access else ["", ""]
    if is_place(first) != is_place(second):
        place, command = (first, second) if is_place(first) else (second, first)
        raise OptionError(
            f"cannot compare the file {place!r:.200} with the command {command!r:.200}",
            hint="compare two files or two commands",
        )
    if is_place(first):
        return Reading.of("A", first, accesses[0], wanted), Reading.of("B", second, accesses[1], wanted)
    if access or wanted.tree or wanted.branches or not wanted.is_cold:
        raise OptionError(
            "--access, --tree, --branches and --warm only apply to files", hint="put them into the commands"
        )
    commands = ShellCommand.of("A", first), ShellCommand.of("B", second)
    for one in commands:
        if one.added:
            log(f"{one.name} runs with {' '.join(one.added)}, so that it reuses no earlier results")
    return commands


def _part(text: str) -> float:
    """Parse a percentage and return it as a fraction. Raises OptionError."""
    from branchline.errors import OptionError

    try:
        return float(text.removesuffix("%")) / 100
    except ValueError:
        raise OptionError(f"invalid precision {text!r:.40}", hint="write it like 2%") from None
