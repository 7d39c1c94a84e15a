"""Ctrl-C stops at once where that is harmless and is kept in mind where it is not."""

from __future__ import annotations

import os
import signal
import threading
import time
import weakref

import pytest

from branchline.jobs.interruption import Interruption


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_outside_of_allowed_it_is_only_noted() -> None:
    interruption = Interruption()
    with interruption.installed():
        interrupt()
        assert interruption.asked
        with pytest.raises(KeyboardInterrupt), interruption.allowed():
            pytest.fail("this block must not be entered")


def test_inside_of_allowed_it_raises_at_once() -> None:
    interruption = Interruption()
    with interruption.installed(), pytest.raises(KeyboardInterrupt), interruption.allowed():
        interrupt()
    assert interruption.asked


def test_asked_again_it_raises_only_where_others_are_waited_for() -> None:
    interruption = Interruption()
    with interruption.installed():
        interrupt()
        interrupt()
        with pytest.raises(KeyboardInterrupt), interruption.waiting():
            interrupt()
        interrupt()


def test_the_first_signal_does_not_end_the_wait_for_others() -> None:
    interruption = Interruption()
    with interruption.installed(), interruption.waiting():
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            interrupt()


def test_a_wait_may_want_to_be_asked_more_often() -> None:
    interruption = Interruption()
    with interruption.installed(), interruption.waiting(enough=3):
        interrupt()
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            interrupt()


def test_it_tells_whoever_wants_to_know_once_and_puts_the_old_handler_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    calls: list[int] = []
    interruption = Interruption()
    interruption.when_asked = lambda: calls.append(1)
    with interruption.installed():
        interrupt()
        interrupt()
    assert calls == [1]
    assert signal.getsignal(signal.SIGINT) is before


def test_what_batch_systems_send_is_taken_as_ctrl_c() -> None:
    interruption = Interruption()
    with interruption.installed(), pytest.raises(KeyboardInterrupt), interruption.allowed():
        os.kill(os.getpid(), signal.SIGTERM)
    assert interruption.asked
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_what_a_callback_swallows_comes_again(capsys: pytest.CaptureFixture[str]) -> None:
    class Thing:
        pass

    def drop_and_wait(things: list[Thing]) -> None:
        things.clear()
        time.sleep(5)

    things = [Thing()]
    reference = weakref.ref(things[0], lambda _: interrupt())
    interruption = Interruption()
    with interruption.installed(), pytest.raises(KeyboardInterrupt), interruption.allowed():
        drop_and_wait(things)
    assert reference() is None
    assert capsys.readouterr().err == ""


def test_it_comes_again_where_the_thread_that_brings_it_starts_slowly(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine the moment is over before the hook has ended, which would swallow it as the callback did."""

    class SlowTimer(threading.Timer):
        def start(self) -> None:
            super().start()
            time.sleep(0.2)

    monkeypatch.setattr("branchline.jobs.interruption.threading.Timer", SlowTimer)
    test_what_a_callback_swallows_comes_again(capsys)


def test_what_is_held_is_raised_behind() -> None:
    interruption = Interruption()
    done = []

    def work() -> None:
        with interruption.held():
            interrupt()
            interrupt()
            done.append("this")
        done.append("not this")

    with interruption.installed(), pytest.raises(KeyboardInterrupt), interruption.waiting():
        work()
    assert done == ["this"]
