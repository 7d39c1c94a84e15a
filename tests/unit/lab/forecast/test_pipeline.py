"""The pipeline in simulated time: what waits for what, by arithmetic that can be done by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from branchline.lab.forecast.pipeline import FileCosts, ReadingConditions, timing
from branchline.lab.forecast.planned_requests import PlannedReads

MB = 1_000_000
TRIP_S = 0.1


def plan(calls: Sequence[tuple[str, int, int]], *, in_flight: int = 1, whole: bool = False) -> PlannedReads:
    """Calls as purpose, bytes and chunk."""
    return PlannedReads(
        call=np.arange(len(calls)),
        offset=np.zeros(len(calls), np.int64),
        size=np.array([size for _, size, _ in calls]),
        purposes=tuple(purpose for purpose, _, _ in calls),
        chunk_of_call=np.array([chunk for _, _, chunk in calls]),
        chunks=max(chunk for _, _, chunk in calls) + 1,
        calls_in_flight=in_flight,
        bytes_in_flight=1000 * MB,
        is_whole=whole,
        opens_ahead=in_flight > 1,
        seen=(0, 0.0),
    )


def conditions(**others: object) -> ReadingConditions:
    values: dict[str, object] = {
        "round_trip_s": TRIP_S,
        "bytes_per_s": 0.0,
        "call_s": 0.0,
        "threads": 1,
        "memory_limit_bytes": 2**30,
        "is_remote": False,
        "prefetches_chunks": False,
    }
    return ReadingConditions(**{**values, **others})  # type: ignore[arg-type]


def seconds(plans: Sequence[PlannedReads], decode_s: float = 0.0, wagons_s: float = 0.0, **others: object) -> float:
    files = [FileCosts(one, MB, 0.0, decode_s, wagons_s) for one in plans]
    return timing(files, conditions(**others)).wall_s


ONE_BY_ONE = plan([("opening", 1000, 0), *(("baskets", 1000, 0) for _ in range(9))])


def test_calls_one_after_the_other_wait_for_a_round_trip_each() -> None:
    assert seconds([ONE_BY_ONE]) == pytest.approx(10 * TRIP_S)
    assert seconds([ONE_BY_ONE], call_s=0.01) == pytest.approx(10 * (TRIP_S + 0.01))
    assert seconds([ONE_BY_ONE, ONE_BY_ONE]) == pytest.approx(20 * TRIP_S)
    assert timing([], conditions()).wall_s == 0


def test_bytes_pass_the_link_after_the_round_trip() -> None:
    assert seconds([plan([("baskets", 2 * MB, 0)])], bytes_per_s=MB) == pytest.approx(TRIP_S + 2)


def test_a_server_is_connected_to_once_and_asked_for_each_file() -> None:
    assert seconds([ONE_BY_ONE], is_remote=True, connect_trips=2.0) == pytest.approx(12 * TRIP_S)
    assert seconds([ONE_BY_ONE] * 2, is_remote=True, connect_trips=2.0) == pytest.approx(23 * TRIP_S)


def test_calls_ahead_share_a_round_trip() -> None:
    calls = [("opening", 1000, 0), *(("prefetch", 1000, chunk) for chunk in range(8))]
    together = [plan(calls, in_flight=8)]
    assert seconds(together, prefetches_chunks=True) == pytest.approx(2 * TRIP_S)
    assert seconds([plan(calls, in_flight=2)], prefetches_chunks=True) == pytest.approx(5 * TRIP_S)


def test_a_staged_file_is_copied_by_eight_threads_or_fewer() -> None:
    staged = plan([*(("staging", 1000, 0) for _ in range(16)), ("baskets", 1000, 0)])
    assert seconds([staged]) == pytest.approx(3 * TRIP_S)
    assert seconds([staged], staging_threads=2) == pytest.approx(9 * TRIP_S)
    assert seconds([staged], staging_threads=1) == pytest.approx(17 * TRIP_S)


def test_files_are_opened_while_others_are_read() -> None:
    whole = plan([("opening", MB, 0)], in_flight=8, whole=True)
    assert seconds([whole] * 8, prefetches_chunks=True, first_in_flight=8) == pytest.approx(TRIP_S)
    assert seconds([whole] * 8, prefetches_chunks=True, first_in_flight=8, bytes_per_s=MB) == pytest.approx(8 + TRIP_S)


def test_decoding_is_hidden_behind_the_transfer_but_for_the_last_file() -> None:
    whole = plan([("opening", MB, 0)], in_flight=8, whole=True)
    slow = {"prefetches_chunks": True, "first_in_flight": 8, "bytes_per_s": MB, "round_trip_s": 0.0}
    assert seconds([whole] * 4, decode_s=0.5, **slow) == pytest.approx(4.5)
    assert seconds([whole] * 4, decode_s=2.0, **slow) == pytest.approx(1 + 8)
    assert seconds([whole] * 4, decode_s=2.0, threads=2, **slow) == pytest.approx(5)


def test_wagons_take_chunks_one_after_the_other() -> None:
    chunks = plan([("baskets", 1000, chunk) for chunk in range(4)])
    assert seconds([chunks], wagons_s=4.0, round_trip_s=0.0) == pytest.approx(4)
    assert seconds([chunks], decode_s=2.0, wagons_s=4.0, round_trip_s=0.0) == pytest.approx(4.5)


def test_threads_take_turns_on_the_cores_that_are_there() -> None:
    chunks = plan([("baskets", 1000, chunk) for chunk in range(4)])
    work = {"decode_s": 2.0, "wagons_s": 4.0, "round_trip_s": 0.0}
    assert seconds([chunks], cores=1, **work) == pytest.approx(6)
    assert seconds([chunks], cores=2, **work) == seconds([chunks], **work)
    whole = plan([("opening", MB, 0)], in_flight=8, whole=True)
    ahead = {"prefetches_chunks": True, "first_in_flight": 8, "round_trip_s": 0.0}
    opened = [FileCosts(whole, MB, 1.0, 0.0)] * 8
    times = [timing(opened, conditions(cores=cores, **ahead)).wall_s for cores in (1, 2, 0)]
    assert times == pytest.approx([8, 4, 1])


def test_memory_bounds_what_is_asked_for_ahead() -> None:
    calls = [("prefetch", 10 * MB, chunk) for chunk in range(4)]
    one_by_one = seconds([plan(calls, in_flight=4)], prefetches_chunks=True, memory_limit_bytes=80 * MB)
    assert one_by_one == pytest.approx(4 * TRIP_S)
    assert seconds([plan(calls, in_flight=4)], prefetches_chunks=True) == pytest.approx(TRIP_S)
