"""`branchline rerun`: runs one sub-job of an earlier run on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from branchline.base.exit_codes import EXIT_ERROR, EXIT_INCOMPLETE, EXIT_OK
from branchline.base.quantities import count
from branchline.base.trust import trust_users
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import log, print_out, print_traceback
from branchline.cli.trusted_users import TrustUser


def rerun(
    out: Annotated[Path, Argument(metavar="OUT", help="Directory with the results of a run.")],
    subjob: Annotated[str, Argument(metavar="SUBJOB", help="Number of a sub-job, or a file that it reads.")],
    pdb: Annotated[bool, Option("--pdb", help="Open Python's debugger where a wagon raises.")] = False,
    trust_user: TrustUser = None,
) -> int:
    """Runs one sub-job of an earlier run on this machine, and compares its result with the kept one.

    The earlier run may have been on this machine, on Dask, Slurm or HTCondor. The present code of the wagons runs.
    The exit code is 3 if a wagon fails or its result differs.

    Examples:
        Look at the sub-job of a file in a debugger:
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
            what = "the same result as the kept one" if done.same[name] else "DIFFERENT from the kept result"
            print_out(f"{name}: {what}")
        else:
            print_out(f"{name}: succeeded (no kept result to compare with)")
    for note in done.notes:
        log(note)
    if done.result.error is not None:
        print_traceback(done.result.error.traceback)
        log(done.result.error.fault().message)
        return EXIT_ERROR
    return EXIT_OK if done.is_good else EXIT_INCOMPLETE
