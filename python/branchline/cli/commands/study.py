"""`branchline study`: compare storage systems, settings and programs, and monitor storage systems over weeks."""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from branchline.base.exit_codes import EXIT_ERROR, EXIT_OK
from branchline.base.imports import require
from branchline.base.quantities import significant
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_out
from branchline.errors import OptionError

if TYPE_CHECKING:
    from branchline.lab.studies.history import HistoryPoint
    from branchline.lab.studies.schedule import Watch
    from branchline.lab.study import Study

# Matches names of environment variables that may contain secrets, which reports must not show.
_SECRET = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL", re.IGNORECASE)
On = Annotated[
    str | None,
    Option("--on", metavar="FARM", help="Run the jobs on slurm, htcondor or dask=ADDRESS (default: this machine)."),
]


def run(
    file: Annotated[Path, Argument(metavar="FILE.toml", help="The study.")],
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="DIR", help="The study's directory (default: FILE without its extension)."),
    ] = None,
    variables: Annotated[
        list[str],
        Option("--set", metavar="NAME=VALUE", help="Value of ${NAME} in the study; may be repeated."),
    ] = [],  # noqa: B006 - never changed
    minutes: Annotated[
        int | None, Option("--minutes", minimum=1, metavar="N", help="Time limit (default: the study's budget).")
    ] = None,
    seed: Annotated[
        int | None, Option("--seed", minimum=0, metavar="N", help="Seed for the order of the samples.")
    ] = None,
    on: On = None,
) -> None:
    """Run a study, print the result, and write study.html.

    All arms are measured in rounds, in random order. Each baseline is measured twice per round: the ratio of its two
    times shows the noise of the machine. An interrupted study continues when it is run again. A study ends when its
    intervals are as narrow as requested, or when its time is used up.

    Examples:
        Which storage is best for a job:
            branchline study run storages.toml
        For data at another location:
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
        int,
        Option(
            "--files-per-job", minimum=0, metavar="N", help="Files per job; 0 to distribute all files over the jobs."
        ),
    ] = 0,
    tree: Annotated[str, Option("--tree", help="The tree to read (default: the only one).")] = "",
    train: Annotated[
        Path | None,
        Option("--train", metavar="WAGONS.py", help="The real job (default: only copy and read the files)."),
    ] = None,
    jobs: Annotated[str, Option("--jobs", metavar="N,N,...", help="Numbers of concurrent jobs, such as 1,4,16.")] = "1",
    warm: Annotated[bool, Option("--warm", help="Leave files in the page cache.")] = False,
    minutes: Annotated[int, Option("--minutes", minimum=1, metavar="N", help="Time limit.")] = 20,
    seed: Annotated[
        int | None, Option("--seed", minimum=0, metavar="N", help="Seed for the order of the samples.")
    ] = None,
    on: On = None,
) -> None:
    """Test storages by copying files, reading them and running a real job, and write study.html.

    This is the same as `study run` with a generated study: it compares each storage with the first one, and measures
    the limit of each.

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
            raise OptionError(f"invalid variable {one!r:.100}", hint="write it like --set DATA=/scratch/esd")
        found[name] = value
    return found


def _used(file: Path, given: list[str]) -> list[str]:
    """Return the variables that a study uses, each in the form NAME=VALUE. On other machines, the values may differ.

    Variables that may contain secrets are left out, because reports are shared. Users who repeat the study set these
    variables themselves.
    """
    from branchline.lab.studies.study_file import variables_in

    values = {**os.environ, **_variables(given)}
    return [f"{name}={values[name]}" for name in variables_in(file) if name in values and not _SECRET.search(name)]


def _numbers(text: str) -> tuple[int, ...]:
    words = [one.strip() for one in text.split(",")]
    if not all(one.isascii() and one.isdecimal() and 0 < int(one) < 10**6 for one in words):
        raise OptionError(f"invalid numbers of jobs {text!r:.60}", hint="write them like --jobs 1,4,16")
    return tuple(int(one) for one in words)


