"""Run uproot's own tests on Branchline: `python -m tests.peers.uproot_tests [uproot-5.7.7.tar.gz]`.

Without a source it takes the source distribution of the installed version from the package index.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.peers.uproot_tests.run import fetched, run, run_writing


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.peers.uproot_tests", description=__doc__)
    parser.add_argument("source", type=Path, nargs="?", help="a source distribution of uproot, or a checkout")
    parser.add_argument("-k", dest="only", default="", help="only tests with this in their names")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="branchline-uproot-") as folder:
        source = given.source or fetched(Path(folder))
        outcome, writing = run(source, given.only), run_writing(source, given.only)
    print(outcome.text())
    print(writing.text())
    return 0 if outcome.is_good and writing.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
