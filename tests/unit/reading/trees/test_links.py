"""Links that reading measures: a place that is made slow is another place than the same one as it is."""

from __future__ import annotations

import socket

import pytest
from tests.unit.reading.trees.conftest import Sample

from branchline.reading.access import Access
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.records.sensors.storage_counts import links_chosen

SLOW = Access(throttle="latency=20ms")


def read(sample: Sample, access: Access) -> float:
    """The round trip of this machine's disk, in seconds, after all of a file was read."""
    with ChunkStream([Source(str(sample.path))], None, access=access) as stream:
        assert sum(len(chunk) for chunk in stream) == len(sample.values)
    [here] = [one for one in links_chosen(access) if one.name == f"local:{socket.gethostname()}"]
    return here.round_trip_s


@pytest.mark.parametrize("first_is_slow", [True, False])
def test_a_throttled_disk_is_not_taken_for_the_disk_as_it_is(sample: Sample, first_is_slow: bool) -> None:
    order = [SLOW, Access(), SLOW] if first_is_slow else [Access(), SLOW, Access()]
    for access in order:
        round_trip_s = read(sample, access)
        assert (round_trip_s >= 0.02) == (access is SLOW)
