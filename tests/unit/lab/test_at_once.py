"""Jobs that begin at once: forked from a process that has loaded their client, and ended whatever happens."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tests.patience import HANG_S

from branchline.errors import OptionError
from branchline.lab.sampling.job import JobRequest
from branchline.lab.sampling.local_jobs import JobStarters, run_at_once

SEEN = "import os, sys; open(sys.argv[1], 'w').write(f'{os.getpid()} {os.getppid()} {os.environ.get(\"COLOUR\")}')"


def commands(folder: Path, *texts: str) -> list[JobRequest]:
    """Jobs of any commands."""
    return [JobRequest(number, "command", [], str(folder), command=text) for number, text in enumerate(texts)]


@pytest.fixture
def new_starters() -> Callable[[], list[int]]:
    """Gives the processes that start jobs and that this test began; others of this worker may live."""

    def found() -> set[int]:
        return {
            one.pid for one in psutil.Process().children() if "branchline.lab.sampling.job_starter" in words_of(one)
        }

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


def test_jobs_of_one_client_and_environment_share_the_process_that_starts_them(
    tmp_path: Path, new_starters: Callable[[], list[int]]
) -> None:
    starters = JobStarters()
    seen = []
    for number, environment in enumerate([{}, {}, {"COLOUR": "red"}]):
        command = f"""python3 -c "{SEEN.replace('"', chr(92) + '"')}" {tmp_path}/{number}"""
        _, [outcome] = run_at_once(commands(tmp_path, command), environment, 60.0, starters=starters)
        assert not outcome.error
        seen.append((tmp_path / str(number)).read_text().split())
    assert [colour for _, _, colour in seen] == ["None", "None", "red"]
    assert len({process for process, _, _ in seen}) == 3
    assert len(new_starters()) == 2


def test_they_end_with_who_asked(tmp_path: Path, new_starters: Callable[[], list[int]]) -> None:
    starters = JobStarters()
    _, [outcome] = run_at_once(commands(tmp_path, "true"), {}, 60.0, starters=starters)
    assert not outcome.error
    processes = new_starters()
    assert processes
    del starters
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


def test_a_starter_that_dies_costs_one_sample(tmp_path: Path, new_starters: Callable[[], list[int]]) -> None:
    starters = JobStarters()
    run_at_once(commands(tmp_path, "true"), {}, 60.0, starters=starters)
    [starter] = new_starters()
    os.kill(starter, signal.SIGKILL)
    with pytest.raises(OptionError, match="a job of the study cannot be started"):
        run_at_once(commands(tmp_path, "true"), {}, 60.0, starters=starters)
    _, [outcome] = run_at_once(commands(tmp_path, "true"), {}, 60.0, starters=starters)
    assert not outcome.error


def test_jobs_whose_starter_dies_go_on(tmp_path: Path) -> None:
    starters = JobStarters()
    text = f"""sh -c "kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); echo done > {tmp_path}/done" """
    _, [outcome] = run_at_once(commands(tmp_path, text), {}, 60.0, starters=starters)
    assert not outcome.error
    assert (tmp_path / "done").read_text() == "done\n"
