"""`python -m studies`: runs the studies, and writes docs/studies. `--study NAME` runs those whose name begins so."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from studies import pages, records
from studies.making.sets import FULL, QUICK, Sets
from studies.published import all_studies
from studies.running import Runner


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m studies", description=__doc__)
    parser.add_argument("--study", default="", help="only studies whose name begins with this, as esd-table-2")
    parser.add_argument("--quick", action="store_true", help="small files, one round, two jobs: shows that it works")
    parser.add_argument("--data", type=Path, default=Path("target/studies"), help="folder of the files and samples")
    parser.add_argument("--list", action="store_true", help="list the studies and end")
    parser.add_argument("--pages-only", action="store_true", help="write docs/studies from what was measured")
    parser.add_argument("--kept", type=Path, default=records.RECORDS, help="folder of the records")
    parser.add_argument("--docs", type=Path, default=pages.FOLDER, help="folder of the pages")
    given = parser.parse_args()
    chosen = [one for one in all_studies() if one.name.startswith(given.study)]
    if not chosen:
        parser.error(f"there is no study {given.study!r}; --list lists them")
    if given.list:
        print("\n".join(f"{one.name}\t{one.published.title}" for one in chosen))
        return 0
    failed = []
    if not given.pages_only:
        data = given.data.resolve()
        sets = Sets(data / "files", QUICK if given.quick else FULL, say)
        runner = Runner(sets, data / "samples", given.kept, given.quick, say)
        begin_s = time.monotonic()
        for number, pair in enumerate(chosen, 1):
            say(f"{number} of {len(chosen)}: {pair.name}: {pair.published.title}")
            try:
                runner.run(pair)
            except Exception as error:  # noqa: BLE001 - the others are measured all the same; the end says so
                failed.append(pair.name)
                say(f"{pair.name} failed: {error}")
        say(f"{len(chosen)} studies took {(time.monotonic() - begin_s) / 60:.1f} minutes")
    pages.write(given.docs, given.kept)
    if failed:
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
