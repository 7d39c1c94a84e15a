"""Random sequences of changes of what a train depends on, before and while it runs. After each change a run that reuses
kept results has those of a run that reuses nothing, and of a calculation without Branchline.

    python -m tests.reuse.sequences --seeds 0:1000 [--on dask | --on slurm]

Changed are input files (replaced, restored with their times, edited in place with their times), functions of a helper
module, a package and a file of constants. Each seed has one of many forms of the helper module and of its import.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import uproot
from tests.reuse.helper_forms import FORMS, IMPORTS

FILES, VARIANTS, EVENTS, STEPS = 3, 3, 50, 4
#: A job waits in the queue for some seconds.
PACE_OF_SLURM = 20
#: The time of change that all files get which keep theirs.
OLD_NS = 1_700_000_000_123_456_789
WAGONS = """
import json
from pathlib import Path

import numpy as np
import tinypackage

IMPORT


class Sums:
    name = "sums"

    def process(self, events):
        scale = json.loads(Path("SCALE").read_text())
        INSIDE
        values = SHIFTED(np.asarray(events.x)) * tinypackage.factor() * scale
        return {"sum": int(values.sum()), "events": len(events)}


class Plain:
    name = "plain"

    def process(self, events):
        INSIDE
        return int(MOVED(np.asarray(events.x)).sum())
"""
PACKAGE = "def factor():\n    return {version}\n"


class Bench:
    """A folder with a train, and what changes it. ``state`` is what the folder has now: it gives the right results."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.shift, self.offset, self.version, self.scale = 1, 1, 1, 1
        self.helper = self.random.choice(FORMS)
        self.variants = [0] * FILES
        self.pool = [[self._made(file, variant) for variant in range(VARIANTS)] for file in range(FILES)]
        (folder / "data").mkdir()
        for number in range(FILES):
            shutil.copy2(self._path(number, 0), self._input(number))
        names = dict(zip(("IMPORT", "INSIDE", "SHIFTED", "MOVED"), self.random.choice(IMPORTS), strict=True))
        wagons = WAGONS
        for old, new in {**names, "SCALE": str(folder / "scale.json")}.items():
            wagons = wagons.replace(old, new)
        (folder / "wagons.py").write_text(wagons)
        self._write_helper()
        self._write_package()
        self._write_scale()

    @property
    def packages(self) -> Path:
        """Where the package is, as on a shared installation of software."""
        return self.folder / "view" / "site-packages"

    def expected(self) -> dict[str, Any]:
        """The results of the train over the folder as it is."""
        values = [self.pool[number][variant] for number, variant in enumerate(self.variants)]
        together = np.concatenate(values)
        total = int(((together + self.shift) * self.version * self.scale).sum())
        return {"sums": {"sum": total, "events": len(together)}, "plain": int((together + self.offset).sum())}

    def change(self) -> str:
        """Does one change, and says which."""
        name = self.random.choice(list(CHANGES))
        CHANGES[name](self)
        return name

    def replace(self) -> None:
        self._exchange(lambda new, old: shutil.copyfile(new, old))

    def replace_with_its_time(self) -> None:
        self._exchange(lambda new, old: shutil.copy2(new, old))

    def rename_over(self) -> None:
        def exchange(new: Path, old: Path) -> None:
            beside = old.with_suffix(".new")
            shutil.copy2(new, beside)
            beside.replace(old)

        self._exchange(exchange)

    def link_to_another(self) -> None:
        def exchange(new: Path, old: Path) -> None:
            old.unlink()
            old.symlink_to(new)

        self._exchange(exchange)

    def edit_in_place(self) -> None:
        """The same bytes are there but those that differ, and size and time are as before."""

        def exchange(new: Path, old: Path) -> None:
            with old.open("r+b") as file:
                file.write(new.read_bytes())
            os.utime(old, ns=(OLD_NS, OLD_NS))

        self._exchange(exchange)

    def edit_helper(self) -> None:
        self.shift = self.random.randint(1, 9)
        self._write_helper()

    def edit_other_function(self) -> None:
        self.offset = self.random.randint(1, 9)
        self._write_helper()

    def edit_helper_with_its_time(self) -> None:
        self.edit_helper()
        os.utime(self.folder / "helper.py", ns=(OLD_NS, OLD_NS))

    def upgrade(self) -> None:
        self.version = self.random.randint(1, 9)
        self._write_package()

    def edit_scale(self) -> None:
        self.scale = self.random.randint(1, 9)
        self._write_scale()
        os.utime(self.folder / "scale.json", ns=(OLD_NS, OLD_NS))

    def touch(self) -> None:
        os.utime(self._input(self.random.randrange(FILES)))

    def nothing(self) -> None:
        """Leaves all as it is."""

    def _exchange(self, exchange: Callable[[Path, Path], object]) -> None:
        number = self.random.randrange(FILES)
        variant = self.random.randrange(VARIANTS)
        old = self._input(number)
        if old.is_symlink():
            old.unlink()
            shutil.copy2(self._path(number, self.variants[number]), old)
        exchange(self._path(number, variant), old)
        self.variants[number] = variant

    def _made(self, number: int, variant: int) -> Any:
        """Makes a file of the pool. All variants of a file have one size and one time."""
        path = self._path(number, variant)
        path.parent.mkdir(exist_ok=True)
        values = np.random.default_rng([number, variant]).integers(0, 1000, EVENTS)
        with uproot.recreate(path, compression=None) as file:
            file.mktree("events", {"x": "int64"}).extend({"x": values})
        os.utime(path, ns=(OLD_NS, OLD_NS))
        assert path.stat().st_size == self._path(number, 0).stat().st_size
        return values

    def _path(self, number: int, variant: int) -> Path:
        return self.folder / f"pool{variant}" / f"f{number}.root"

    def _input(self, number: int) -> Path:
        return self.folder / "data" / f"f{number}.root"

    def _write_helper(self) -> None:
        _write(self.folder / "helper.py", self.helper.format(shift=self.shift, offset=self.offset))

    def _write_scale(self) -> None:
        _write(self.folder / "scale.json", str(self.scale))

    def _write_package(self) -> None:
        """Replaces an installed package as pip does: what was there is removed first."""
        shutil.rmtree(self.packages / "tinypackage", ignore_errors=True)
        for one in self.packages.glob("*.dist-info"):
            shutil.rmtree(one)
        (self.packages / "tinypackage").mkdir(parents=True)
        (self.packages / "tinypackage" / "__init__.py").write_text(PACKAGE.format(version=self.version))
        info = self.packages / f"tinypackage-{self.version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tinypackage\nVersion: {self.version}\n")


