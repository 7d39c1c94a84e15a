"""Runs with faults that a seed chooses: each ends with the result of an undisturbed run, bit for bit, or says clearly
what is missing; and the next run into the same directory gives that result.

    python -m tests.clusters.seeded --seeds 0:1000

Processes are killed and stopped, machines drained, schedulers and jobs killed, disks full, directories gone for a
moment.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from tests.clusters.conformance import digest
from tests.clusters.event_files import write_events
from tests.clusters.places import dask_servers
from tests.clusters.wagons import PLAIN, write_wagons
from tests.local_dask import local_cluster

import branchline
from branchline.errors import BranchlineError
from branchline.trains.plan import TrainRequest
from branchline.trains.run import run_quietly
from branchline.trains.run_options import RunOptions
from branchline.trains.subjobs import shares

FILES, EVENTS_PER_FILE = 8, 300
NOT_STRUCK = "nothing yet"
# How long a shared Dask may take until it has its workers again.
CLUSTER_WAIT_S = 20
# How long a fault waits for a worker process that it can strike.
VICTIM_WAIT_S = 10
# Faults come within 2.5 s: two workers have 3 s of work at least.
PACED = (
    PLAIN
    + """
import time


class Paced:
    name = "paced"

    def process(self, events):
        time.sleep(0.15)
        return len(events)
"""
)
SETTINGS: dict[str, Any] = {"step_size": 60, "memory_limit": "128 MiB"}


# The command line, with every file a sub-job of its own.
_SMALL_SUBJOBS = """
import sys
from branchline.cli import main
from branchline.trains.subjobs import shares
from branchline.trains.plan import TrainRequest
from branchline.trains.run_options import RunOptions

