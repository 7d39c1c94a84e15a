"""Plans from traces: a block for each request, and computing spread over blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from branchline.errors import OptionError
from branchline.lab.simulation.job_plan import ONE_BY_ONE, BlockPlan, plans_of
from branchline.tracing.trace import FILE, PART, REQUEST, SPAN, Codes, RowGroup, Trace, TracedJob

SECOND = 10**9


def codes(*numbers: int) -> Codes:
    return Codes(np.array(numbers, "i8"), ["a.root", "b.root"])


REQUESTS = RowGroup(
    kind=REQUEST,
    request=np.array([0, 1, 2]),
    process=np.array([7, 7, 8]),
    thread=np.array([1, 1, 1]),
    what=["read", "readv", "read"],
    file=codes(0, 0, 1),
    store=["server", "server", "server"],
    offset=np.array([0, 100, 0]),
    size_bytes=np.array([100, 300, 50]),
    got_bytes=np.array([100, 300, 50]),
    sent_ns=np.array([1, 4, 2]) * SECOND,
    last_byte_ns=np.array([2, 5, 3]) * SECOND,
    outcome=["ok", "ok", "ok"],
)
PARTS = RowGroup(
    kind=PART,
    request=np.array([0, 1, 1, 2]),
    file=codes(0, 0, 0, 1),
    offset=np.array([0, 100, 900, 0]),
    size_bytes=np.array([100, 100, 200, 50]),
)


def test_without_times_of_computing_a_program_reads_one_by_one() -> None:
    first, second = plans_of(Trace.of([REQUESTS, PARTS], TracedJob()))
    assert [(one.size_bytes, one.operations, one.cpu_s) for one in first.blocks] == [(100, 1, 2.0), (300, 2, 0.0)]
    assert (first.reading, first.prepare_s, first.blocks[0].storage) == (ONE_BY_ONE, 1.0, "server")
    assert [one.size_bytes for one in second.blocks] == [50]


def test_decoding_belongs_to_the_blocks_of_its_file_and_waits_to_none() -> None:
    spans = RowGroup(
        kind=SPAN,
        what=["decode", "wait", "wagon"],
        file=codes(0, -1, -1),
        process=np.array([7, 7, 7]),
        sent_ns=np.array([0, 0, 0]),
        last_byte_ns=np.array([4, 9, 8]) * SECOND,
    )
    plan = plans_of(Trace.of([REQUESTS, PARTS, spans], TracedJob()), "here")[0]
    assert [one.cpu_s for one in plan.blocks] == [3.0, 9.0]
    assert {one.storage for one in plan.blocks} == {"here"}
    assert plan.reading.blocks_ahead is None
    assert math.isclose(plan.with_cpu(6.0).blocks[1].cpu_s, 4.5)
    assert BlockPlan.from_plain(plan.to_plain()) == plan


def test_reads_of_a_local_file_have_the_operations_that_the_kernel_makes() -> None:
    count, size = 20, 2000
    offset = np.arange(count) * size
    reads = RowGroup(
        kind=REQUEST,
        request=np.arange(count),
        process=np.full(count, 7),
        thread=np.full(count, 7),
        what=["read"] * count,
        file=codes(*([0] * count)),
        store=["local:here"] * count,
        offset=offset,
        size_bytes=np.full(count, size),
        got_bytes=np.full(count, size),
        sent_ns=np.arange(count) * SECOND,
        last_byte_ns=np.arange(count) * SECOND,
        outcome=["ok"] * count,
    )
    [plan] = plans_of(Trace.of([reads, RowGroup(kind=FILE, file=["a.root"], size_bytes=[12 * 4096])], TracedJob()))
    # Opening and four pages; when the second is touched eight more, with which the file ends.
    assert [one.operations for one in plan.blocks] == [2, 0, 1, *[0] * 17]


def test_a_trace_without_reads_is_refused() -> None:
    with pytest.raises(OptionError, match="nothing to simulate"):
        plans_of(Trace.of([], TracedJob()))