def _write(path: Path, text: str) -> None:
    """Replaces a file, so that nobody reads a part of it."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.replace(path)


CHANGES: dict[str, Callable[[Bench], None]] = {
    one.__name__: one
    for one in (
        Bench.replace,
        Bench.replace_with_its_time,
        Bench.rename_over,
        Bench.link_to_another,
        Bench.edit_in_place,
        Bench.edit_helper,
        Bench.edit_other_function,
        Bench.edit_helper_with_its_time,
        Bench.upgrade,
        Bench.edit_scale,
        Bench.touch,
        Bench.nothing,
    )
}


class Runner:
    """Runs trains in processes forked from one that has loaded Branchline, and no module of a train.

    Runs that reuse results are made on the place ``on``. Workers of a place that are started once find packages in
    ``link``, which leads to those of each bench in turn. ``pace`` is how much longer a run takes there.
    """

    def __init__(self, on: str | None = None, link: Path | None = None) -> None:
        self._on = on
        self._link = link
        self.pace = PACE_OF_SLURM if on == "slurm" else 1
        words = [sys.executable, "-m", "tests.reuse.forked_runs", *(["distributed"] if link is not None else [])]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, bench: Bench, *, workers: int) -> dict[str, Any]:
        """The outputs of a run that reuses results, or its error."""
        if self._link is not None:
            self._link.unlink(missing_ok=True)
            self._link.symlink_to(bench.packages.parent)
        where: dict[str, Any] = (
            {"workers": workers, "on": None} if self._on is None else {"workers": None, "on": self._on}
        )
        return self._answer(bench, {"out": "out", "reuse": True, **where})

    def run_anew(self, bench: Bench) -> dict[str, Any]:
        """The outputs of a run in one process that reuses and keeps nothing."""
        return self._answer(bench, {"out": None, "reuse": False, "workers": 0, "on": None})

    def _answer(self, bench: Bench, order: dict[str, Any]) -> dict[str, Any]:
        order |= {"folder": str(bench.folder), "packages": str(bench.packages)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that forks runs ended with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


@contextmanager
def runner(on: str | None = None, link: Path | None = None) -> Iterator[Runner]:
    """What runs the trains of sequences."""
    made = Runner(on, link)
    try:
        yield made
    finally:
        made.close()


def run_sequence(seed: int, run: Runner, folder: Path) -> int:
    """Runs the sequence of a seed, and says how many results were reused. Raises AssertionError with the steps."""
    bench, steps, reused = Bench(folder, seed), [], 0
    for _ in range(STEPS):
        workers = bench.random.choice([0, 0, 0, 0, 1])
        during = bench.random.random() < 0.6
        if during:
            after_s = bench.random.choice([0.0, 0.01, 0.03, 0.06, 0.1, 0.2])
            steps.append(f"a run with {workers} workers, while, after {run.pace * after_s} s, ")
            disturbance = threading.Thread(target=_note_disturbance, args=(steps, bench, after_s, run.pace))
            disturbance.start()
            # A run that is disturbed may fail, and its own results are those of neither state.
            run.run(bench, workers=workers)
            disturbance.join()
        steps.append(bench.change())
        found = run.run(bench, workers=workers)
        anew = run.run_anew(bench)
        reused += found.get("reused", 0)
        assert found.get("outputs") == anew.get("outputs") == bench.expected(), (
            f"seed {seed}: after {', '.join(steps)}: reused {found}, anew {anew}, right {bench.expected()}"
        )
    return reused


def _note_disturbance(steps: list[str], bench: Bench, after_s: float, pace: float) -> None:
    steps.append(_disturb(bench, after_s, pace))


def _disturb(bench: Bench, after_s: float, pace: float) -> str:
    time.sleep(pace * after_s)
    before = [*bench.variants], bench.shift, bench.offset, bench.version, bench.scale
    what = bench.change()
    if bench.random.random() < 0.5:
        return what
    # What was there comes back, with its time.
    time.sleep(pace * bench.random.choice([0.0, 0.02, 0.1]))
    for number, variant in enumerate(before[0]):
        if bench.variants[number] != variant:
            shutil.copy2(bench.folder / f"pool{variant}" / f"f{number}.root", bench.folder / "data" / "again")
            (bench.folder / "data" / "again").replace(bench.folder / "data" / f"f{number}.root")
    bench.variants, bench.shift, bench.offset, bench.version, bench.scale = before
    bench._write_helper()
    bench._write_package()
    bench._write_scale()
    return f"{what}, then back"


def run_seed(seed: int, run: Runner) -> int:
    """Runs the sequence of a seed in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="branchline-reuse-") as folder:
        return run_sequence(seed, run, Path(folder))


