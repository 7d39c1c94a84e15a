"""Jobs that begin at once: forked from a process that has loaded their client, and ended whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tests.patience import HANG_S

from branchline.jobs.workers.fork_client import ForkServer
from branchline.lab.sampling.cpu_share import equal_share
from branchline.lab.sampling.job import JobRequest
from branchline.lab.sampling.local_jobs import JobServers, run_at_once

#: The process of a job, its session, the number of blocked signals, and a variable, as a command of the job sees them.
SEEN = (
    "import os, signal, sys; blocked = len(signal.pthread_sigmask(signal.SIG_BLOCK, []));"
    "open(sys.argv[1], 'w').write(f'{os.getppid()} {os.getsid(0)} {blocked} {os.environ.get(\"COLOUR\")}')"
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere jobs are new processes")


def commands(folder: Path, *texts: str) -> list[JobRequest]:
    """Jobs of any commands."""
    return [JobRequest(number, "command", [], str(folder), command=text) for number, text in enumerate(texts)]


@pytest.fixture
def new_servers() -> Callable[[], list[int]]:
    """Gives the fork servers that this test began; others of this worker may live."""

    def found() -> set[int]:
        children = psutil.Process().children()
        return {one.pid for one in children if any("fork_server import main" in word for word in words_of(one))}

    before = found()
    return lambda: sorted(found() - before)


def words_of(process: psutil.Process) -> list[str]:
    """The words of a process's command; none of one that has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def until_gone(process: int) -> None:
    end_s = time.monotonic() + HANG_S
    while is_at_work(process):
        assert time.monotonic() < end_s, "it lives"
        time.sleep(0.01)


def is_at_work(process: int) -> bool:
    """Not one that has ended, also if nobody has waited for it yet."""
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def seen_by(folder: Path, environment: dict[str, str], servers: JobServers) -> list[str]:
    """What a command of a job sees of it."""
    command = f"""python3 -c "{SEEN.replace('"', chr(92) + '"')}" {folder}/seen"""
    _, [outcome] = run_at_once(commands(folder, command), environment, 60.0, servers=servers)
    assert not outcome.error
    return (folder / "seen").read_text().split()


@linux
def test_jobs_of_one_client_and_environment_share_the_process_that_starts_them(
    tmp_path: Path, new_servers: Callable[[], list[int]]
) -> None:
    servers: JobServers = {}
    seen = [seen_by(tmp_path, environment, servers) for environment in ({}, {}, {"COLOUR": "red"})]
    assert [colour for *_, colour in seen] == ["None", "None", "red"]
    assert len({process for process, *_ in seen}) == 3
    assert len(new_servers()) == 2


@pytest.mark.parametrize("is_refused", [pytest.param(False, marks=linux, id="forked"), pytest.param(True, id="new")])
def test_a_job_has_its_own_session_its_environment_and_no_blocked_signals(
    tmp_path: Path, new_servers: Callable[[], list[int]], is_refused: bool
) -> None:
    server = ForkServer({"COLOUR": "red"}, 60.0)
    server._is_refused = is_refused
    key = "command", frozenset({("COLOUR", "red")})
    process, session, blocked, colour = seen_by(tmp_path, {"COLOUR": "red"}, {key: server})
    assert (session, blocked, colour) == (process, "0", "red")
    assert len(new_servers()) == (not is_refused)


@linux
def test_a_server_imports_only_the_modules_of_its_client(tmp_path: Path, new_servers: Callable[[], list[int]]) -> None:
    servers: JobServers = {}
    loaded = []
    for client in ("command", "branchline"):
        before = new_servers()
        run_at_once([JobRequest(0, client, [], str(tmp_path), command="true")], {}, 60.0, servers=servers)
        [server] = set(new_servers()) - set(before)
        loaded.append("awkward" in Path(f"/proc/{server}/maps").read_text())
    assert loaded == [False, True]


def test_a_package_that_cannot_be_imported_is_an_error_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "uproot.py").write_text("raise RuntimeError('broken')\n")
    request = JobRequest(0, "uproot", [], str(tmp_path))
    _, [outcome] = run_at_once([request], {"PYTHONPATH": str(tmp_path)}, 60.0)
    assert outcome.error == "RuntimeError: broken"