def _run(study: Study, folder: Path, seed: int | None, on: str | None, words: list[str]) -> None:
    """Run a study on this machine or on a farm, and print its result.

    ``words`` are command-line arguments with which other users can repeat the study.
    """
    from branchline.lab.sampling.farms import taker_on
    from branchline.lab.studies.study_page import write_report
    from branchline.lab.studies.study_run import StudyRun
    from branchline.lab.studies.verdict import sentences
    from branchline.reading.locations import shown_command

    require("jinja2", "pyarrow")
    drawn = random.SystemRandom().randrange(10**6) if seed is None else seed
    folder.mkdir(parents=True, exist_ok=True)
    command = shown_command(
        ["branchline", "study", *words, *(["--on", on] if on else []), "-o", f"{folder.name}-again"]
    )
    running = StudyRun(study, folder, drawn, taker_on(on, folder), log, command)
    log(f"order of the samples: --seed {running.seed}")
    found = running.run()
    for line in sentences(found):
        print_out(line)
    print_out(f"report: {write_report(folder)}")


def show(
    folder: Annotated[Path, Argument(metavar="DIR", help="The directory of a study.")],
) -> None:
    """Print the results of a study so far, and rewrite its report.

    Examples:
        Show the results so far:
            branchline study show storages

    """
    from branchline.lab.studies.study_page import kept_result, write_report
    from branchline.lab.studies.verdict import sentences

    for line in sentences(kept_result(folder)):
        print_out(line)
    print_out(f"report: {write_report(folder)}")


def schedule(
    where: Annotated[list[str], Argument(metavar="WHERE", help="Folders or URLs that hold the same few files.")],
    output: Annotated[Path, Option("--output", "-o", metavar="DIR", help="Directory of the history.")],
    files: Annotated[
        list[str],
        Option("--files", metavar="PATTERN", help="Files below each WHERE; may be repeated (default: *.root)."),
    ] = [],  # noqa: B006 - never changed
    tree: Annotated[str, Option("--tree", help="The tree for --client to read.")] = "",
    client: Annotated[
        str,
        Option("--client", metavar="CLIENT", help="Client that reads the files: a client of studies, without options."),
    ] = "bytes",
    pairs: Annotated[int, Option("--pairs", minimum=1, metavar="N", help="Pairs per measurement, 6 or more.")] = 6,
    minutes: Annotated[int, Option("--minutes", minimum=1, metavar="N", help="Time limit of a measurement.")] = 10,
    every: Annotated[
        str,
        Option(
            "--every", metavar="TIME", help="Repeat the measurement at this interval, such as 1d or 6h (default: once)."
        ),
    ] = "",
    turns: Annotated[
        int | None,
        Option("--turns", minimum=1, metavar="N", help="Stop after this number of measurements (default: never)."),
    ] = None,
    seed: Annotated[
        int | None,
        Option("--seed", minimum=0, metavar="N", help="Seed for the order of the first measurement's samples."),
    ] = None,
) -> None:
    """Measure storages repeatedly with a small paired study, and record their history.

    Each measurement reads the files from each storage and, as a reference, from a copy on this machine, so that changes
    of this machine are not attributed to a storage. Without --every, the command measures once, which suits cron. A
    control room shows the histories in the folder `watched` of its directory on the page Watched.

    Examples:
        Once an hour from cron:
            branchline study schedule root://se.example.org//test https://other.example.org/test -o watched
        Once a day, in the foreground, for the page of a control room:
            branchline study schedule /eos/test -o control-room/watched/eos --every 1d

    """
    from branchline.lab.studies.schedule import StorageWatch

    watch = StorageWatch(
        where=tuple(where),
        files=tuple(files) or ("*.root",),
        tree=tree,
        client=client,
        pairs=pairs,
        budget_s=60.0 * minutes,
    )
    _take_turns(watch, output, every, turns, seed)


def _take_turns(watch: Watch, output: Path, every: str, turns: int | None, seed: int | None) -> int:
    """Measure once, or at the interval ``every`` until ``turns`` are taken, and print the results. Return the exit
    code, which is 1 if the last turn found wrong values or could not read a storage.
    """
    from branchline.lab.studies.schedule import take_turn, wait_for_turn
    from branchline.lab.studies.study_file import seconds_of

    every_s = seconds_of(every) if every else 0.0
    if turns is not None and not every:
        raise OptionError("--turns needs --every", hint="for example --every 1d")
    first = random.SystemRandom().randrange(10**6) if seed is None else seed
    taken = 0
    while True:
        begun_s = time.monotonic()
        points = list(take_turn(watch, output, first + taken, log))
        for point in points:
            print_out(_point_text(point))
        taken += 1
        if not every or taken == turns:
            is_wrong = any(one.reference is not None and one.reference.wrong for one in points)
            return EXIT_ERROR if is_wrong or any(one.lost and not one.samples for one in points) else EXIT_OK
        wait_for_turn(begun_s, every_s)


