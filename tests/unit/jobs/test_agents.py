"""Agents in a process that serves many runs: it remembers what it must of each, and works for none that has ended."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.clusters.event_files import write_events

import branchline
from branchline.base.limits import AGENT_RUNS_MAX
from branchline.jobs.pools import agent
from branchline.jobs.pools.agent import cancel_group, end_agents, stop_agents
from branchline.jobs.pools.pool import PoolRunSettings, SubJobGroup
from branchline.jobs.program import Versions


@pytest.fixture(autouse=True)
def agents(monkeypatch: pytest.MonkeyPatch) -> agent._Agents:
    found = agent._Agents()
    monkeypatch.setattr(agent, "_AGENTS", found)
    return found


def group(run: str, number: int, folder: Path) -> SubJobGroup:
    settings = PoolRunSettings(run, Versions(), None, 60.0, str(folder / "stop"), one_at_a_time=True)
    return SubJobGroup(number, settings, (), "", None)


def remembered(agents: agent._Agents) -> int:
    """How many runs and groups it knows."""
    return sum(1 + len(one.cancelled) for one in agents._calls.values())


def test_a_worker_that_serves_runs_for_months_remembers_a_bounded_number(agents: agent._Agents) -> None:
    for run in range(2 * AGENT_RUNS_MAX):
        for number in range(3):
            cancel_group(f"run {run}", number)
        stop_agents(f"run {run}")
        if run % 2:
            end_agents(f"run {run}")
    # Half of the runs never said that they had ended, and only those have groups.
    assert remembered(agents) == AGENT_RUNS_MAX + 3 * AGENT_RUNS_MAX // 2


def test_calls_are_for_their_own_run_and_group(agents: agent._Agents, tmp_path: Path) -> None:
    cancel_group("one", 3)
    stop_agents("two")
    assert agents.is_cancelled(group("one", 3, tmp_path))
    assert not agents.is_cancelled(group("one", 4, tmp_path))
    assert not agents.is_cancelled(group("two", 3, tmp_path))
    assert not agents.is_stopped(group("one", 3, tmp_path).settings)
    assert agents.is_stopped(group("two", 3, tmp_path).settings)


def test_nothing_is_done_for_a_run_that_has_ended(agents: agent._Agents, tmp_path: Path) -> None:
    cancel_group("one", 3)
    end_agents("one")
    assert agents.is_cancelled(group("one", 3, tmp_path))
    assert agents.is_cancelled(group("one", 4, tmp_path))
    assert agents.is_stopped(group("one", 4, tmp_path).settings)


def test_a_group_that_is_cancelled_while_it_waits_does_not_run(agents: agent._Agents, tmp_path: Path) -> None:
    first, second = group("one", 1, tmp_path), group("one", 2, tmp_path)

    def waits() -> bool:
        with agents.turn(second) as is_ours:
            return is_ours

    with ThreadPoolExecutor(1) as executor:
        with agents.turn(first) as is_first_ours:
            waiting = executor.submit(waits)
            cancel_group("one", 2)
            # It ends while the first group still has its turn.
            assert waiting.result(timeout=60) is False
        assert is_first_ours
        assert executor.submit(waits).result(timeout=60) is False


def count(events: Any) -> int:
    return len(events)


def test_trains_that_follow_each_other_on_an_executor_are_runs_of_their_own(
    agents: agent._Agents, tmp_path: Path
) -> None:
    write_events(tmp_path, 1, 100)
    with ThreadPoolExecutor(1) as executor:
        found = [branchline.run(count, str(tmp_path / "f0.root"), on=executor).outputs for _ in range(2)]
    assert found == [{"count": 100}] * 2
    assert [one.has_ended for one in agents._calls.values()] == [True, True]
