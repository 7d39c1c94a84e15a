"""What a trial warns of, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from branchline.control.trials.trial import DONE, WARNED, TrialOutcome, WagonTrial, state_of, warnings

READ_S = 1e-6


def outcome_of(wagon: WagonTrial) -> TrialOutcome:
    return TrialOutcome(wagons=[wagon], events=wagon.events, read_s_per_event=READ_S)


def texts(wagon: WagonTrial) -> list[str]:
    return [one.what for one in warnings(outcome_of(wagon))]


def test_times_of_a_short_sample_are_left_alone() -> None:
    waits = WagonTrial("waits", events=800, seconds_per_event=1e-4, cpu_s_per_event=0.0)
    assert texts(waits) == []
    assert state_of(outcome_of(waits)) == DONE


def test_a_wagon_that_waits_is_warned() -> None:
    waits = WagonTrial("waits", events=100_000, seconds_per_event=19e-6, cpu_s_per_event=9e-6)
    assert texts(waits) == ["waits waits for more than half of its time"]
    assert state_of(outcome_of(waits)) == WARNED
    assert texts(replace(waits, cpu_s_per_event=10e-6)) == []


def test_a_wagon_that_is_slower_than_reading_is_warned() -> None:
    slow = WagonTrial("slow", events=100_000, seconds_per_event=21e-6, cpu_s_per_event=21e-6)
    assert texts(slow) == ["slow takes 21.0 times as long for an event as reading it"]
    assert texts(replace(slow, seconds_per_event=19e-6, cpu_s_per_event=19e-6)) == []
