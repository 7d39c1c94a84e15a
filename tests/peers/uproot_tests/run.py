"""Run uproot's tests in separate processes, and evaluate the outcomes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tests.peers.peers import REPOSITORY
from tests.peers.uproot_tests.classes import writes
from tests.peers.uproot_tests.plugin import BASELINE, KIND, OUTPUT, READING, WRITING

#: Minimum fraction of passed tests, among the tests that do not use internals.
SHARE_WANTED = 0.97
#: Maximum fraction of the writing tests that may be excluded by name.
EXCLUDED_AT_MOST = 0.15
#: Reasons why tests may differ, by kind of tests, and by file and function without parameters.
DIFFERENT: dict[str, dict[str, str]] = tomllib.loads((Path(__file__).parent / "different.toml").read_text())
#: Timeout of a run. All tests take about a minute.
WAIT_S = 1200


@dataclass(frozen=True)
class Ended:
    """The outcome of a test. ``error`` is the class name of the exception."""

    test: str
    outcome: str
    error: str
    why: str

    @property
    def function(self) -> str:
        """File and name of the test, without parameters."""
        return self.test.partition("[")[0].rpartition("/")[2]

    @property
    def is_value(self) -> bool:
        """Whether the test failed because a value differs."""
        return self.error == "AssertionError"


def reason_of(ended: Ended, kind: str = READING) -> str | None:
    """Return why a test differs on purpose; None if it should pass."""
    return DIFFERENT[kind].get(ended.function)


@dataclass(frozen=True)
class Outcome:
    """The outcomes of all tests in a run."""

    ended: tuple[Ended, ...]

    def passed(self) -> list[Ended]:
        return [one for one in self.ended if one.outcome == "passed"]

    def failed(self) -> list[Ended]:
        """Return the failed tests, excluding tests that differ on purpose."""
        return [one for one in self.ended if one.outcome == "failed" and reason_of(one) is None]

    def different(self) -> list[Ended]:
        return [one for one in self.ended if one.outcome == "failed" and reason_of(one) is not None]

    def wrong_values(self) -> list[Ended]:
        return [one for one in self.failed() if one.is_value]

    @property
    def share(self) -> float:
        """Fraction of passed tests, among the tests that count and do not differ on purpose."""
        counted = len(self.passed()) + len(self.failed())
        return len(self.passed()) / counted if counted else 0.0

    @property
    def is_good(self) -> bool:
        return self.share >= SHARE_WANTED and not self.wrong_values()

    def text(self) -> str:
        skipped = Counter(one.why.partition(" of ")[0] for one in self.ended if one.outcome == "skipped")
        files = {why for why in skipped if why.startswith("missing file")}
        passed, failed, different = len(self.passed()), len(self.failed()), len(self.different())
        of_all = passed / max(1, passed + failed + different)
        lines = [f"of the tests that use no internals, {passed} pass, {failed} fail, {different} differ on purpose:"]
        lines.append(f"  {100 * self.share:.1f} % pass without the tests that differ, {100 * of_all:.1f} % with them")
        lines += [f"  {sum(skipped[why] for why in files):5} not run: {len(files)} files are missing"] if files else []
        lines += [f"  {count:5} {why}" for why, count in skipped.most_common() if why not in files]
        lines += [f"differs: {one.function}: {reason_of(one)}" for one in self.different()]
        lines += [f"failed: {one.test}: {one.error}: {one.why}" for one in self.failed()]
        return "\n".join(lines)


def fetched(folder: Path) -> Path:
    """Download the source distribution of the installed uproot version from the package index."""
    wanted = f"uproot=={version('uproot')}"
    command = [sys.executable, "-m", "pip", "--quiet", "download", "--no-deps", "--no-binary", "uproot", wanted]
    subprocess.run(command, cwd=folder, timeout=WAIT_S, check=True)
    return next(folder.glob("uproot-*.tar.gz"))


def run(source: Path, only: str = "", kind: str = READING) -> Outcome:
    """Run the tests of a source distribution or a checkout. Raises ValueError if it has no tests."""
    with tempfile.TemporaryDirectory(prefix="branchline-uproot-") as folder:
        if source.is_file():
            with tarfile.open(source) as archive:
                archive.extractall(folder, filter="data")
            found = sorted(Path(folder).glob("*/tests"))
        else:
            found = [source.resolve() / "tests"]
        if not found or not list(found[0].glob("test_*.py")):
            raise ValueError(f"{source} has no tests/test_*.py: give a source distribution of uproot, or a checkout")
        # uproot's tests are in a package `tests`, like Branchline's. Without __init__.py they are top-level modules.
        tests = Path(folder) / "given"
        shutil.copytree(found[0], tests, ignore=shutil.ignore_patterns("__init__.py", "conftest.py"))
        return _run(tests, Path(folder), only, kind)


@dataclass(frozen=True)
class WritingOutcome:
    """The outcomes with Branchline's writers of those writing tests that uproot itself passes."""

    ended: tuple[Ended, ...]
    not_run: int

    def passed(self) -> list[Ended]:
        """Return the tests that pass."""
        return [one for one in self.ended if one.outcome == "passed"]

    def excluded(self) -> list[Ended]:
        """Return the tests that fail and are excluded by name."""
        return [one for one in self.ended if one.outcome != "passed" and reason_of(one, WRITING) is not None]

    def failed(self) -> list[Ended]:
        """Return the tests that fail and are not excluded."""
        return [one for one in self.ended if one.outcome != "passed" and reason_of(one, WRITING) is None]

    @property
    def share(self) -> float:
        """Fraction of passed tests, among the tests that are not excluded."""
        counted = len(self.passed()) + len(self.failed())
        return len(self.passed()) / counted if counted else 1.0

    @property
    def is_good(self) -> bool:
        """Whether enough tests pass, few enough are excluded, and none finds wrong or missing content."""
        is_rarely_excluded = len(self.excluded()) <= EXCLUDED_AT_MOST * len(self.ended)
        return self.share >= SHARE_WANTED and is_rarely_excluded and not any(one.is_value for one in self.failed())

    def text(self) -> str:
        """Return the counts, a table by cause, and every failure."""
        passed, excluded, failed = self.passed(), self.excluded(), self.failed()
        functions = len({one.function for one in self.ended})
        lines = [
            f"of {len(self.ended)} writing tests ({functions} functions) that uproot passes here, {len(passed)} pass"
            f" with Branchline's writers, {len(failed)} fail, {len(excluded)} are excluded:",
            f"  {100 * self.share:.1f} % pass without the excluded ones",
        ]
        lines += [f"  {count:5} failed: {cause}" for cause, count in Counter(map(_cause, failed)).most_common()]
        reasons = Counter(reason_of(one, WRITING) for one in excluded)
        lines += [f"  {count:5} excluded: {reason}" for reason, count in reasons.most_common()]
        lines += [f"  {self.not_run:5} not run: uproot does not pass them here, or a file or package is missing"]
        lines += [f"excluded: {one.test}: {one.error}: {one.why}" for one in excluded]
        lines += [f"failed: {one.test}: {one.error}: {one.why}" for one in failed]
        return "\n".join(lines)


