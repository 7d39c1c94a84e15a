"""`python -m studies`: run the studies, and write docs/studies."""

from __future__ import annotations

import argparse
import datetime as dt
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from studies import pages, records
from studies.making.sets import FULL, QUICK, Sets
from studies.planning import StudiesRun
from studies.published import StudyPair, all_studies
from studies.running import LEFT_OUT, Runner, summary


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measured(given: argparse.Namespace, chosen: Sequence[StudyPair]) -> list[str]:
    """Run studies, and return the names of the failed ones."""
    data = given.data.resolve()
    # The quick form must not overwrite the samples and the state of a full run.
    work = data / "quick" if given.quick else data
    sets = Sets(data / "files", QUICK if given.quick else FULL, say)
    runner = Runner(sets, work / "samples", given.kept, given.quick, say)
    path = work / f"{'-'.join(filter(None, ['run', given.study]))}.json"
    if given.anew:
        path.unlink(missing_ok=True)
    run = StudiesRun(chosen, path, given.hours * 3600.0, given.quick)
    say(run.estimate())
    begin_s = time.monotonic()
    for number, pair in enumerate(chosen, 1):
        if pair.name in run.state.done:
            say(f"{number} of {len(chosen)}: {pair.name}: finished before: {run.state.done[pair.name]}")
            continue
        budget_s = run.budget_s(pair.name)
        now = dt.datetime.now(dt.UTC)
        say(f"{number} of {len(chosen)}, {now:%H:%M:%S} UTC: {pair.name} ({budget_s:.0f} s): {pair.published.title}")
        try:
            run.end(pair.name, summary(runner.run(pair, budget_s)))
        except Exception as error:  # noqa: BLE001 - the other studies run nevertheless
            run.fail(pair.name)
            say(f"{pair.name} failed: {error}")
    say(f"{len(chosen)} studies took {(time.monotonic() - begin_s) / 60:.1f} minutes")
    for name, text in run.state.done.items():
        if text.startswith(LEFT_OUT):
            say(f"{name}: {text}")
    if not run.state.failed:
        run.forget()
    return run.state.failed


def end_in_order(number: int, _frame: object) -> None:
    """Shut down disks and servers after SIGTERM, as after Ctrl-C. A second signal is ignored."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m studies", description=__doc__)
    parser.add_argument("--study", default="", help="only studies whose name starts with this, such as esd-table-2")
    parser.add_argument("--quick", action="store_true", help="check that studies run: small files, one round, two jobs")
    parser.add_argument("--data", type=Path, default=Path("target/studies"), help="folder for files and samples")
    parser.add_argument("--list", action="store_true", help="list the studies and exit")
    parser.add_argument("--pages-only", action="store_true", help="write the pages from the existing records")
    parser.add_argument("--hours", type=float, default=2.0, help="time for all studies together (default: 2)")
    parser.add_argument("--anew", action="store_true", help="start over instead of resuming an interrupted run")
    quick = "; with --quick below --data"
    parser.add_argument("--kept", type=Path, help=f"folder of the records (default: studies/results{quick})")
    parser.add_argument("--docs", type=Path, help=f"folder of the pages (default: docs/studies{quick})")
    given = parser.parse_args()
    given.kept = given.kept or (given.data / "quick" / "results" if given.quick else records.RECORDS)
    given.docs = given.docs or (given.data / "quick" / "docs" if given.quick else pages.FOLDER)
    signal.signal(signal.SIGTERM, end_in_order)
    chosen = [one for one in all_studies() if one.name.startswith(given.study)]
    if not chosen:
        parser.error(f"unknown study {given.study!r}; --list lists the studies")
    if given.list:
        print("\n".join(f"{one.name}\t{one.published.title}" for one in chosen))
        return 0
    try:
        failed = [] if given.pages_only else measured(given, chosen)
    finally:
        # The pages also show the records of an interrupted run.
        pages.write(given.docs, given.kept)
        say(f"the pages are in {given.docs}")
    if failed:
        say(f"failed: {', '.join(failed)}; the same command repeats them")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
