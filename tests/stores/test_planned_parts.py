"""What a job reads of a file at a server that is cut into parts is what is planned for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stores.servers import Folder, Nginx, certificates
from tests.unit.lab.forecast.jobs_in_parts import record_of, work_of, write_large


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    """The URL of a folder at nginx."""
    folder = Folder()
    nginx = None
    try:
        data, keys = folder.below("data"), folder.below("certificates")
        certificates(keys)
        for name, clusters in (("large", 70), ("small", 5)):
            write_large(data / f"{name}.root", clusters).chmod(0o644)
        nginx = Nginx(folder.below("nginx"), data, keys)
        nginx.start()
        yield f"http://127.0.0.1:{nginx.port}"
    finally:
        if nginx is not None:
            nginx.kill()
        folder.remove()


@pytest.mark.parametrize("mode", ["planned", "plain", "prefetch"])
@pytest.mark.parametrize("branches", [None, ["x", "y"]], ids=["learned", "named"])
def test_a_job_over_http_reads_what_is_planned(
    place: str, tmp_path: Path, mode: str, branches: list[str] | None
) -> None:
    for name in ("large", "small"):
        out = tmp_path / name
        record = record_of([f"{place}/{name}.root"], out, 0, mode, branches)
        assert work_of(out).bytes_read == record["totals"]["bytes_read"]


def test_two_workers_open_a_file_over_http_once_each(place: str, tmp_path: Path) -> None:
    record = record_of([f"{place}/large.root"], tmp_path, 2, "planned", ["x", "y"])
    one, two = (work_of(tmp_path, workers).bytes_read for workers in (1, 2))
    # One worker may have had all parts before the other had started.
    assert record["totals"]["bytes_read"] in (one, two)
    assert two > one
