"""`branchline ledger`: kept results of the sub-jobs of earlier runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from branchline.base.quantities import counted, size
from branchline.cli.parameters import Argument, Option
from branchline.cli.printing import print_out


def ledger(
    out: Annotated[Path, Argument(metavar="OUT", help="Directory with the results of a run.")],
    clear: Annotated[
        bool, Option("--clear", help="Remove the kept results of sub-jobs; the results of the run stay.")
    ] = False,
) -> None:
    """Shows the kept results of sub-jobs, which the next run into the same directory reuses.

    Examples:
        List the kept results by wagon:
            branchline ledger out
        Remove them:
            branchline ledger out --clear

    """
    # Imported here since few commands need SQLite.
    from branchline.trains.out_folder.kept import kept_results, remove_kept_results

    if clear:
        removed = remove_kept_results(out)
        print_out(f"removed {counted(removed.results_count, 'result')}, {size(removed.size_bytes)}")
        return
    found = kept_results(out)
    for one in found.counts:
        used = f"{one.used_count} used by the last run"
        print_out(f"{one.name}: {counted(one.results_count, 'result')}, {size(one.size_bytes)}, {used}")
    together = f"{counted(found.results_count, 'result')}, {size(found.size_bytes)}"
    print_out(f"together {together}; the file has {size(found.file_bytes)}")
