"""`branchline study schedule` and `study history`: storages watched over weeks."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_out

if TYPE_CHECKING:
    from branchline.lab.studies.history import HistoryPoint


def schedule(
    where: Annotated[list[str], Argument(metavar="WHERE", help="Folders or URLs that hold the same few files.")],
    output: Annotated[Path, Option("--output", "-o", metavar="DIR", help="Directory of the history.")],
    files: Annotated[
        list[str],
        Option("--files", metavar="PATTERN", help="Files below each WHERE; may be repeated (default: *.root)."),
    ] = [],  # noqa: B006 - never changed
    tree: Annotated[str, Option("--tree", help="The tree that --client reads.")] = "",
    client: Annotated[
        str, Option("--client", metavar="CLIENT", help="Who reads: a client of studies that counts no options.")
    ] = "bytes",
    pairs: Annotated[int, Option("--pairs", minimum=1, metavar="N", help="Pairs of each turn, 6 or more.")] = 6,
    minutes: Annotated[int, Option("--minutes", minimum=1, metavar="N", help="Time that a turn may take.")] = 10,
    every: Annotated[
        str, Option("--every", metavar="TIME", help="Take a turn again and again, as every 1d or 6h (default: once).")
    ] = "",
    turns: Annotated[
        int | None, Option("--turns", minimum=1, metavar="N", help="End after so many turns (default: never).")
    ] = None,
    seed: Annotated[
        int | None, Option("--seed", minimum=0, metavar="N", help="Draws the order of the first turn's samples.")
    ] = None,
) -> None:
    """Measures storages with a small paired study, again and again, and keeps their history.

    Each turn reads the files of each storage beside a copy of them on this machine, which is made once: so a change of
    this machine is no change of a storage. Without --every it takes one turn, as cron wants it. The page Watched of
    a control room shows the histories that lie in its directory, under watched.

    Examples:
        Once an hour from cron:
            branchline study schedule root://se.example.org//test https://other.example.org/test -o watched
        Once a day, in the foreground, for the page of a control room:
            branchline study schedule /eos/test -o control-room/watched/eos --every 1d

    """
    from branchline.errors import OptionError
    from branchline.lab.studies.schedule import Watch, take_turn, wait_for_turn
    from branchline.lab.studies.study_file import seconds_of

    every_s = seconds_of(every) if every else 0.0
    if turns is not None and not every:
        raise OptionError("turns need a time between them", hint="give --every, as --every 1d")
    watch = Watch(
        where=tuple(where),
        files=tuple(files) or ("*.root",),
        tree=tree,
        client=client,
        pairs=pairs,
        budget_s=60.0 * minutes,
    )
    first = random.SystemRandom().randrange(10**6) if seed is None else seed
    taken = 0
    while True:
        begun_s = time.monotonic()
        for point in take_turn(watch, output, first + taken, log):
            print_out(_shown(point))
        taken += 1
        if not every or taken == turns:
            return
        wait_for_turn(begun_s, every_s)


def history(
    folder: Annotated[Path, Argument(metavar="DIR", help="The directory of a schedule.")],
) -> None:
    """Says how watched storages are, since when they changed and by how much: a text for their admins.

    Examples:
        What changed:
            branchline study history watched

    """
    from branchline.lab.studies.history import histories, verdict

    for line in verdict(histories(folder)):
        print_out(line)


def _shown(point: HistoryPoint) -> str:
    from branchline.base.quantities import significant

    if point.ratio is None:
        return f"{point.storage}: not measured: {point.error or 'no pair is whole'}"
    interval = "" if point.low is None or point.high is None else f" ({point.low:.3f} to {point.high:.3f})"
    speed = "" if point.megabytes_per_s is None else f", {significant(point.megabytes_per_s)} MB of files/s"
    return f"{point.storage}: {point.ratio:.3f} times the time of the reference{interval}{speed}"
