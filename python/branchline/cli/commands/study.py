"""`branchline study`: compare storages, settings and programs, and monitor storages over weeks."""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from branchline.base.imports import require
from branchline.base.quantities import significant
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_out
from branchline.errors import OptionError

if TYPE_CHECKING:
    from branchline.lab.studies.history import HistoryPoint
    from branchline.lab.study import Study

# Variables that may hold secrets are left out of reports.
_SECRET = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL", re.IGNORECASE)
On = Annotated[
    str | None,
    Option("--on", metavar="FARM", help="Run the jobs on slurm, htcondor or dask=ADDRESS (default: this machine)."),
]


def run(
    file: Annotated[Path, Argument(metavar="FILE.toml", help="The study.")],
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="DIR", help="The study's directory (default: beside FILE, by its name)."),
    ] = None,
    variables: Annotated[
        list[str],
        Option("--set", metavar="NAME=VALUE", help="Stands for ${NAME} in the study; may be repeated."),
    ] = [],  # noqa: B006 - never changed
    minutes: Annotated[
        int | None, Option("--minutes", minimum=1, metavar="N", help="Time that it may take (default: its budget).")
    ] = None,
    seed: Annotated[
        int | None, Option("--seed", minimum=0, metavar="N", help="Draws the order of the samples.")
    ] = None,
    on: On = None,
) -> None:
    """Measures what a study asks for, says the answer, and writes study.html.

    All arms are measured in rounds, in an order that is drawn, each baseline twice: what it takes beside itself shows
    what the machine alone does. An interrupted study goes on when it is called again. It ends when its intervals are as
    narrow as it wants, or when its time is spent.

    Examples:
        Which storage is best for a job:
            branchline study run storages.toml
        At another place:
            branchline study run storages.toml --set DATA=/scratch/esd -o at-scratch
        With the jobs on a farm, up to 1000 at once:
            branchline study run storages.toml --on slurm

    """
    import dataclasses

    from branchline.lab.studies.study_file import load_study

    study = load_study(file, {**os.environ, **_variables(variables)})
    if minutes is not None:
        study = dataclasses.replace(study, budget_s=minutes * 60.0)
    folder = output or file.with_suffix("")
    words = [str(file.absolute()), *(part for one in _used(file, variables) for part in ("--set", one))]
    words += ["--minutes", str(minutes)] if minutes is not None else []
    _run(study, folder, seed, on, ["run", *words])


def storage(
    where: Annotated[list[str], Argument(metavar="WHERE", help="Folders or URLs that hold the same files.")],
    output: Annotated[Path, Option("--output", "-o", metavar="DIR", help="The study's directory.")],
    files: Annotated[
        list[str],
        Option("--files", metavar="PATTERN", help="Files below each WHERE; may be repeated (default: **/*.root)."),
    ] = [],  # noqa: B006 - never changed
    files_per_job: Annotated[
        int, Option("--files-per-job", minimum=0, metavar="N", help="Files of each job; 0: all are shared out.")
    ] = 0,
    tree: Annotated[str, Option("--tree", help="The tree that is read (default: the only one).")] = "",
    train: Annotated[
        Path | None, Option("--train", metavar="WAGONS.py", help="The real job; without it files are copied and read.")
    ] = None,
    jobs: Annotated[str, Option("--jobs", metavar="N,N,...", help="How many jobs at once, as 1,4,16.")] = "1",
    warm: Annotated[bool, Option("--warm", help="Leave files in the page cache.")] = False,
    minutes: Annotated[int, Option("--minutes", minimum=1, metavar="N", help="Time that it may take.")] = 20,
    seed: Annotated[
        int | None, Option("--seed", minimum=0, metavar="N", help="Draws the order of the samples.")
    ] = None,
    on: On = None,
) -> None:
    """Tests storages by copying files, reading them and running a real job, and writes study.html.

    It is a study as `study run` makes it, without a file: each storage beside the first one, with the limit of each.

    Examples:
        A disk, a server, and a train as the real job:
            branchline study storage /data/esd root://se.example.org//esd --train wagons.py -o storages
        With 100 jobs on a farm:
            branchline study storage root://se.example.org//esd --jobs 100 --on slurm -o storages

    """
    from branchline.lab.study import StorageTests

    tests = StorageTests(
        where=tuple(where),
        files=tuple(files) or ("**/*.root",),
        files_per_job=files_per_job,
        tree=tree,
        train="" if train is None else str(train.absolute()),
        jobs=_numbers(jobs),
        cold=not warm,
        budget_s=60.0 * minutes,
    )
    words = [*where, *(part for one in files for part in ("--files", one))]
    words += ["--files-per-job", str(files_per_job)] if files_per_job else []
    words += ["--tree", tree] if tree else []
    words += ["--train", tests.train] if tests.train else []
    words += ["--jobs", jobs, *(["--warm"] if warm else []), "--minutes", str(minutes)]
    _run(tests.study(), output, seed, on, ["storage", *words])


