"""A job runs the same in this process and in several, and no death of a worker leaves it hanging."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from branchline.jobs import (
    WAIT,
    Context,
    Finished,
    InThisProcess,
    LocalProcesses,
    Message,
    Note,
    Place,
    SubJob,
    Wait,
    WorkerDiedError,
)


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


def test_a_worker_that_is_interrupted_while_it_starts_says_so_in_good_order(capfd: pytest.CaptureFixture[str]) -> None:
    place = LocalProcesses(2)

    def stop_when_started() -> None:
        while len(place._processes) < 2:
            time.sleep(0.001)
        place.stop()

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
