"""Ctrl-C stops at once where that is harmless and is kept in mind where it is not."""

from __future__ import annotations

import os
import signal

import pytest

from branchline.jobs import Interruption


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


def test_asked_twice_it_raises_anywhere() -> None:
    interruption = Interruption()
    with interruption.installed():
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            interrupt()


def test_it_tells_whoever_wants_to_know_once_and_puts_the_old_handler_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    told: list[int] = []
    interruption = Interruption()
    interruption.when_asked = lambda: told.append(1)
    with interruption.installed():
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            interrupt()
    assert told == [1]
    assert signal.getsignal(signal.SIGINT) is before


def test_what_batch_systems_send_is_taken_as_ctrl_c() -> None:
    interruption = Interruption()
    with interruption.installed(), pytest.raises(KeyboardInterrupt), interruption.allowed():
        os.kill(os.getpid(), signal.SIGTERM)
    assert interruption.asked
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_patient_one_does_not_count_how_often_it_is_asked() -> None:
    interruption = Interruption(patient=True)
    with interruption.installed():
        interrupt()
        interrupt()
        with pytest.raises(KeyboardInterrupt), interruption.allowed():
            pytest.fail("this block must not be entered")