def _variables(given: list[str]) -> dict[str, str]:
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise OptionError(f"{one!r:.100} sets nothing", hint="write it like --set DATA=/scratch/esd")
        found[name] = value
    return found


def _used(file: Path, given: list[str]) -> list[str]:
    """The variables that a study uses, with the values that they have here: others may have others. A report is shown
    to others, so that those which may be secrets are left out: whoever repeats the study gives their own.
    """
    from branchline.lab.studies.study_file import variables_in

    values = {**os.environ, **_variables(given)}
    return [f"{name}={values[name]}" for name in variables_in(file) if name in values and not _SECRET.search(name)]


def _numbers(text: str) -> tuple[int, ...]:
    words = [one.strip() for one in text.split(",")]
    if not all(one.isascii() and one.isdecimal() and 0 < int(one) < 10**6 for one in words):
        raise OptionError(f"{text!r:.60} are no numbers of jobs", hint="write them like --jobs 1,4,16")
    return tuple(int(one) for one in words)


def _run(study: Study, folder: Path, seed: int | None, on: str | None, words: list[str]) -> None:
    """Runs a study here or on a farm, and prints what it says. ``words`` order it anywhere else."""
    from branchline.lab.sampling.farms import taker_on
    from branchline.lab.studies.study_page import write_report
    from branchline.lab.studies.study_result import sentences
    from branchline.lab.studies.study_run import StudyRun
    from branchline.reading.locations import shown_command

    require("jinja2", "pyarrow")
    drawn = random.SystemRandom().randrange(10**6) if seed is None else seed
    folder.mkdir(parents=True, exist_ok=True)
    command = shown_command(
        ["branchline", "study", *words, *(["--on", on] if on else []), "-o", f"{folder.name}-again"]
    )
    running = StudyRun(study, folder, drawn, taker_on(on, folder), log, command)
    log(f"the order of the samples is drawn by --seed {running.seed}")
    found = running.run()
    for line in sentences(found):
        print_out(line)
    print_out(f"the report is {write_report(folder)}")


def show(
    folder: Annotated[Path, Argument(metavar="DIR", help="The directory of a study.")],
) -> None:
    """Says what a study has found so far, and writes its report again.

    Examples:
        What is known already:
            branchline study show storages

    """
    from branchline.lab.studies.study_page import kept_result, write_report
    from branchline.lab.studies.study_result import sentences

    for line in sentences(kept_result(folder)):
        print_out(line)
    print_out(f"the report is {write_report(folder)}")


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
            print_out(_point_text(point))
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


def _point_text(point: HistoryPoint) -> str:
    if point.ratio is None:
        return f"{point.storage}: not measured: {point.error or 'no pair is whole'}"
    interval = "" if point.low is None or point.high is None else f" ({point.low:.3f} to {point.high:.3f})"
    speed = "" if point.megabytes_per_s is None else f", {significant(point.megabytes_per_s)} MB of files/s"
    return f"{point.storage}: {point.ratio:.3f} times the time of the reference{interval}{speed}"
