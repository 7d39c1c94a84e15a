"""`branchline rerun`, `reproduce` and `ledger`: repeat a sub-job or a train, and manage stored results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from branchline.base.exit_codes import EXIT_ERROR, EXIT_INCOMPLETE, EXIT_OK
from branchline.base.quantities import count, counted, size
from branchline.base.trust import trust_users
from branchline.cli.options import TrustUser
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_out, print_traceback

if TYPE_CHECKING:
    from branchline.control.trains.run_comparison import PartCompared


def rerun(
    out: Annotated[Path, Argument(metavar="OUT", help="Directory with the results of a run.")],
    subjob: Annotated[str, Argument(metavar="SUBJOB", help="Number of a sub-job, or a file that it reads.")],
    pdb: Annotated[bool, Option("--pdb", help="Open Python's debugger when a wagon raises an exception.")] = False,
    trust_user: TrustUser = None,
) -> int:
    """Run one sub-job of an earlier run on this machine, and compare its result with the stored one.

    The earlier run may have been on this machine, on Dask, Slurm or HTCondor. The current code of the wagons is used.
    The exit code is 3 if a wagon fails or its result differs.

    Examples:
        Run the sub-job of a file in a debugger:
            branchline rerun out data/f7.root --pdb

    """
    # Imported here since it imports awkward.
    from branchline.trains.rerun import rerun as run_again

    trust_users(trust_user or ())
    done = run_again(out, subjob, debug=pdb)
    print_out(f"sub-job {done.index}: {done.label}, {count(done.result.events)} events")
    for name, share in done.result.wagons.items():
        if share.error is not None:
            print_traceback(share.error.traceback or "")
            print_out(f"{name}: failed, {share.error.type}: {share.error.message}")
        elif name in done.same:
            what = "identical to the stored result" if done.same[name] else "DIFFERENT from the stored result"
            print_out(f"{name}: {what}")
        else:
            print_out(f"{name}: succeeded (no stored result to compare with)")
    for note in done.notes:
        log(note)
    if done.result.error is not None:
        print_traceback(done.result.error.traceback)
        log(done.result.error.fault().message)
        return EXIT_ERROR
    return EXIT_OK if done.is_good else EXIT_INCOMPLETE


def reproduce(
    out: Annotated[Path, Argument(metavar="OUT", help="Directory with the results of a run.")],
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="DIR", help="Directory for the new results (default: OUT-again)."),
    ] = None,
    workers: Annotated[
        int | None, Option("--workers", "-j", minimum=0, metavar="N", help="Worker processes (default: use all cores).")
    ] = None,
    present_code: Annotated[
        bool, Option("--present-code", help="Run the current code of the wagons instead of the original one.")
    ] = False,
    force: Annotated[bool, Option("--force", help="Replace earlier results in the new directory.")] = False,
    trust_user: TrustUser = None,
) -> int:
    """Rerun a train from its record, and report what differs: results, packages, code, files.

    The files are read again, and the wagons are taken from the first run, whose code is stored with its results. The
    exit code is 0 if all results are bitwise identical, and 3 if one differs or is missing.

    Examples:
        Check that the results are still the same with the current packages:
            branchline reproduce out

    """
    # Imported here since it imports awkward.
    from branchline.control.trains.run_comparison import compare_runs
    from branchline.trains.rerun import reproduce as run_again

    trust_users(trust_user or ())
    into = output or out.with_name(f"{out.absolute().name}-again")
    first_out, second_out = out.absolute(), into.absolute()
    done = run_again(out, into, workers=workers, present_code=present_code, force=force)
    for note in done.notes:
        log(note)
    for sentence in done.conditions:
        print_out(f"changed since then: {sentence}")
    if done.result.stopped_by is not None:
        log(done.result.stopped_by.fault().message)
        return EXIT_ERROR
    compared = compare_runs(first_out, done.first, second_out, done.result.record)
    for part in compared.parts:
        if part.state != "identical":
            print_out(f"{part.name}: {_what_differs(part)}")
    if compared.is_identical and not done.result.exit_code:
        print_out(f"bitwise identical results: {counted(len(compared.parts), 'file')} in {into}")
        return EXIT_OK
    if not compared.parts:
        print_out("there are no results to compare")
    return EXIT_INCOMPLETE


def _what_differs(part: PartCompared) -> str:
    if not part.differing:
        return f"{part.state}{'; ' if part.note else ''}{part.note}"
    unit = "bin" if part.bins is not None or part.in_errors is not None else "value"
    largest = f", at most by {part.largest:.3g}" if part.largest else ""
    errors = "" if part.in_errors is None else f", {part.in_errors:.2g} of its error"
    return f"{part.differing} of {counted(part.count, unit)} differ{largest}{errors}"


def ledger(
    out: Annotated[Path, Argument(metavar="OUT", help="Directory with the results of a run.")],
    clear: Annotated[
        bool, Option("--clear", help="Delete the stored results of sub-jobs; the results of the run are kept.")
    ] = False,
) -> None:
    """Show the stored results of sub-jobs, which the next run into the same directory reuses.

    Examples:
        List the stored results by wagon:
            branchline ledger out
        Delete them:
            branchline ledger out --clear

    """
    # Imported here since few commands need SQLite.
    from branchline.jobs.ledger import kept_results, remove_ledger
    from branchline.trains.out_folder.claim import claimed

    found = kept_results(out)
    if clear:
        with claimed(out, force=True):
            remove_ledger(out)
        print_out(f"deleted {counted(found.results_count, 'result')}, {size(found.size_bytes)}")
        return
    for one in found.counts:
        used = f"{one.used_count} used by the last run"
        print_out(f"{one.name}: {counted(one.results_count, 'result')}, {size(one.size_bytes)}, {used}")
    together = f"{counted(found.results_count, 'result')}, {size(found.size_bytes)}"
    print_out(f"total: {together}; file size {size(found.file_bytes)}")