shares.SUBJOB_MIN_BYTES = {}
sys.exit(main())
"""


@dataclass
class Stage:
    """What all seeds share: the files, the wagons, the undisturbed result, and places that are started once."""

    folder: Path
    data: Path
    wagons: str
    expected: str
    shared: ExitStack
    _cluster: Any = None

    def cluster(self) -> Any:
        """A Dask of two workers, which it starts again when they end. One that does not is replaced by another."""
        if self._cluster is not None and not self._is_whole(self._cluster):
            self._cluster.close()
            self._cluster = None
        if self._cluster is None:
            settings: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
            self._cluster = self.shared.enter_context(local_cluster(2, local_directory=str(self.folder), **settings))
        return self._cluster

    def _is_whole(self, cluster: Any) -> bool:
        # A worker that was retired stays in the list of LocalCluster, which then starts no other one.
        cluster.scale(2)
        try:
            cluster.wait_for_workers(2, timeout=CLUSTER_WAIT_S)
        except TimeoutError:
            return False
        return True


def request_of(wagons: str, data: Path, **settings: Any) -> TrainRequest:
    options = RunOptions(**SETTINGS, **settings, command="a seeded run", pictures="none")
    return TrainRequest(wagons, str(data), options)


@contextmanager
def stage() -> Iterator[Stage]:
    """Made for any number of seeds."""
    with tempfile.TemporaryDirectory(prefix="branchline-seeds-") as name, ExitStack() as shared:
        folder = Path(name)
        data = folder / "data"
        data.mkdir()
        write_events(data, FILES, EVENTS_PER_FILE)
        wagons = write_wagons(folder / "wagons", PACED)
        # Every file is a sub-job of its own.
        subjob_bytes, shares.SUBJOB_MIN_BYTES = (
            shares.SUBJOB_MIN_BYTES,
            max(one.stat().st_size for one in data.iterdir()),
        )
        try:
            expected = digest(run_quietly(request_of(wagons, data, workers=0)))
            yield Stage(folder, data, wagons, expected, shared)
        finally:
            shares.SUBJOB_MIN_BYTES = subjob_bytes


@dataclass
class SeededRun:
    """One run. ``seen`` says what was done to it."""

    stage: Stage
    seed: int
    random: random.Random
    out: Path
    on: Any = None
    seen: list[str] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)

    @property
    def settings(self) -> dict[str, Any]:
        """Of the run: a silent worker is ended soon."""
        place = {"workers": 2} if self.on is None else {"workers": None, "on": self.on}
        return {**place, "worker_timeout": 3.0}

    def run(self) -> str:
        """Runs it, and says how it ended: "same", or what is missing. Raises AssertionError for anything else."""
        try:
            request = request_of(self.stage.wagons, self.stage.data, **self.settings)
            result = run_quietly(request, self.out)
        except BranchlineError as error:
            return f"refused: {error}"
        return self._judged(result)

    def run_again(self) -> None:
        """Without a fault, on this machine: what is done already is taken from the directory."""
        request = request_of(self.stage.wagons, self.stage.data, workers=2)
        result = run_quietly(request, self.out)
        assert result.errors == [], result.errors
        assert digest(result) == self.stage.expected, "another result in the next run"

    def _judged(self, result: branchline.TrainResult) -> str:
        if result.record.interrupted:
            raise KeyboardInterrupt
        if result.exit_code == 0:
            assert result.errors == []
            assert result.record.events == FILES * EVENTS_PER_FILE
            assert digest(result) == self.stage.expected, "another result"
            return "same"
        assert result.errors, f"exit code {result.exit_code} without an account: {result.record.status}"
        for one in result.record.missing:
            assert one.files, one
            assert one.cause, one
        return f"exit code {result.exit_code}: {result.errors[0]}"

    def worker_processes(self) -> list[psutil.Process]:
        """Those of ours that work for any place of this process, and those from which they are forked."""
        found = []
        for one in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if any("branchline.jobs." in word for word in one.cmdline()):
                    found.append(one)
        return sorted(found, key=lambda one: one.pid)

    @contextmanager
    def meanwhile(self, *actions: Callable[[], None]) -> Iterator[None]:
        """Does things in another thread at random times while the block runs."""

        def act() -> None:
            for action in actions:
                if self.is_over.wait(self.random.uniform(0.2, 2.5)):
                    return
                with suppress(psutil.Error):
                    action()

        thread = threading.Thread(target=act)
        thread.start()
        try:
            yield
        finally:
            self.is_over.set()
            thread.join()


def kill_worker(run: SeededRun) -> None:
    """SIGKILL."""
    _signal(run, signal.SIGKILL)


def stop_worker(run: SeededRun) -> None:
    """SIGSTOP: it neither works nor answers."""
    _signal(run, signal.SIGSTOP)


def _signal(run: SeededRun, number: signal.Signals) -> None:
    end_s = time.monotonic() + VICTIM_WAIT_S
    while not (processes := run.worker_processes()) and not run.is_over.wait(0.05) and time.monotonic() < end_s:
        pass
    if processes:
        chosen = run.random.choice(processes)
        chosen.send_signal(number)
        run.seen.append(f"{number.name} to a worker")


def processes_die(run: SeededRun) -> str:
    """Up to four workers of this machine or of an executor are killed or stopped."""
    faults = [run.random.choice([kill_worker, kill_worker, stop_worker]) for _ in range(run.random.randint(1, 4))]
    with ExitStack() as stack:
        if run.random.random() < 0.4:
            run.on = stack.enter_context(ThreadPoolExecutor(2))
            run.seen.append("executor")
        stack.enter_context(run.meanwhile(*[lambda fault=fault: fault(run) for fault in faults]))
        return run.run()


def dask_workers_end(run: SeededRun) -> str:
    """Workers of Dask are killed, or leave, as those of a machine that is drained."""
    run.on = cluster = run.stage.cluster()

    def end_one() -> None:
        with suppress(Exception):  # Dask may be about to start it again.
            addresses = list(cluster.scheduler_info["workers"])
            if run.random.random() < 0.5:
                with cluster.get_client() as client:
                    client.retire_workers([run.random.choice(addresses)])
                run.seen.append("a Dask worker leaves")
            else:
                run.random.choice(_dask_processes()).kill()
                run.seen.append("SIGKILL to a Dask worker")

    with run.meanwhile(*[end_one] * run.random.randint(1, 2)), _kept_alive(run, cluster):
        return run.run()


def _dask_processes() -> list[psutil.Process]:
    return [one for one in psutil.Process().children() if "spawn_main" in " ".join(one.cmdline())]


@contextmanager
def _kept_alive(run: SeededRun, cluster: Any) -> Iterator[None]:
    """Starts other workers when all have left, as a farm does: LocalCluster does not replace one that was retired."""

    def keep() -> None:
        empty_looks = 0
        while not run.is_over.wait(0.5):
            with suppress(psutil.Error):
                empty_looks = 0 if _dask_processes() else empty_looks + 1
            if empty_looks == 6:
                cluster.scale(0)
                cluster.scale(2)
                empty_looks = 0

    thread = threading.Thread(target=keep)
    thread.start()
    try:
        yield
    finally:
        run.is_over.set()
        thread.join()


def scheduler_dies(run: SeededRun) -> str:
    """The run ends, says so, and keeps what is done."""
    folder = run.out.parent / "dask"
    folder.mkdir()
    with dask_servers(folder, workers=1) as place:
        run.on = place.settings["on"]

        def kill() -> None:
            place.servers["scheduler"].kill()
            run.seen.append("SIGKILL to the scheduler")

        with run.meanwhile(kill):
            return run.run()


def job_dies(run: SeededRun) -> str:
    """The whole job is killed, with its workers left alone."""
    words = ["run", run.stage.wagons, str(run.stage.data), "-o", str(run.out), "-j", "2", "--step-size", "60"]
    words += ["--force", "--memory-limit", "128MiB", "--pictures", "none"]
    command = [sys.executable, "-c", _SMALL_SUBJOBS.format(shares.SUBJOB_MIN_BYTES), *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        with suppress(subprocess.TimeoutExpired):
            process.wait(run.random.uniform(1.0, 4.0))
        process.kill()
        run.seen.append("SIGKILL to the job")
        return f"killed: exit code {process.wait()}"


def disk_is_full(run: SeededRun) -> str:
    """The directory is on a small disk; there is more room for the next run."""
    size_kb = run.random.choice([16, 32, 64, 128, 256])
    disk = run.out.parent / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_kb}k", "tmpfs", str(disk)], check=True)
    run.out = disk / "out"
    run.seen.append(f"a disk of {size_kb} kB")
    ended = run.run()
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
    return ended


def directory_goes(run: SeededRun) -> str:
    """The output directory is gone for a moment, as when a server is restarted."""
    away = run.out.with_name("away")

    def go_and_come() -> None:
        with suppress(OSError):
            run.out.rename(away)
            run.seen.append("the directory is gone")
            time.sleep(run.random.uniform(0.2, 1.5))
            if run.out.exists():
                shutil.rmtree(run.out)
            away.rename(run.out)

    with run.meanwhile(go_and_come):
        return run.run()


#: The faults, with how often each is drawn; those that only root can make are left out for others.
FAULTS: dict[Callable[[SeededRun], str], int] = {
    processes_die: 12,
    dask_workers_end: 3,
    scheduler_dies: 1,
    job_dies: 2,
    disk_is_full: 2 if os.geteuid() == 0 else 0,
    directory_goes: 2,
}


def fault_of(seed: int) -> tuple[Callable[[SeededRun], str], random.Random]:
    """What a seed does, and the numbers that it goes on with."""
    drawn = random.Random(seed)
    return drawn.choices(list(FAULTS), list(FAULTS.values()))[0], drawn


def run_seed(on: Stage, seed: int) -> str:
    """One seed: how it ended, in words. Raises AssertionError if that is wrong."""
    fault, drawn = fault_of(seed)
    folder = on.folder / f"seed-{seed}"
    folder.mkdir()
    run = SeededRun(on, seed, drawn, folder / "out")
    try:
        ended = fault(run)
        run.run_again()
    except BaseException as error:
        error.add_note(f"seed {seed}: {fault.__name__}: {', '.join(run.seen)}")
        raise
    finally:
        subprocess.run(["umount", "-l", str(folder / "disk")], capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)
    return f"seed {seed}: {fault.__name__} ({', '.join(run.seen) or NOT_STRUCK}): {ended}"


def main() -> int:
    """Runs the seeds of the command line; 1 if one of them ended wrongly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:1000", metavar="FIRST:END")
    first, end = map(int, parser.parse_args().seeds.split(":"))
    wrong, early, begin_s = 0, 0, time.monotonic()
    with stage() as on:
        for seed in range(first, end):
            try:
                ended = run_seed(on, seed)
                early += NOT_STRUCK in ended
                print(ended[:400], flush=True)
            except Exception as error:  # noqa: BLE001 - the next seed is run in any case
                wrong += 1
                print(
                    f"WRONG {'; '.join(getattr(error, '__notes__', []))}: {type(error).__name__}: {error}", flush=True
                )
    counts = f"{end - first} seeds, {wrong} wrong, {early} ended before their fault came"
    print(f"{counts}, {time.monotonic() - begin_s:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
