"""A job runs the same in this process and in several, and no death of a worker leaves it hanging."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from branchline.jobs.local import InThisProcess, LocalProcesses
from branchline.jobs.program import ModuleFile
from branchline.jobs.subjob import WAIT, Context, Finished, Lost, Message, Note, Place, SubJob, Wait, WorkerDiedError


def supply(count: int) -> Callable[[], SubJob | None]:
    left = iter([SubJob(index, f"the sub-job of file{index}.root", index) for index in range(count)])
    return lambda: next(left, None)


class Squares:
    """Squares payloads; looks ahead by one, as a train does."""

    def __call__(self, context: Context) -> Iterator[Message]:
        here = context.draw()
        while here is not None:
            ahead = context.draw_ahead()
            yield Note(("working on", here.index), context.worker)
            yield Finished(here.index, here.payload**2, context.worker)
            here = context.draw() if isinstance(ahead, Wait) else ahead


class Leaves:
    """Leaves after each sub-job, with the next one drawn already, as a worker does behind one that failed."""

    def __call__(self, context: Context) -> Iterator[Message]:
        here = context.draw()
        context.draw_ahead()
        if here is not None:
            yield Finished(here.index, here.payload**2, context.worker)


class Interrupted:
    """Is interrupted as soon as it can be."""

    def __call__(self, context: Context) -> Iterator[Message]:
        yield Note("asked" if context.interruption.asked else "not asked", context.worker)


class Dies:
    """Ends its process in the sub-job number 3."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __call__(self, context: Context) -> Iterator[Message]:
        here = context.draw()
        while here is not None:
            if here.index == 3 and self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if here.index == 3 and self.how == "exit":
                os._exit(7)
            if here.index == 3 and self.how == "hang up":
                os.closerange(3, 10_000)
                time.sleep(60)
            if here.index == 3:
                raise ValueError("a mistake in the callable")
            yield Finished(here.index, None, context.worker)
            here = context.draw()


class Slow:
    """Finishes what it has when it is interrupted."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, context: Context) -> Iterator[Message]:
        here = context.draw()
        assert here is not None
        Path(self.folder, str(os.getpid())).touch()
        yield Note("begun", context.worker)
        try:
            with context.interruption.allowed():
                time.sleep(60)
        except KeyboardInterrupt:
            yield Finished(here.index, "partial", context.worker)


@pytest.mark.parametrize("place", [InThisProcess(), LocalProcesses(1), LocalProcesses(3)])
def test_every_sub_job_is_finished_once(place: Place) -> None:
    messages = list(place.run(Squares(), supply(10)))
    finished = {one.index: one.value for one in messages if isinstance(one, Finished)}
    assert finished == {index: index**2 for index in range(10)}
    assert len(messages) == 20


@pytest.mark.parametrize("place", [InThisProcess(), LocalProcesses(2)])
def test_a_worker_that_leaves_early_leaves_nothing_undone(place: Place) -> None:
    finished = [one.index for one in place.run(Leaves(), supply(5)) if isinstance(one, Finished)]
    assert sorted(finished) == [0, 1, 2, 3, 4]


def test_workers_wait_for_a_sub_job_that_is_not_known_yet() -> None:
    place = LocalProcesses(2)
    handed: list[int] = []
    seen: list[int] = []

    def draw() -> SubJob | Wait | None:
        if handed and not seen:
            return WAIT
        if len(handed) == 4:
            return None
        handed.append(len(handed))
        return SubJob(handed[-1], "", handed[-1])

    for message in place.run(Squares(), draw):
        seen += [message.index] if isinstance(message, Finished) else []
    assert seen[0] == 0
    assert sorted(seen) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("kill", r"killed by signal 9 \(SIGKILL\) in the sub-job of file3\.root.*memory"),
        ("exit", "exit code 7 in the sub-job of file3"),
        ("hang up", "closed its connection to the job in the sub-job of file3.*does a wagon close files"),
    ],
)
def test_a_worker_that_dies_names_its_sub_job(how: str, message: str) -> None:
    with pytest.raises(WorkerDiedError, match=message):
        list(LocalProcesses(2).run(Dies(how), supply(10)))


def test_a_mistake_in_the_callable_arrives_with_its_traceback() -> None:
    with pytest.raises(ValueError, match="a mistake in the callable") as caught:
        list(LocalProcesses(2).run(Dies("raise"), supply(10)))
    assert "in __call__" in "".join(caught.value.__notes__)


def test_stop_lets_workers_hand_over_what_they_have_and_leaves_no_process(tmp_path: Path) -> None:
    place = LocalProcesses(2)
    begun = 0
    finished = []
    for message in place.run(Slow(str(tmp_path)), supply(5)):
        if isinstance(message, Finished):
            finished.append(message.value)
        else:
            begun += 1
            if begun == 2:
                place.stop()
    assert finished == ["partial", "partial"]
    assert_gone(tmp_path)


def test_a_worker_that_is_interrupted_while_it_starts_says_so_in_good_order(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Both are at a module of the user until then, or the first might have begun before the second one is there."""
    module, stopped = tmp_path / "slow_to_load.py", tmp_path / "stopped"
    module.write_text(f"import os, time\nwhile not os.path.exists({str(stopped)!r}):\n    time.sleep(0.001)\n")
    place = LocalProcesses(2, [ModuleFile("slow_to_load", str(module))])

    def stop_when_started() -> None:
        while len(place._processes) < 2:
            time.sleep(0.001)
        place.stop()
        stopped.touch()

    threading.Thread(target=stop_when_started).start()
    messages = list(place.run(Interrupted(), lambda: None))
    assert [one.value for one in messages if isinstance(one, Note)] == ["asked", "asked"]
    assert capfd.readouterr().err == ""


