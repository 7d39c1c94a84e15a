"""`branchline reproduce`: runs a whole train again and says what differs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from branchline.base.exit_codes import EXIT_ERROR, EXIT_INCOMPLETE, EXIT_OK
from branchline.base.quantities import counted
from branchline.base.trust import trust_users
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_out
from branchline.cli.trusted_users import TrustUser

if TYPE_CHECKING:
    from branchline.control.trains.comparison.compared import PartCompared


def reproduce(
    out: Annotated[Path, Argument(metavar="OUT", help="Directory with the results of a run.")],
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="DIR", help="Directory for the new results (default: OUT-again)."),
    ] = None,
    workers: Annotated[
        int | None, Option("--workers", "-j", minimum=0, metavar="N", help="Worker processes (default: for all cores).")
    ] = None,
    present_code: Annotated[
        bool, Option("--present-code", help="Run the wagons as their files are now, not as they were.")
    ] = False,
    force: Annotated[bool, Option("--force", help="Replace earlier results in the new directory.")] = False,
    trust_user: TrustUser = None,
) -> int:
    """Runs a train again from its record, and says what differs: results, packages, code, files.

    The files are read again, and the wagons are those of the first run, whose code is kept with its results. The exit
    code is 0 if all results are the same, bit for bit, and 3 if one differs or is missing.

    Examples:
        Are the results still the same with the packages of today?
            branchline reproduce out

    """
    # Imported here since it imports awkward.
    from branchline.control.trains.comparison.run_comparison import compare_runs
    from branchline.trains.reproduce import reproduce as run_again

    trust_users(trust_user or ())
    into = output or out.with_name(f"{out.absolute().name}-again")
    first_out, second_out = out.absolute(), into.absolute()
    done = run_again(out, into, workers=workers, present_code=present_code, force=force)
    for note in done.notes:
        log(note)
    for sentence in done.conditions:
        print_out(f"other than then: {sentence}")
    if done.result.stopped_by is not None:
        log(done.result.stopped_by.fault().message)
        return EXIT_ERROR
    compared = compare_runs(first_out, done.first, second_out, done.result.record)
    for part in compared.parts:
        if part.state != "identical":
            print_out(f"{part.name}: {_what_differs(part)}")
    if compared.is_identical and not done.result.exit_code:
        print_out(f"the same results, bit for bit: {counted(len(compared.parts), 'file')} in {into}")
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
