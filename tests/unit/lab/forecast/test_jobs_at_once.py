"""Jobs at once: what they reach together follows from what they share."""

from __future__ import annotations

import importlib
import json
import math
from dataclasses import replace

import pytest

import branchline
from branchline.errors import OptionError
from branchline.lab.simulation.job_plan import ONE_BY_ONE, Block, BlockPlan, ReadingAhead
from branchline.lab.simulation.platform import Cache, Disk, Link, Nodes, Platform, Storage
from branchline.lab.simulation.simulated_jobs import (
    CountedPoint,
    JobsRequest,
    counts_between,
    jobs_at_once,
    simulate_counted,
    simulate_jobs,
)

# A job alone reads 10 blocks of 10 MB in 0.1 s each, while it computes the one before for 0.3 s.
PLAN = BlockPlan(tuple(Block("near", 1e7, 0.3) for _ in range(10)), ReadingAhead(requests_in_flight=1, blocks_ahead=1))
PLATFORM = Platform(
    storages=(Storage("near", disk="d", links=("site",)),),
    nodes=(Nodes("n", count=100, cores=10, bytes_per_s=1e9),),
    disks=(Disk("d", 1e8),),
    links=(Link("site", 1e9),),
)
REQUEST = JobsRequest(PLATFORM, (PLAN,))


def test_a_job_alone_waits_for_its_first_block_only() -> None:
    point = simulate_jobs(REQUEST, 1)
    assert math.isclose(point.makespan_s, 0.1 + 10 * 0.3)
    assert math.isclose(point.cpu_efficiency, 3 / 3.1)


def test_many_jobs_get_the_rate_of_the_disk_and_it_is_named() -> None:
    found = jobs_at_once(REQUEST, [1, 2, 100])
    many = found.points[-1]
    assert math.isclose(many.bytes_per_s, 1e8, rel_tol=0.01)
    assert many.limited_by == "disk d"
    disk = next(one for one in many.loads if one.name == "disk d")
    assert disk.used_part > 0.99
    # Three jobs take 0.3 s to read a block each, as long as they compute one: with the fourth they wait.
    assert found.saturation is not None
    assert (found.saturation.jobs, found.saturation.limited_by) == (4, "disk d")


def test_where_a_thousand_jobs_saturate_is_found_with_few_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("branchline.lab.simulation.simulated_jobs")
    every: list[int] = []

    def counted(request: JobsRequest, count: int) -> CountedPoint:
        every.append(count)
        return simulate_counted(request, count)

    monkeypatch.setattr(module, "simulate_counted", counted)
    wide = replace(PLATFORM, disks=(Disk("d", 2e10),), nodes=(Nodes("n", 1000, 16, 1e9),), links=())
    wide = replace(wide, storages=(Storage("near", disk="d"),))
    request = replace(REQUEST, platform=wide)
    found = jobs_at_once(request, [1000]).saturation
    simulated = list(every)
    assert found is not None
    alone_s = simulate_jobs(request, 1).job_times.median_s
    times = [simulate_jobs(request, count).job_times.median_s for count in (found.jobs, int(0.99 * found.jobs) - 1)]
    assert [alone_s < 0.9 * one for one in times] == [True, False]
    # One of a job alone, one of all, and at most eight halvings of a thousand to one in a hundred.
    assert len(simulated) <= 10
    assert simulated.count(1000) == 1


def test_jobs_beyond_the_slots_wait() -> None:
    small = replace(PLATFORM, nodes=(Nodes("n", 1, 2, 1e9),), disks=(Disk("d", 1e12),))
    point = simulate_jobs(replace(REQUEST, platform=small), 4)
    assert math.isclose(point.slot_wait_s, point.makespan_s / 4)
    assert math.isclose(point.job_times.max_s, point.makespan_s / 2)


def test_the_seed_decides_all_that_is_drawn() -> None:
    drawn = replace(REQUEST, cpu_spread=0.3, start_spread_s=5.0)
    one, same, other = (simulate_jobs(replace(drawn, seed=seed), 30) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_what_a_plan_sums_up_is_rounded_once() -> None:
    """Before Python 3.12 `sum` of ten tenths is below one; the last digit decides which of two equal jobs is first."""
    plan = BlockPlan((Block("near", 0.1, 0.1),) * 10)
    assert (plan.size_bytes, plan.cpu_s) == (1.0, 1.0)


def test_jobs_that_read_the_same_data_find_it_in_a_cache() -> None:
    cached = replace(
        PLATFORM,
        storages=(replace(PLATFORM.storages[0], cache="c"),),
        caches=(Cache("c", 1e12, links=("site",)),),
    )
    later = replace(REQUEST, platform=cached, start_spread_s=1000.0, datasets_count=1)
    assert simulate_jobs(later, 10).cached_part > 0.7
    assert simulate_jobs(replace(later, datasets_count=None), 10).cached_part == 0.0


def test_over_a_long_way_the_engine_requests_more_at_a_time() -> None:
    far = replace(PLATFORM, disks=(Disk("d", 1e9),), links=(Link("site", 1e9, 0.1),))
    reading = BlockPlan(tuple(replace(one, cpu_s=0.0) for one in PLAN.blocks))
    serial = replace(reading, reading=ONE_BY_ONE)
    engine, one_by_one = (simulate_jobs(JobsRequest(far, (plan,)), 1).makespan_s for plan in (reading, serial))
    assert math.isclose(one_by_one, 10 * (0.1 + 0.01))
    assert engine < one_by_one / 3


def test_what_cannot_be_simulated_is_refused() -> None:
    with pytest.raises(OptionError, match="names the storage 'far'"):
        simulate_jobs(replace(REQUEST, plans=(PLAN.at("far"),)), 1)
    with pytest.raises(OptionError, match="0 jobs"):
        jobs_at_once(REQUEST, [0])
    with pytest.raises(OptionError, match="the rate of disk 0 must be above 0, got 0"):
        simulate_jobs(replace(REQUEST, platform=replace(PLATFORM, disks=(Disk("d", 0.0),))), 1)


def test_answers_are_plain_data_for_a_file() -> None:
    found = jobs_at_once(REQUEST, counts_between(1, 10)).to_plain()
    assert [one["jobs"] for one in json.loads(json.dumps(found))["points"]] == [1, 2, 3, 4, 6, 9, 10]
    assert found["jobs_at_once_version"] == 1


def test_the_function_forecast_stays_where_it_is() -> None:
    assert callable(branchline.forecast)
