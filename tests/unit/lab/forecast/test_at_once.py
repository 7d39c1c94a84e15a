"""Jobs at once from a trace and from files, by `branchline.what_if`: where a link is full, and what cannot be asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.lab.forecast.test_planned_requests import write

import branchline
from branchline.errors import OptionError
from branchline.lab.forecast.forecasting import WhatIf
from branchline.lab.simulation.simulated_jobs import JobsAtOnce
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.tracing.recording import recording


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("data") / "file.root", [20_000] * 5)


@pytest.fixture(scope="module")
def trace(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "one.parquet"
    with recording(path, "a test"), ChunkStream([Source(str(data), "events")], None) as stream:
        for chunk in stream:
            chunk.release()
    return path


@pytest.mark.parametrize("of", ["data", "trace"])
def test_jobs_share_a_link_until_it_is_full(of: str, request: pytest.FixtureRequest, data: Path) -> None:
    found = branchline.what_if(request.getfixturevalue(of), "jobs=30,bandwidth=20MB/s,rtt=10ms")
    assert isinstance(found, JobsAtOnce)
    assert [found.points[0].jobs, found.points[-1].jobs] == [1, 30]
    together = [one.bytes_per_s for one in found.points]
    assert together == pytest.approx(sorted(together), rel=0.02)
    assert 0.8 * 20e6 < together[-1] <= 20e6
    assert found.saturation is not None
    assert found.saturation.limited_by == "link shared by all"
    # What a job reads takes as long as the link lets it.
    assert found.points[-1].makespan_s == pytest.approx(30 * data.stat().st_size / 20e6, rel=0.2)


def test_one_job_is_forecast_with_an_interval(data: Path) -> None:
    found = branchline.what_if(data, "rtt=63ms,bandwidth=7MB/s", "access=cache", branches=["x"])
    assert isinstance(found, WhatIf)
    assert found.then.wall_s.low < found.then.wall_s.value < found.then.wall_s.high
    assert found.then.wall_s.value > 5 * 0.063


def test_a_platform_of_its_own_is_shared(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(
        """
        storages = [{name = "eos", disk = "disk"}]
        disks = [{name = "disk", bytes_per_s = 10e6}]
        nodes = [{name = "farm", count = 2, cores = 4, bytes_per_s = 1e9}]
        """
    )
    found = branchline.what_if(data, "jobs=8", platform=path)
    assert isinstance(found, JobsAtOnce)
    assert found.points[-1].limited_by == "disk disk"


def test_what_a_trace_cannot_answer_is_an_error(trace: Path) -> None:
    for condition in ("access=plain", "codec=zstd:5", "layout=merged", "branches=a", "gap=1MB", "order=branch"):
        with pytest.raises(OptionError, match="needs the layout of the files, which a trace does not contain"):
            branchline.what_if(trace, condition, "bandwidth=1GB/s")
    with pytest.raises(OptionError, match="bandwidth to the storage is unknown"):
        branchline.what_if(trace, "jobs=10")