def main() -> int:
    """Runs the seeds of the command line; 1 if one of them ended wrongly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:1000", metavar="FIRST:END")
    parser.add_argument("--on", default=None, metavar="PLACE", help="dask, slurm, or the address of a Dask scheduler")
    given = parser.parse_args()
    first, end = map(int, given.seeds.split(":"))
    wrong, reused, begin_s = 0, 0, time.monotonic()
    with place(given.on) as (on, link), runner(on, link) as run:
        for seed in range(first, end):
            try:
                count = run_seed(seed, run)
            except AssertionError as error:
                wrong += 1
                print(f"WRONG {error}", flush=True)
            else:
                reused += count
                print(f"seed {seed}: right, {count} results reused", flush=True)
    print(f"{end - first} sequences, {wrong} wrong, {reused} results reused, {time.monotonic() - begin_s:.0f} s")
    return 1 if wrong else 0


@contextmanager
def place(on: str | None) -> Iterator[tuple[str | None, Path | None]]:
    """Where trains run: a Dask or a Slurm that is started for it. For a Dask also the link to the folder in which its
    workers look for packages.
    """
    if on == "dask":
        from tests.local_dask import local_cluster

        with tempfile.TemporaryDirectory(prefix="branchline-reuse-") as folder:
            link = Path(folder, "view")
            # Processes that are spawned, as Dask's, have the path of this one.
            sys.path.append(str(link / "site-packages"))
            with local_cluster(2) as cluster:
                yield f"dask={cluster.scheduler_address}", link
    elif on == "slurm":
        from tests.clusters.slurm import Slurm

        farm = Slurm()
        try:
            farm.start()
            os.environ.update(farm.environment)
            yield on, None
        finally:
            farm.close()
    else:
        yield on, None


if __name__ == "__main__":
    sys.exit(main())
