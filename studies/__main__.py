"""`python -m studies`: runs the studies, and writes docs/studies. `--study NAME` runs those whose name begins so."""

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
from studies.running import Runner, summary


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measured(given: argparse.Namespace, chosen: Sequence[StudyPair]) -> list[str]:
    """Runs studies; the names of those that failed."""
    data = given.data.resolve()
    runner = Runner(
        Sets(data / "files", QUICK if given.quick else FULL, say), data / "samples", given.kept, given.quick, say
    )
    words = ["run", *(["quick"] if given.quick else []), *([given.study] if given.study else [])]
    path = data / f"{'-'.join(words)}.json"
    if given.anew:
        path.unlink(missing_ok=True)
    run = StudiesRun(chosen, path, given.hours * 3600.0, given.quick)
    say(run.estimate())
    begin_s = time.monotonic()
    for number, pair in enumerate(chosen, 1):
        if pair.name in run.state.done:
            say(f"{number} of {len(chosen)}: {pair.name}: done before the interruption: {run.state.done[pair.name]}")
            continue
        budget_s = run.budget_s(pair.name)
        now = dt.datetime.now(dt.UTC)
        say(f"{number} of {len(chosen)}, {now:%H:%M:%S} UTC: {pair.name} ({budget_s:.0f} s): {pair.published.title}")
        try:
            run.end(pair.name, summary(runner.run(pair, budget_s)))
        except Exception as error:  # noqa: BLE001 - the others are measured all the same; the end says so
            run.fail(pair.name)
            say(f"{pair.name} failed: {error}")
    run.forget()
    say(f"{len(chosen)} studies took {(time.monotonic() - begin_s) / 60:.1f} minutes")
    return run.state.failed


def end_in_order(number: int, _frame: object) -> None:
    """Takes disks and servers down, as with Ctrl-C; another signal does not disturb that."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m studies", description=__doc__)
    parser.add_argument("--study", default="", help="only studies whose name begins with this, as esd-table-2")
    parser.add_argument("--quick", action="store_true", help="small files, one round, two jobs: shows that it works")
    parser.add_argument("--data", type=Path, default=Path("target/studies"), help="folder of the files and samples")
    parser.add_argument("--list", action="store_true", help="list the studies and end")
    parser.add_argument("--pages-only", action="store_true", help="write docs/studies from what was measured")
    parser.add_argument(
        "--hours", type=float, default=2.0, help="time that all of them may take, shared out among them"
    )
    parser.add_argument("--anew", action="store_true", help="begin with the first study, and not where a run ended")
    parser.add_argument("--kept", type=Path, default=records.RECORDS, help="folder of the records")
    parser.add_argument("--docs", type=Path, default=pages.FOLDER, help="folder of the pages")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, end_in_order)
    chosen = [one for one in all_studies() if one.name.startswith(given.study)]
    if not chosen:
        parser.error(f"there is no study {given.study!r}; --list lists them")
    if given.list:
        print("\n".join(f"{one.name}\t{one.published.title}" for one in chosen))
        return 0
    failed = [] if given.pages_only else measured(given, chosen)
    pages.write(given.docs, given.kept)
    if failed:
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