def reference(
    where: Annotated[list[str], Argument(metavar="WHERE", help="Folders or URLs that hold the reference file.")],
    output: Annotated[Path, Option("--output", "-o", metavar="DIR", help="Directory of the history.")],
    put: Annotated[
        bool, Option("--put", help="First write the reference file to each WHERE that is a folder and lacks it.")
    ] = False,
    events: Annotated[
        int | None,
        Option(
            "--events", minimum=1, metavar="N", help="Events of the reference file (default: 10000000, a 594 MB file)."
        ),
    ] = None,
    samples: Annotated[
        int, Option("--samples", minimum=1, metavar="N", help="Samples of each WHERE per turn, 6 or more.")
    ] = 6,
    minutes: Annotated[
        int, Option("--minutes", minimum=1, metavar="N", help="Time limit of a turn and of each sample.")
    ] = 10,
    every: Annotated[
        str, Option("--every", metavar="TIME", help="Repeat at this interval, such as 1d or 6h (default: once).")
    ] = "",
    turns: Annotated[
        int | None, Option("--turns", minimum=1, metavar="N", help="Stop after this number of turns (default: never).")
    ] = None,
    seed: Annotated[
        int | None, Option("--seed", minimum=0, metavar="N", help="Seed for the order of the first turn's samples.")
    ] = None,
    on: On = None,
) -> int:
    """Run the reference job, which never changes, at storages, and record its history for each type of worker.

    Each sample checks that the file and the values of the job are the known ones, and repeats the work on a copy in
    memory as a CPU benchmark, to distinguish a slow processor from a slow storage. `study history` and the page
    Watched of a control room show when and by how much either changed. The exit code is 1 if the last turn found wrong
    values or could not read a storage.

    Examples:
        Once a day from cron, for the page of a control room:
            branchline study reference /eos/test root://se.example.org//test -o control-room/watched/reference
        Write the file first, where that is possible:
            branchline study reference /eos/test -o control-room/watched/reference --put
        From the workers of a farm:
            branchline study reference root://se.example.org//test --on slurm -o control-room/watched/farm

    """
    from branchline.lab.reference.frozen_file import EVENTS, frozen_file, write_frozen
    from branchline.lab.studies.reference_watch import ReferenceWatch
    from branchline.reading.locations import is_url

    frozen = frozen_file(output, events or EVENTS)
    for one in where if put else ():
        place = Path(one).expanduser()
        if is_url(one):
            log(f"copy {frozen.name} to {one} with another program")
        elif place.is_dir() and not (place / frozen.name).exists():
            write_frozen(place, frozen.events)
    limit_s = 60.0 * minutes
    watch = ReferenceWatch(where=tuple(where), frozen=frozen, samples=samples, budget_s=limit_s, wait_s=limit_s, on=on)
    return _take_turns(watch, output, every, turns, seed)


def history(
    folder: Annotated[Path, Argument(metavar="DIR", help="The directory of a schedule.")],
) -> None:
    """Print a text for the administrators of watched storages: the state of each storage, and when and by how much it
    changed.

    Examples:
        Show what changed:
            branchline study history watched

    """
    from branchline.lab.studies.history import histories, verdict

    for line in verdict(histories(folder)):
        print_out(line)


def _point_text(point: HistoryPoint) -> str:
    from branchline.lab.studies.history import series_name

    name = series_name(point.storage, point.worker)
    if point.reference is not None and point.reference.wrong:
        return f"{name}: {point.reference.wrong}"
    if point.ratio is None:
        return f"{name}: not measured: {point.error or 'no complete pair'}"
    interval = "" if point.low is None or point.high is None else f" ({point.low:.3f} to {point.high:.3f})"
    speed = "" if point.megabytes_per_s is None else f", {significant(point.megabytes_per_s)} MB of files/s"
    compared = "reference" if point.reference is None else "CPU benchmark"
    doubt = "; it does not count, since other programs kept the machine busy" if point.is_busy else ""
    return f"{name}: {point.ratio:.3f} times the time of the {compared}{interval}{speed}{doubt}"