def test_leaving_early_ends_the_workers(tmp_path: Path) -> None:
    messages = LocalProcesses(1).run(Slow(str(tmp_path)), supply(1))
    assert isinstance(next(messages), Note)
    messages.close()  # type: ignore[attr-defined]
    assert_gone(tmp_path)


def assert_gone(folder: Path) -> None:
    pids = [int(one.name) for one in folder.iterdir()]
    assert pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


class Silent:
    """Stops its process, spins or sleeps in the first sub-job, the first time or always."""

    def __init__(self, folder: str, how: str, always: bool = False) -> None:
        self.folder, self.how, self.always = folder, how, always

    def __call__(self, context: Context) -> Iterator[Message]:
        while (here := context.draw()) is not None:
            context.at(f"the third part of {here.label}")
            mark = Path(self.folder, "silent")
            if here.index == 0 and (self.always or not mark.exists()):
                mark.touch()
                if self.how == "stopped":
                    os.kill(os.getpid(), signal.SIGSTOP)
                else:
                    ctypes.PyDLL(None).sleep(1000)  # keeps Python's lock, as a library may
            # More than a socket holds, so that a worker can be stopped in the middle of it.
            yield Finished(here.index, bytes(10**6) + bytes([here.index]), context.worker)


@pytest.mark.parametrize("how", ["stopped", "in C code"])
def test_a_silent_worker_is_ended_and_its_sub_job_goes_to_another(how: str, tmp_path: Path) -> None:
    messages = list(LocalProcesses(2, timeout_s=3.0).run(Silent(str(tmp_path), how), supply(6)))
    [lost] = [one for one in messages if isinstance(one, Lost)]
    assert lost.doing == "the third part of the sub-job of file0.root"
    assert lost.subjobs == ("the sub-job of file0.root",)
    assert lost.how == ("its process is stopped" if how == "stopped" else "it is sleeping")
    with pytest.raises(ProcessLookupError):
        os.kill(lost.pid, 0)
    finished = {one.index: one.value[-1] for one in messages if isinstance(one, Finished)}
    assert finished == {index: index for index in range(6)}


def test_a_sub_job_in_which_two_workers_are_silent_ends_the_job(tmp_path: Path) -> None:
    with pytest.raises(WorkerDiedError, match=r"without progress.*third part.*an earlier worker was lost in .*file0"):
        list(LocalProcesses(2, timeout_s=2.0).run(Silent(str(tmp_path), "stopped", always=True), supply(6)))


class Computes:
    """Takes a step that is long, but not silent."""

    def __call__(self, context: Context) -> Iterator[Message]:
        while (here := context.draw()) is not None:
            until = time.monotonic() + 1.0
            while time.monotonic() < until:
                pass
            yield Finished(here.index, here.payload, context.worker)


def test_a_worker_that_computes_has_more_time() -> None:
    messages = list(LocalProcesses(1, timeout_s=0.5).run(Computes(), supply(2)))
    assert [type(one) for one in messages] == [Finished, Finished]


def test_a_worker_that_computes_for_ever_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The limit is one that the worker after it keeps on a busy machine, too: it starts within it.
    monkeypatch.setattr("branchline.jobs.workers.heartbeat.WORKER_BUSY_TIMES", 2)

    class Spins:
        def __call__(self, context: Context) -> Iterator[Message]:
            here = context.draw()
            assert here is not None
            mark = tmp_path / "spun"
            while not mark.exists():
                mark.touch()
                while True:
                    pass
            yield Finished(here.index, here.payload, context.worker)

    messages = list(LocalProcesses(1, timeout_s=1.0).run(Spins(), supply(1)))
    assert [type(one) for one in messages] == [Lost, Finished]
    assert isinstance(messages[0], Lost)
    assert messages[0].how == "it computes"


def test_a_worker_that_is_stopped_while_the_job_waits_for_nothing_of_it_is_left_alone(tmp_path: Path) -> None:
    """One that has no sub-job is ended only when it gets one and does not begin."""
    place = LocalProcesses(2, timeout_s=2.0)
    handed: list[int] = []

    def draw() -> SubJob | Wait | None:
        if len(handed) == 3:
            return None
        if len(handed) == 1 and not (tmp_path / "go on").exists():
            (tmp_path / "one waits").touch()
            return WAIT
        handed.append(len(handed))
        return SubJob(handed[-1], f"number {handed[-1]}", handed[-1])

    messages = []
    for message in place.run(Waits(str(tmp_path)), draw):
        messages.append(message)
        if isinstance(message, Note):
            [other] = [one for one in place._processes if one.number != message.worker]
            os.kill(other.process.pid, signal.SIGSTOP)
    [lost] = [one for one in messages if isinstance(one, Lost)]
    assert lost.doing == "waiting for a sub-job"
    assert sorted(one.index for one in messages if isinstance(one, Finished)) == [0, 1, 2]


class Waits:
    """Works on its first sub-job for longer than workers may be silent, in steps."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, context: Context) -> Iterator[Message]:
        while (here := context.draw()) is not None:
            if here.index == 0:
                while not Path(self.folder, "one waits").exists():
                    context.at("the start")
                    time.sleep(0.01)
                yield Note("begun", context.worker)
                for step in range(30):
                    context.at(f"step {step}")
                    time.sleep(0.1)
                Path(self.folder, "go on").touch()
            yield Finished(here.index, here.payload, context.worker)
