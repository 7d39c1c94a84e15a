"""Somebody looks in a browser at the history of the reference job, at its alarms among the findings, and at a job that
is compared with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.pages.conftest import NARROW, WIDE, Keep, Open, expect
from tests.pages.test_every_page import check
from tests.sampled import long_but
from tests.unit.control.batches import identity, last
from tests.unit.control.web.server import Server
from tests.unit.control.web.test_watched import reference_room

from branchline.records.sensors.record import StorageRecord, WorkerPhases


@pytest.fixture(scope="module")
def watching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    room = tmp_path_factory.mktemp("watching") / "room"
    reference_room(room)
    job = identity("compared", begin=datetime.now(UTC))
    end = last(job, 0)
    assert end.record
    element = StorageRecord("root://slow.example.org", 9, bytes_read=4_000_000_000, read_calls=1000, fetch_s=100.0)
    workers = [WorkerPhases(number, wall_s=60.0, processor="Xeon") for number in range(8)]
    record = replace(end.record, started=job.started, storage_elements=[element], worker_phases=workers)
    with Server(room) as server:
        assert server.report(replace(end, record=record)).json() == {"taken": True}
        yield server


LOOKS = [(WIDE, "light"), (NARROW, "dark"), (WIDE, "dark"), (NARROW, "light")]


@pytest.mark.parametrize(("width", "colours"), long_but(LOOKS, [(NARROW, "dark")]))
def test_the_reference_job_has_charts_and_alarms(
    viewer: Open, watching: Server, picture: Keep, width: int, colours: str
) -> None:
    page = viewer("/watched", width, server=watching, color_scheme=colours)
    expect(page.get_by_role("img", name="MB per second of reading time over time")).to_have_count(3)
    expect(page.get_by_role("img", name="CPU time of the benchmark in s over time")).to_have_count(3)
    # Marks of the turns, and a line with the levels before and after the change.
    chart = page.locator("figure").first
    assert chart.locator("svg path").count() == 2
    assert chart.locator("svg path").nth(1).get_attribute("d").count("V") == 1
    expect(page.locator("p.message")).to_have_count(2)
    expect(page.locator("p.message").first).to_contain_text("wrong values: /eos/test on Xeon")
    check(page, width)
    picture(page, f"watched-{width}-{colours}")
    page.get_by_role("link", name="Findings").click()
    expect(page.get_by_role("heading", name="slower since a change")).to_be_visible()
    picture(page, f"watched-findings-{width}-{colours}")
    page.get_by_role("link", name="its history").first.click()
    expect(page.get_by_role("heading", name="Watched storages")).to_be_visible()
    page.get_by_role("link", name="Jobs").click()
    page.get_by_role("link", name="compared").click()
    expect(page.get_by_text("This job read 40.0 MB per second of reading time")).to_be_visible()
    picture(page, f"watched-job-{width}-{colours}")
