"""What fails for real: machines without the files, memory of a cgroup, of a process and of a Dask worker, workers that
leave, workers that stand still.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.clusters.conformance import EVENTS, FILES, Case, digest, when
from tests.clusters.places import PlaceHere, dask_servers
from tests.clusters.wagons import CRASHING, PLAIN, SLOW, STUCK, write_wagons
from tests.local_dask import local_cluster
from tests.patience import HANG_S
from tests.stores.servers import Process

# Takes real memory for each chunk that is not small, and keeps it for a moment.
GREEDY = (
    PLAIN
    + """
import time


class Greedy:
    name = "greedy"

    def process(self, events):
        if int(events.run[0]) == 3 and len(events) > 150:
            taken = np.ones(SIZE_BYTES // 8)
            time.sleep(2)
            del taken
        return len(events)
"""
)

# Where the files are seen, all but the first wait until a process has begun where they are not.
PATIENT = (
    PLAIN
    + """
import time
from pathlib import Path

if not Path("DATA", "f0.root").exists():
    Path("MARK").touch()


class Patient:
    name = "patient"

    def process(self, events):
        end_s = time.monotonic() + HANG_S
        while int(events.run[0]) > 0 and not Path("MARK").exists() and time.monotonic() < end_s:
            time.sleep(0.02)
        return len(events)
"""
)

CGROUPS = Path("/sys/fs/cgroup/memory")


@contextmanager
def dask_workers(addresses: dict[str, list[str]], folder: Path) -> Iterator[PlaceHere]:
    """A scheduler, and for each address of the loopback a worker, started by these words."""
    with dask_servers(folder, workers=0) as place, ExitStack() as stack:
        scheduler = place.settings["on"].removeprefix("dask=")
        for address, before in addresses.items():
            words = [*before, sys.executable, "-m", "distributed.cli.dask_worker", scheduler, "--host", address]
            words += ["--nthreads", "1", "--no-dashboard", "--no-nanny", "--local-directory", str(folder)]
            worker = Process(words, lambda: True, folder / f"{address}.log")
            stack.callback(worker.kill)
            worker.start()
            place.servers[address] = worker
        yield place


def wait_for_workers(place: PlaceHere, count: int) -> None:
    from distributed import Client

    with Client(place.settings["on"].removeprefix("dask="), set_as_default=False) as client:
        client.wait_for_workers(count, timeout=280)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide files from a process")
def test_a_machine_that_does_not_see_the_files_gets_no_more(data: Path, tmp_path: Path) -> None:
    """It fails at once, and would so get all sub-jobs."""
    hidden = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs none {data} && exec "$@"', "sh"]
    case_folder = tmp_path / "wagons"
    with dask_workers({"127.0.0.1": [], "127.0.0.2": hidden}, tmp_path) as place, pytest.MonkeyPatch.context() as patch:
        # A sub-job of the other machine that only waits is not run twice.
        patch.setattr("branchline.jobs.stragglers.TAIL_MIN_S", HANG_S)
        wait_for_workers(place, 2)
        case = Case(place, data, case_folder)
        case_folder.mkdir()
        values = {"DATA": data, "MARK": tmp_path / "mark", "HANG_S": HANG_S}
        result = case.run(write_wagons(case_folder / "patient", PATIENT, **values))
        assert result.errors == []
        assert digest(result) == case.expected
        lost = [one.how for one in result.record.workers_lost]
        assert lost
        assert all("127.0.0.2" in one for one in lost)
        # With bad files skipped a file is not bad since one machine does not see it.
        skipping = case.run(write_wagons(case_folder / "plain", PLAIN), skip_bad_files=True)
        assert skipping.record.skipped == []
        assert digest(skipping) == case.expected


def test_workers_that_leave_in_good_order_are_no_failures(data: Path, tmp_path: Path) -> None:
    """As at the end of their time, or when they are preempted: more often than deaths are put up with."""
    settings: dict[str, Any] = {
        "threads_per_worker": 1,
        "dashboard_address": "127.0.0.1:0",
        "local_directory": str(tmp_path),
    }
    marks = tmp_path / "marks"
    marks.mkdir()
    wagons = write_wagons(tmp_path / "wagons", SLOW, FOLDER=marks, PAUSE_S=0.5)
    is_over = threading.Event()
    with local_cluster(1, **settings) as cluster:

        def replace_workers() -> None:
            for _ in range(8):
                if is_over.wait(2.0):
                    return
                cluster.scale(2)
                cluster.wait_for_workers(2, timeout=280)
                with cluster.get_client() as client:
                    busy = [one for one, tasks in client.processing().items() if tasks]
                    client.retire_workers(busy[:1])
                cluster.scale(1)

        thread = threading.Thread(target=replace_workers)
        thread.start()
        try:
            case = Case(PlaceHere({"on": cluster}), data, tmp_path)
            result = case.run(wagons)
        finally:
            is_over.set()
            thread.join()
    assert result.errors == []
    assert digest(result) == case.expected
    left = [one.how for one in result.record.workers_lost]
    assert left
    assert all("shut down gracefully" in one for one in left)
    assert result.record.missing == []
    assert [one.error for one in result.record.wagons] == [None] * 3


def test_memory_that_a_dask_worker_does_not_have_is_not_taken(data: Path, tmp_path: Path) -> None:
    """The processes that work for it are no children that its nanny knows: they are ended before they take more."""
    settings: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    wagons = write_wagons(tmp_path / "wagons", GREEDY, SIZE_BYTES=10**9)
    with local_cluster(2, memory_limit="800MB", local_directory=str(tmp_path), **settings) as cluster:
        result = Case(PlaceHere({"on": cluster}), data, tmp_path).run(wagons)
    assert result.errors == []
    assert result.outputs["greedy"] == result.outputs["momenta"]["events"] == EVENTS
    [retry] = result.record.memory_retries
    assert (retry.subjob, retry.chunk_divisor) == (str(data / "f3.root"), 4)
    assert all("of memory; the limit of its worker is 800 MB" in one.how for one in result.record.workers_lost)


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A cgroup that may have 900 MB."""
    folder = CGROUPS / f"branchline-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text("900000000")
    except OSError as error:
        pytest.skip(f"no cgroup can be made: {error}")
    yield folder
    end_s = time.monotonic() + HANG_S
    while (folder / "cgroup.procs").read_text().strip() and time.monotonic() < end_s:
        time.sleep(0.1)
    folder.rmdir()


def run_under(words: str, data: Path, folder: Path, size_bytes: int) -> dict[str, Any]:
    """The job of a run by the command line behind a few words for the shell."""
    wagons = write_wagons(folder / "wagons", GREEDY, SIZE_BYTES=size_bytes)
    command = [sys.executable, "-m", "branchline.cli", "run", wagons, str(data), "-o", str(folder / "out"), "-j", "1"]
    command += ["--step-size", "400", "--memory-limit", "128 MiB"]
    done = subprocess.run(
        ["sh", "-c", f'{words}; exec "$@"', "sh", *command], capture_output=True, text=True, timeout=300, check=False
    )
    job: dict[str, Any] = json.loads((folder / "out" / "job.json").read_text())
    assert done.returncode == 0, done.stdout + done.stderr
    assert job["events"] == EVENTS
    [retry] = job["memory_retries"]
    assert retry["chunk_divisor"] == 4
    assert "ran out of memory" in (folder / "out" / "report.html").read_text()
    return job


def test_a_worker_that_the_kernel_kills_for_its_cgroup_comes_back_with_less(
    cgroup: Path, data: Path, tmp_path: Path
) -> None:
    job = run_under(f"echo $$ > {cgroup}/cgroup.procs", data, tmp_path, 2 * 10**9)
    assert {one["how"] for one in job["workers_lost"]} == {"was killed by signal 9 (SIGKILL) (out of memory)"}


def test_a_worker_whose_address_space_ends_comes_back_with_less(data: Path, tmp_path: Path) -> None:
    """RLIMIT_AS: Python raises MemoryError."""
    job = run_under("ulimit -v 12000000", data, tmp_path, 16 * 10**9)
    assert {one["how"] for one in job["workers_lost"]} == {"ran out of memory (MemoryError)"}


def test_the_stack_of_a_crash_elsewhere_is_brought_home(data: Path, tmp_path: Path) -> None:
    wagons = write_wagons(tmp_path / "wagons", CRASHING)
    with ThreadPoolExecutor(2) as executor:
        case = Case(PlaceHere({"on": executor}), data, tmp_path)
        stopped, left_out = case.run(wagons), case.run(wagons, allow_missing=0.2)
    assert "Segmentation fault" in stopped.record.workers_lost[0].log
    [fault] = [one.error for one in stopped.record.wagons if one.error is not None]
    assert re.search(r'wagons\.py", line \d+ in process', fault.traceback)
    [group] = left_out.record.failures
    assert len(group.subjobs) == 1
    assert re.search(r'wagons\.py", line \d+ in process', group.example)


@contextmanager
def suspended_at(mark: Path, then: Callable[[], object] = lambda: None) -> Iterator[list[psutil.Process]]:
    """Suspend the process whose number is written to ``mark``, and the Dask worker that is its parent; resume them at
    the end. ``then`` is called once they are suspended.
    """
    stopped: list[psutil.Process] = []

    def stop() -> None:
        worker = psutil.Process(int(mark.read_text()))
        stopped.extend([worker, psutil.Process(worker.ppid())])
        for one in stopped:
            one.suspend()
        then()

    try:
        with when(lambda: mark.exists() and mark.read_text() != "", stop):
            yield stopped
    finally:
        for one in stopped:
            with suppress(psutil.NoSuchProcess):
                one.resume()


def test_a_dask_worker_that_stands_still_at_the_end_costs_nothing(data: Path, tmp_path: Path) -> None:
    """It does not answer, so that it cannot be told to stop, and Dask would wait for minutes."""
    mark = tmp_path / "mark"
    wagons = write_wagons(tmp_path / "wagons", STUCK, MARK=mark)
    with dask_workers({"127.0.0.1": [], "127.0.0.2": []}, tmp_path) as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr("branchline.jobs.stragglers.TAIL_MIN_S", 2.0)
        wait_for_workers(place, 2)
        case = Case(place, data, tmp_path)
        with suspended_at(mark) as stopped:
            result = case.run(wagons)
    assert stopped
    assert not result.record.interrupted
    assert result.errors == []
    assert digest(result) == case.expected
    assert any("f3.root" in one.subjob for one in result.record.repeated)


def test_ctrl_c_while_a_dask_worker_stands_still_counts_what_is_lost(data: Path, tmp_path: Path) -> None:
    """The results that the worker holds are lost: the train is interrupted, and says how many events it has."""
    mark = tmp_path / "mark"
    wagons = write_wagons(tmp_path / "wagons", STUCK, MARK=mark)
    with dask_workers({"127.0.0.1": [], "127.0.0.2": []}, tmp_path) as place:
        wait_for_workers(place, 2)
        case = Case(place, data, tmp_path)
        with suspended_at(mark, lambda: os.kill(os.getpid(), signal.SIGINT)) as stopped:
            result = case.run(wagons)
    assert stopped
    assert result.record.interrupted
    assert result.exit_code == 130
    assert result.record.events < EVENTS
    assert result.outputs["stuck"] == result.outputs["momenta"]["events"] == result.record.events
    assert result.record.subjobs_done < result.record.subjobs == FILES
