"""Worker processes are forked from a process that has loaded what they need, and are as new ones would be."""

from __future__ import annotations

import gc
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from tests.patience import HANG_S

from branchline.base.limits import FORK_SERVER_ANSWER_S
from branchline.jobs.local import LocalProcesses
from branchline.jobs.program import ModuleFile
from branchline.jobs.subjob import Context, Finished, Message, SubJob, WorkerDiedError
from branchline.jobs.workers import fork_client, launcher
from branchline.jobs.workers.fork_client import ForkedProcess, ForkServer, _orphans_taken
from branchline.jobs.workers.heartbeat import HeartbeatReader
from branchline.jobs.workers.launcher import _server, _worker_for, load_for_workers, start_worker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers are new processes")


class Tells:
    """A callable that gives what a function finds out in each worker, and how long its libraries took to load."""

    def __init__(self, what: Callable[[], Any]) -> None:
        self.what = what

    def __call__(self, context: Context) -> Iterator[Message]:
        while (drawn := context.draw()) is not None:
            yield Finished(drawn.index, (self.what(), context.loading_cpu_s), context.worker)


def told(what: Callable[[], Any], workers: int = 1, modules: tuple[ModuleFile, ...] = ()) -> list[Any]:
    """What the workers find out."""
    return [value for value, _ in run(what, workers, modules)]


def run(what: Callable[[], Any], workers: int = 1, modules: tuple[ModuleFile, ...] = ()) -> list[Any]:
    given = iter(range(workers))

    def draw() -> SubJob | None:
        # A sub-job for each worker: the first waits until all have begun.
        return next((SubJob(index, "", index) for index in given), None)

    messages = LocalProcesses(workers, modules).run(Tells(what), draw)
    return [one.value for one in messages if isinstance(one, Finished)]


def servers(process: int | None = None) -> list[psutil.Process]:
    """Those of a process, None for this one, and of workers those that it has forked."""
    children = psutil.Process(process).children()
    return [one for one in children if any("jobs.workers.fork_server import main" in word for word in words_of(one))]


def words_of(process: psutil.Process) -> list[str]:
    """Its command line, which is empty of a process that has ended: other tests may have left such ones."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def is_at_work(process: psutil.Process) -> bool:
    """Not one that has ended, also if nobody has waited for it yet."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(autouse=True)
def new_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins without one, and as if none had failed."""
    monkeypatch.setattr(_server, "_is_refused", False)
    _server.end()
    yield
    _server.end()


def test_the_next_train_finds_the_libraries_loaded() -> None:
    import branchline.trains.worker.train_worker  # noqa: F401 - so that it is known to be there

    [(_, first_s)] = run(os.getpid)
    [before] = servers()
    [(_, second_s)] = run(os.getpid)
    assert [one.pid for one in servers()] == [before.pid]
    assert second_s < first_s / 4


def test_what_a_job_will_need_is_loaded_before_a_worker_is_asked_for() -> None:
    load_for_workers("branchline.trains.worker.train_worker")
    assert told(lambda: "branchline.trains.worker.train_worker" in sys.modules and "awkward" in sys.modules) == [True]
    assert len(servers()) == 1


def test_a_worker_is_a_child_of_the_job_in_a_group_of_its_own() -> None:
    [(pid, parent, group)] = told(lambda: (os.getpid(), os.getppid(), os.getpgid(0)))
    assert parent == os.getpid()
    assert group == pid


def test_workers_draw_different_random_numbers() -> None:
    numbers = told(lambda: (random.random(), float(np.random.random())))  # noqa: NPY002 - as wagons do
    numbers += told(lambda: (random.random(), float(np.random.random())))  # noqa: NPY002 - as wagons do
    assert len({number for pair in numbers for number in pair}) == 4


def test_a_worker_gets_what_a_new_process_would_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def found() -> tuple[Any, ...]:
        print("from the worker")
        print("its error", file=sys.stderr)
        cores = sorted(os.sched_getaffinity(0))
        return os.environ.get("OF_THIS_TEST"), os.getcwd(), cores, resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    told(found)
    assert capfd.readouterr().out == "from the worker\n"
    monkeypatch.setenv("OF_THIS_TEST", "set")
    monkeypatch.chdir(tmp_path)
    cores, limits = os.sched_getaffinity(0), resource.getrlimit(resource.RLIMIT_NOFILE)
    os.sched_setaffinity(0, {min(cores)})
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[0] - 1, limits[1]))
    try:
        assert told(found) == [("set", str(tmp_path), [min(cores)], limits[0] - 1)]
    finally:
        os.sched_setaffinity(0, cores)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert capfd.readouterr() == ("from the worker\n", "its error\n")


def test_a_worker_collects_garbage() -> None:
    assert told(gc.isenabled, workers=2) == [True, True]


def test_a_worker_starts_in_a_folder_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert told(lambda: os.readlink("/proc/self/cwd")) == [f"{gone} (deleted)"]


def test_modules_of_the_user_are_as_their_files_are_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is named as a library which the server loads, if no other that it loads imports that."""
    monkeypatch.setattr(launcher, "_LIBRARIES", ("vector",))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "vector", raising=False)
    source = tmp_path / "vector.py"

    def value() -> Any:
        import vector

        return vector.VALUE

    for number in (1, 2):
        source.write_text(f"VALUE = {number}\n")
        monkeypatch.delitem(sys.modules, "vector", raising=False)
        # This process has it too, maybe of the bytecode of a file of the same size that was written in the same second.
        value()
        assert told(value) == [number]


def test_workers_go_on_when_the_server_is_killed_and_the_next_train_has_another() -> None:
    def kill_it() -> None:
        [one] = [one for one in servers(os.getppid()) if one.pid != os.getpid()]
        one.kill()

    assert told(kill_it) == [None]
    assert told(lambda: "well") == ["well"]