def _cause(ended: Ended) -> str:
    if not ended.error:
        return "the process ended before this test"
    # Group failures by file for wrong values, and otherwise by message without the names of files and branches.
    where = ended.test.partition("::")[0] if ended.is_value else ended.why.rpartition(": ")[2][:60]
    return f"{ended.error}: {where}"


def run_writing(source: Path, only: str = "") -> WritingOutcome:
    """Run uproot's tests of writing on uproot, and then run the passed tests on Branchline's writers."""
    expected = run(source, only, BASELINE).ended
    got = {one.test: one for one in run(source, only, WRITING).ended}
    counted = [one for one in expected if one.outcome == "passed"]
    writes = [one for one in expected if one.why != "not counted: does not write"]
    missing = [Ended(one.test, "missing", "", "") for one in counted if one.test not in got]
    found = [got[one.test] for one in counted if one.test in got]
    return WritingOutcome((*found, *missing), len(writes) - len(counted))


def _run(tests: Path, folder: Path, only: str, kind: str) -> Outcome:
    """Run reading tests in one process, and writing tests in one process per file. In a shared process, state of ROOT
    would make later files fail, and a crash would end all remaining files.
    """
    names = ["."] if kind == READING else [one.name for one in sorted(tests.glob("test_*.py")) if writes(one)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        ended = pool.map(lambda name: _run_process(tests, name, folder / f"{name}.jsonl", only, kind), names)
        return Outcome(tuple(one for of_file in ended for one in of_file))


def _run_process(tests: Path, name: str, output: Path, only: str, kind: str) -> list[Ended]:
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "tests.peers.uproot_tests.plugin", "-c"]
    command += [os.devnull, "--rootdir", str(tests), "-p", "no:cacheprovider", "--continue-on-collection-errors", name]
    command += ["-k", only] if only else []
    paths = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "python"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, OUTPUT: str(output), KIND: kind, "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(
        command, cwd=tests, env=environment, capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    if not output.exists() and kind == READING:
        raise RuntimeError(f"uproot's tests did not run: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    lines = output.read_text().splitlines() if output.exists() else []
    return [Ended(**json.loads(line)) for line in lines]