@linux
def test_they_end_with_who_asked(tmp_path: Path, new_servers: Callable[[], list[int]]) -> None:
    servers: JobServers = {}
    _, [outcome] = run_at_once(commands(tmp_path, "true"), {}, 60.0, servers=servers)
    assert not outcome.error
    processes = new_servers()
    assert processes
    del servers
    for one in processes:
        until_gone(one)


def test_a_job_that_is_too_slow_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    text = f"""sh -c "echo $$ > {tmp_path}/number; sleep 100 & echo $! >> {tmp_path}/number; wait" """
    _, [outcome, other] = run_at_once(commands(tmp_path, text, "true"), {}, 4.0)
    assert "timed out after 4 s" in outcome.error
    assert not other.error
    for one in (tmp_path / "number").read_text().split():
        until_gone(int(one))


def test_a_job_that_is_killed_says_by_what(tmp_path: Path) -> None:
    _, [outcome] = run_at_once(commands(tmp_path, 'sh -c "kill -9 $PPID"'), {}, 60.0)
    assert "it died with code -9" in outcome.error


def test_the_errors_of_a_job_are_those_of_its_sample(tmp_path: Path) -> None:
    text = 'sh -c "kill -SEGV $PPID"'
    _, [outcome] = run_at_once(commands(tmp_path, text), {"PYTHONFAULTHANDLER": "1"}, 60.0)
    assert f"it died with code {-signal.SIGSEGV}" in outcome.error
    assert "Segmentation fault" in outcome.error


@linux
def test_a_server_that_dies_costs_no_sample(tmp_path: Path, new_servers: Callable[[], list[int]]) -> None:
    servers: JobServers = {}
    run_at_once(commands(tmp_path, "true"), {}, 60.0, servers=servers)
    [server] = new_servers()
    os.kill(server, signal.SIGKILL)
    _, [outcome] = run_at_once(commands(tmp_path, "true"), {}, 60.0, servers=servers)
    assert not outcome.error
    assert set(new_servers()) - {server}


@linux
@pytest.mark.parametrize(
    ("then", "error"), [("touch done", ""), ("kill -9 $PPID", "it died with code -9")], ids=["goes on", "dies"]
)
def test_the_end_of_a_job_whose_server_dies_is_known(
    tmp_path: Path, new_servers: Callable[[], list[int]], then: str, error: str
) -> None:
    servers: JobServers = {}
    run_at_once(commands(tmp_path, "true"), {}, 60.0, servers=servers)
    [server] = new_servers()
    text = f"""sh -c "cd {tmp_path}; kill -9 {server}; while kill -0 {server}; do :; done; {then}" """
    _, [outcome] = run_at_once(commands(tmp_path, text), {}, 60.0, servers=servers)
    assert outcome.error.startswith(error)
    assert bool(outcome.error) == bool(error)
    assert (tmp_path / "done").exists() == (not error)


@linux
def test_jobs_of_a_sample_share_the_weight_of_one_process_per_processor(tmp_path: Path) -> None:
    with equal_share([]) as is_possible:
        if not is_possible:
            pytest.skip("needs a user who may create control groups")
    seen = [tmp_path / str(number) for number in range(2)]
    _, outcomes = run_at_once(commands(tmp_path, *(f"cp /proc/self/cgroup {one}" for one in seen)), {}, HANG_S)
    assert not any(one.error for one in outcomes)
    first, second = (groups_in(one.read_text()) for one in seen)
    assert first == second
    [group] = first - groups_in(Path("/proc/self/cgroup").read_text())
    assert f"branchline-study-{os.getpid()}-" in group
    # The group is gone with its jobs.
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{Path(group).name}"))


@linux
def test_a_group_of_a_killed_study_is_removed_by_the_next(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with equal_share([]) as is_possible:
        if not is_possible:
            pytest.skip("needs a user who may create control groups")
        [group] = Path("/sys/fs/cgroup").glob(f"**/branchline-study-{os.getpid()}-*")
    left = group.with_name(f"branchline-study-{ended.pid}-0")
    left.mkdir()
    with equal_share([]):
        assert not left.exists()


@linux
def test_processes_that_cannot_be_moved_run_without_a_group() -> None:
    with equal_share([-1]) as is_possible:
        assert not is_possible
    assert not list(Path("/sys/fs/cgroup").glob(f"*/branchline-study-{os.getpid()}-*"))


def groups_in(text: str) -> set[str]:
    """The control groups in /proc/PID/cgroup."""
    return {line.split(":", 2)[2] for line in text.splitlines()}