def test_a_process_that_the_user_forks_has_workers_of_its_own() -> None:
    [before] = told(os.getppid)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if told(os.getppid) == [os.getpid()] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert told(os.getppid) == [before]


def test_a_job_that_ignores_the_ends_of_its_children_has_forked_workers() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert told(os.getppid, workers=2) == [os.getpid()] * 2
        assert len(servers()) == 1
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_job_whose_name_was_cut_inside_of_a_letter_has_workers() -> None:
    """Linux keeps 15 bytes of a script's name."""
    name = Path(f"/proc/self/task/{os.getpid()}/comm")
    before = name.read_bytes()
    name.write_bytes(b"caf\xc3")
    try:
        assert told(os.getppid) == [os.getpid()]
    finally:
        name.write_bytes(before)


def test_a_worker_of_which_the_job_does_not_know_ends() -> None:
    """As when the server dies between the fork and its answer: another one gets the same socket then."""
    ours, theirs = socket.socketpair()
    page = HeartbeatReader()
    known, says_known = os.pipe()
    null, folder = os.open(os.devnull, os.O_RDWR), os.open(".", os.O_RDONLY)
    server = ForkServer({}, FORK_SERVER_ANSWER_S)
    with ours, theirs, _orphans_taken():
        ours.send(b"for another")
        server._ask(_worker_for(""), [known, folder, null, null, theirs.fileno(), page.descriptor])
        worker = ForkedProcess(server._answer())
        os.close(says_known)
        assert worker.wait(60) == 1
        assert theirs.recv(100) == b"for another"
    server.end()
    page.handed_over()
    for one in (null, folder, known):
        os.close(one)


def test_ctrl_c_does_not_wait_for_a_server_that_does_not_answer() -> None:
    assert told(os.getppid) == [os.getpid()]
    [server] = servers()
    others = {one.pid for one in psutil.Process().children()} - {server.pid}
    server.suspend()
    began_s = time.monotonic()

    def ask() -> None:
        while not ForkServer.lock.locked():
            time.sleep(0.01)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    asked = threading.Thread(target=ask)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    asked.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            told(os.getppid)
    finally:
        signal.signal(signal.SIGINT, before)
        asked.join()
    assert time.monotonic() - began_s < FORK_SERVER_ANSWER_S / 2
    # What it would have answered is not taken for the answer to another request.
    assert not server.is_running()
    assert {one.pid for one in psutil.Process().children()} <= others
    assert told(os.getppid) == [os.getpid()]


def test_where_orphans_are_not_given_to_the_job_workers_are_new_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by Linux before 4.11, which gives none of a process that was started before it was asked."""
    keep_capabilities = 8
    monkeypatch.setattr(fork_client, "_PR_SET_CHILD_SUBREAPER", keep_capabilities)
    assert told(os.getppid, workers=2) == [os.getpid()] * 2
    assert servers() == []


def test_a_job_with_many_open_files_has_forked_workers() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < 2000:
        pytest.skip("no process may open so many files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2000), limits[1]))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert told(os.getppid) == [os.getpid()]
        assert len(servers()) == 1
    finally:
        for one in opened:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_where_nothing_can_be_forked_workers_are_new_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_server, "_is_refused", True)
    assert told(os.getppid) == [os.getpid()]
    assert servers() == []


@pytest.mark.parametrize("is_refused", [False, True], ids=["forked", "new"])
def test_files_of_the_user_with_names_of_libraries_are_not_imported_instead_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    for name in ("cloudpickle", "json", "queue", "socket", "subprocess"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('a file of the user')\n")
    monkeypatch.setattr(_server, "_is_refused", is_refused)
    monkeypatch.chdir(tmp_path)
    assert told(os.getcwd) == [str(tmp_path)]


def test_how_a_forked_worker_ended_is_known() -> None:
    process = start_worker(os.open(os.devnull, os.O_RDWR), os.open(os.devnull, os.O_RDWR), 2, "")
    # What it was given is no page of shared memory, so that it ends by itself.
    assert process.wait(60) == 1
    assert process.poll() == 1
    process.kill()


def test_an_end_that_somebody_else_was_told_of_is_said_to_be_not_known() -> None:
    """Not that it ended with exit code 0, as a worker that did its work."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # then the system tells nobody
    try:
        with pytest.raises(WorkerDiedError) as raised:
            told(lambda: os.kill(os.getpid(), signal.SIGKILL))
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert "ended with an unknown exit status" in str(raised.value)
    assert "exit code" not in str(raised.value)
    assert "SIGCHLD" in str(raised.value.hint)


def test_no_server_outlives_a_job_that_is_killed() -> None:
    code = "import time; from branchline.jobs.workers.launcher import load_for_workers; load_for_workers('')"
    code += "; print(1, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == b"1\n"
        [server] = psutil.Process(job.pid).children()
        job.send_signal(signal.SIGKILL)
    deadline_s = time.monotonic() + HANG_S
    while is_at_work(server):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_a_server_that_ends_is_no_zombie_and_other_children_keep_how_they_ended() -> None:
    assert told(os.getppid) == [os.getpid()]
    [server] = servers()
    with subprocess.Popen(["sh", "-c", "exit 7"]) as other:
        server.kill()
        deadline_s = time.monotonic() + HANG_S
        while psutil.pid_exists(server.pid):
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        assert other.wait(30) == 7
    assert told(os.getppid) == [os.getpid()]


def test_libraries_use_one_thread_in_a_worker_unless_the_user_sets_another_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    assert told(lambda: (os.environ["OMP_NUM_THREADS"], os.environ["MKL_NUM_THREADS"])) == [("1", "7")]
