"""Jobs that begin at once: forked from a process that has loaded their client, and ended whatever happens."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from branchline.lab.at_once import run_at_once
from branchline.lab.job import JobRequest
from branchline.lab.starting import JobStarters

SEEN = "import os, sys; open(sys.argv[1], 'w').write(f'{os.getpid()} {os.getppid()} {os.environ.get(\"COLOUR\")}')"


def commands(folder: Path, *texts: str) -> list[JobRequest]:
    """Jobs of any commands."""
    return [JobRequest(number, "command", [], str(folder), command=text) for number, text in enumerate(texts)]


def children() -> list[psutil.Process]:
    """Processes below this one that still do something."""
    return [one for one in psutil.Process().children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE]


def until_gone(process: int) -> None:
    end_s = time.monotonic() + 10
    while psutil.pid_exists(process) and psutil.Process(process).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end_s, "it lives"
        time.sleep(0.01)


def test_jobs_of_one_client_and_environment_share_the_process_that_starts_them(tmp_path: Path) -> None:
    starters = JobStarters()
    seen = []
    for number, environment in enumerate([{}, {}, {"COLOUR": "red"}]):
        command = f"""python3 -c "{SEEN.replace('"', chr(92) + '"')}" {tmp_path}/{number}"""
        _, [outcome] = run_at_once(commands(tmp_path, command), environment, 60.0, starters=starters)
        assert not outcome.error
        seen.append((tmp_path / str(number)).read_text().split())
    assert [colour for _, _, colour in seen] == ["None", "None", "red"]
    assert len({process for process, _, _ in seen}) == 3
    assert len(children()) == 2


def test_they_end_with_who_asked(tmp_path: Path) -> None:
    starters = JobStarters()
    _, [outcome] = run_at_once(commands(tmp_path, "true"), {}, 60.0, starters=starters)
    assert not outcome.error
    processes = [one.pid for one in children()]
    assert processes
    del starters
    for one in processes:
        until_gone(one)


def test_a_job_that_is_too_slow_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    text = f"""sh -c "echo $$ > {tmp_path}/number; sleep 100 & echo $! >> {tmp_path}/number; wait" """
    _, [outcome, other] = run_at_once(commands(tmp_path, text, "true"), {}, 1.0)
    assert "it took longer than 1 s, and was ended" in outcome.error
    assert not other.error
    for one in (tmp_path / "number").read_text().split():
        until_gone(int(one))


def test_a_job_that_is_killed_says_by_what(tmp_path: Path) -> None:
    _, [outcome] = run_at_once(commands(tmp_path, 'sh -c "kill -9 $PPID"'), {}, 60.0)
    assert "it died with code -9" in outcome.error


def test_a_starter_that_dies_costs_one_sample(tmp_path: Path) -> None:
    starters = JobStarters()
    run_at_once(commands(tmp_path, "true"), {}, 60.0, starters=starters)
    [starter] = children()
    os.kill(starter.pid, signal.SIGKILL)
    with pytest.raises(Exception, match="a job of the study cannot be started"):
        run_at_once(commands(tmp_path, "true"), {}, 60.0, starters=starters)
    _, [outcome] = run_at_once(commands(tmp_path, "true"), {}, 60.0, starters=starters)
    assert not outcome.error


def test_jobs_whose_starter_dies_go_on(tmp_path: Path) -> None:
    starters = JobStarters()
    text = f"""sh -c "kill -9 $(ps -o ppid= -p $PPID); echo done > {tmp_path}/done" """
    _, [outcome] = run_at_once(commands(tmp_path, text), {}, 60.0, starters=starters)
    assert not outcome.error
    assert (tmp_path / "done").read_text() == "done\n"
