"""A server that dies in the middle of a study: the pair is dropped, counted and named, and the others count."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.stores.conftest import Served
from tests.stores.servers import Folder, Nginx, certificates

import branchline
from branchline.lab.sampling.sampler import HereAtOnce, Turn
from branchline.lab.sampling.samples import SAMPLES, SampleFile, StudySample
from branchline.lab.sampling.study_files import JobFiles, files_of
from branchline.lab.sampling.traces import ranges_on, trace_path
from branchline.lab.studies.study_file import load_study
from branchline.lab.studies.study_run import StudyRun
from branchline.lab.studies.verdict import sentences
from branchline.lab.study import JobSettings

DIES_IN = 1
STUDY = """
question = "Is the server slower?"
precision = "1%"
budget = "2 min"
rounds = 3
limits = false
[job]
files = "one.root"
client = "command"
[factors.storage]
disk = {{ where = "{data}", command = "sleep 0.1" }}
server = {{ where = "{url}", command = "curl --silent --show-error --fail --limit-rate 8m -o /dev/null {{files}}" }}
[baseline]
storage = "disk"
"""


@pytest.fixture
def server() -> Iterator[tuple[Nginx, Path]]:
    folder = Folder()
    data = folder.below("data")
    (data / "one.root").write_bytes(os.urandom(16_000_000))
    keys = folder.below("keys")
    certificates(keys)
    nginx = Nginx(folder.below("nginx"), data, keys)
    nginx.start()
    try:
        yield nginx, data
    finally:
        nginx.kill()
        folder.remove()


class Dying(HereAtOnce):
    """Kills the server while a sample of one round reads from it, and starts it again behind it."""

    def __init__(self, folder: Path, server: Nginx) -> None:
        super().__init__(folder)
        self._server = server

    def take(self, settings: JobSettings, files: JobFiles, turn: Turn, wait_s: float) -> StudySample:
        if turn.round != DIES_IN or "server" not in turn.arm:
            return super().take(settings, files, turn, wait_s)
        before = len(self._server.requests)
        killed = threading.Event()

        def kill_when_it_reads() -> None:
            # The access log has a request when it is over: the connection of curl shows that it is on its way.
            while not killed.wait(0.05) and not _is_read_from(self._server.port):
                pass
            self._server.kill()

        thread = threading.Thread(target=kill_when_it_reads)
        thread.start()
        try:
            return super().take(settings, files, turn, wait_s)
        finally:
            killed.set()
            thread.join()
            self._server.start()
            assert len(self._server.requests) == before, "it died before the file was read"


def _is_read_from(port: int) -> bool:
    """Whether somebody has a connection to a port of the loopback (proc(5): 01 is ESTABLISHED)."""
    wanted = f":{port:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return any(row[2].endswith(wanted) and row[3] == "01" for row in rows)


def test_the_pair_in_which_a_server_dies_is_dropped_counted_and_named(
    server: tuple[Nginx, Path], tmp_path: Path
) -> None:
    nginx, data = server
    text = STUDY.format(data=data, url=f"http://127.0.0.1:{nginx.port}")
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    out, said = tmp_path / "out", list[str]()
    run = StudyRun(load_study(tmp_path / "study.toml", {}), out, 1, Dying(tmp_path, nginx), said.append)
    found = run.run()
    arm = next(one for one in found.arms if "server" in one.name)
    assert (arm.samples, arm.lost) == (2, 1)
    assert arm.time is not None
    assert arm.time.pairs == 2
    [lost] = [one for one in SampleFile(out / SAMPLES).read() if one.error]
    assert (lost.round, lost.arm) == (DIES_IN, "storage server")
    assert "curl ended with code" in lost.error
    assert any(one.startswith("left out of round 2: storage server (arm)") for one in said)
    assert any(one.startswith("storage server: left out 1 time: ") and "curl" in one for one in sentences(found))


@pytest.mark.parametrize(
    ("place", "folder", "wanted"),
    [
        ("{xrootd}//", "", "{xrootd}//small.root"),
        ("{xrootd}//", "table.parquet", "{xrootd}//table.parquet/part.2.parquet"),
        ("{xrootd}//table.parquet/", "/_temporary/", "{xrootd}//table.parquet/_temporary/part.1.parquet"),
        ("{http}", "", "{http}/small.root"),
        ("{http}/", "table.parquet", "{http}/table.parquet/part.2.parquet"),
    ],
)
def test_files_are_below_their_place_at_servers(place: str, folder: str, wanted: str, served: Served) -> None:
    """Two slashes behind a server's name begin a full path at XRootD: without them the server refuses it."""
    servers = {
        "xrootd": f"root://127.0.0.1:{served.xrootd.port}",
        "http": f"http://127.0.0.1:{served.nginx.port}",
    }
    location = wanted.format(**servers)
    name = location.rpartition("/")[2]
    settings = JobSettings(where=(place.format(**servers),), folder=folder, files=(name,))
    found = files_of(settings)
    assert found.of_jobs == [[location]]
    assert found.size_bytes == (served.data / wanted.partition("}")[2].lstrip("/")).stat().st_size


@pytest.mark.parametrize("listing", ["page", "json"])
def test_the_sizes_of_files_that_match_a_pattern_are_known_over_http(listing: str, served: Served) -> None:
    found = files_of(JobSettings(where=(f"http://127.0.0.1:{served.nginx.port}/{listing}",), files=("s*.root",)))
    [names] = found.of_jobs
    assert names
    assert found.size_bytes == sum((served.data / one.rpartition("/")[2]).stat().st_size for one in names)


BLOCKS = """
question = "How fast is the server?"
precision = "90%"
budget = "2 min"
rounds = 1
[job]
where = "{url}"
files = ["a.root", "b.root"]
jobs = 2
tree = "events"
cold = true
[factors.disk]
unknown = {{ served_from = "{elsewhere}" }}
known = {{ served_from = "{data}" }}
[baseline]
disk = "unknown"
"""


@pytest.mark.long
def test_the_ranges_of_a_server_are_repeated_on_the_disk_behind_it(server: tuple[Nginx, Path], tmp_path: Path) -> None:
    nginx, data = server
    (data / "one.root").unlink()
    for name in "ab":
        with branchline.create(data / f"{name}.root") as file:
            file.mktree("events", {"x": np.random.default_rng(1).random(30_000)})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "other.root").write_bytes(b"of another server")
    text = BLOCKS.format(data=data, elsewhere=tmp_path / "elsewhere", url=f"http://127.0.0.1:{nginx.port}")
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    found = StudyRun(load_study(tmp_path / "study.toml", {}), out, 1, HereAtOnce(out), lambda _: None).run()
    unknown, known = ({one.kind for one in arm.limits} for arm in found.arms)
    assert known - unknown == {"blocks"}
    samples = [one for one in SampleFile(out / SAMPLES).read() if one.arm == "disk known"]
    repeated = [one for one in samples if one.kind == "blocks"]
    assert not [one.error for one in samples if one.error]
    for number, name in enumerate("ab"):
        wanted = ranges_on(trace_path(out, "disk known", number), [str(data / f"{name}.root")])
        moved = sum(size for _, _, size in wanted)
        assert moved > 0
        assert [one.jobs[number].bytes_read for one in repeated] == [moved, moved]
    assert all(one.cached_bytes == 0 for one in repeated)
