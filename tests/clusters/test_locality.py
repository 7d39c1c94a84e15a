"""A train over files at two sites, with workers at both: near work goes to near workers, and nothing else changes.

Real XRootD servers are the storage elements, and real workers of Dask stand at sites by their environment.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from distributed import Client
from tests.clusters.conformance import EVENTS, FILES, Case, digest, when
from tests.clusters.places import PlaceHere, dask_servers
from tests.clusters.wagons import ON_HOST, PLAIN, SLOW, write_wagons
from tests.stores.servers import Folder, Xrootd, free_port, loopback_shim

import branchline
from branchline import Dataset
from branchline.records.sensors.record import JobRecord
from branchline.trains.subjobs.shares import cut


@dataclass(frozen=True)
class Elements:
    """Two servers with all files."""

    servers: tuple[Xrootd, Xrootd]
    folder: Path

    def url(self, element: int) -> str:
        return f"root://127.0.0.1:{self.servers[element].port}"

    def list_of(self, places: Sequence[Sequence[int]], sites: Sequence[str] = ("A", "B")) -> Path:
        """A dataset's list: of each file the elements that have it, the first-listed first."""
        files = [[f"{self.url(element)}//f{index}.root" for element in own] for index, own in enumerate(places)]
        content = {"events": {"files": files, "sites": {self.url(0): sites[0], self.url(1): sites[1]}}}
        path = self.folder / "files.json"
        path.write_text(json.dumps(content))
        return path


@pytest.fixture
def elements(data: Path) -> Iterator[Elements]:
    folder = Folder()
    try:
        own_data = folder.below("data")
        for one in data.iterdir():
            shutil.copy(one, own_data)
        shim = loopback_shim(folder.path)
        first, second = (Xrootd(folder.below(name), own_data, shim) for name in ("one", "two"))
        try:
            first.start()
            second.start()
            yield Elements((first, second), folder.below("lists"))
        finally:
            first.kill()
            second.kill()
    finally:
        folder.remove()


@pytest.fixture(scope="module")
def two_sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlaceHere]:
    """A scheduler with a worker at each of two sites."""
    with dask_servers(tmp_path_factory.mktemp("dask"), workers=2, sites=("A", "B")) as place:
        wait_for_workers(place, 2)
        yield place


def wait_for_workers(place: PlaceHere, count: int) -> None:
    with Client(place.settings["on"].removeprefix("dask="), set_as_default=False) as client:
        client.wait_for_workers(count, timeout=280)


def slow_wagons(folder: Path, pause_s: float = 0.2) -> tuple[str, Path]:
    marks = folder / "marks"
    marks.mkdir()
    return write_wagons(folder / "wagons", SLOW, FOLDER=marks, PAUSE_S=pause_s), marks


def files_read(record: JobRecord) -> dict[tuple[str, str], int]:
    """How many files were read, by the site of the worker and the nearness of the element."""
    found: dict[tuple[str, str], int] = {}
    for one in record.sites:
        key = (one.site, one.nearness)
        found[key] = found.get(key, 0) + one.files
    return found


def test_near_work_goes_to_near_workers(elements: Elements, two_sites: PlaceHere, data: Path, tmp_path: Path) -> None:
    """Half of the files are at each site. The list is that of a far-sighted person or of nobody: only sites change."""
    wagons, _ = slow_wagons(tmp_path)
    places = [[index % 2] for index in range(FILES)]
    case = Case(two_sites, data, tmp_path)
    result = case.run(wagons, elements.list_of(places))
    assert result.errors == []
    assert digest(result) == digest(case.alone(write_wagons(tmp_path / "alone", PLAIN), elements.list_of(places)))
    found = files_read(result.record)
    assert sum(found.values()) >= FILES
    assert found.get(("A", "site"), 0) > found.get(("A", "elsewhere"), 0)
    assert found.get(("B", "site"), 0) > found.get(("B", "elsewhere"), 0)
    assert sum(one.bytes_read for one in result.record.sites) == sum(one.bytes_read for one in result.record.files)
    assert {one.site for one in result.record.worker_phases} == {"A", "B"}
    assert {one.site for one in result.record.links} >= {"A", "B"}


def test_all_files_at_one_site_are_worked_on_at_both(
    elements: Elements, two_sites: PlaceHere, data: Path, tmp_path: Path
) -> None:
    """After a short wait."""
    wagons, _ = slow_wagons(tmp_path, 0.8)
    result = Case(two_sites, data, tmp_path).run(wagons, elements.list_of([[0]] * FILES))
    assert result.errors == []
    found = files_read(result.record)
    assert found["A", "site"] > 0
    assert found["B", "elsewhere"] > 0


def test_each_worker_reads_the_replica_at_its_site(
    elements: Elements, two_sites: PlaceHere, data: Path, tmp_path: Path
) -> None:
    wagons, _ = slow_wagons(tmp_path)
    case = Case(two_sites, data, tmp_path)
    result = case.run(wagons, elements.list_of([[0, 1]] * FILES))
    assert result.errors == []
    # What the job itself looked at before is of no worker.
    assert set(files_read(result.record)) == {("A", "site"), ("B", "site")}
    assert {one.replica.rpartition("/")[0] for one in result.record.files} == {"", f"{elements.url(1)}/"}
    # Where the sites are does not change what comes out.
    swapped = case.run(wagons, elements.list_of([[0, 1]] * FILES, sites=("B", "A")))
    assert digest(swapped) == digest(result)
    assert set(files_read(swapped.record)) == {("A", "site"), ("B", "site")}


def test_the_work_of_a_site_that_ends_is_done_elsewhere(elements: Elements, data: Path, tmp_path: Path) -> None:
    wagons, marks = slow_wagons(tmp_path, 0.4)
    (tmp_path / "dask").mkdir()
    with dask_servers(tmp_path / "dask", workers=2, sites=("A", "B")) as place:
        wait_for_workers(place, 2)
        # A nanny would start the worker again.
        with when(lambda: len(list(marks.iterdir())) >= 4, place.servers["worker-0"].kill):
            case = Case(place, data, tmp_path)
            result = case.run(wagons, elements.list_of([[index // 4] for index in range(FILES)]))
    assert result.errors == []
    assert result.record.events == EVENTS
    assert files_read(result.record)["B", "elsewhere"] > 0


def test_a_replica_that_fails_is_counted_and_named(elements: Elements, data: Path, tmp_path: Path) -> None:
    gone = f"root://127.0.0.1:{free_port()}"
    path = elements.folder / "gone.json"
    files = [[f"{gone}//f{index}.root", f"{elements.url(0)}//f{index}.root"] for index in range(2)]
    path.write_text(json.dumps({"events": {"files": files, "sites": {gone: "A", elements.url(0): "B"}}}))
    wagons = write_wagons(tmp_path / "wagons", PLAIN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BRANCHLINE_SITE", "A")
        result = Case(PlaceHere({"workers": 1}), data, tmp_path).run(wagons, path)
    assert result.errors == []
    assert result.record.status == "finished"
    assert all(one.replica == f"{elements.url(0)}//{os.path.basename(one.path)}" for one in result.record.files)
    named = [sentence for one in result.record.files for sentence in one.replicas_failed]
    assert named
    assert all(one.startswith(f"{gone}//f") and " failed " in one for one in named)
    failures = {one.storage_element: one.failures for one in result.record.sites}
    assert failures[gone] >= 1
    assert failures[elements.url(0)] == 0
    assert any(one.name == gone and one.resets for one in result.record.troubles)


def test_the_plan_is_the_same_wherever_workers_are(elements: Elements) -> None:
    path = elements.list_of([[0, 1], [0, 1], [1, 0], [1], [0]])
    plans = []
    for site in ("A", "B", ""):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("BRANCHLINE_SITE", site)
            plans.append([[file.path for file in share.files] for share in cut(Dataset.of(path).files)])
    assert plans[0] == plans[1] == plans[2]
    assert branchline.Dataset.of(path).files[2].elements == (elements.url(1), elements.url(0))


def test_files_go_to_workers_on_the_machines_that_hold_them(data: Path, tmp_path: Path) -> None:
    """As `branchline locate` writes them for HDFS. Machines are named by their addresses, as workers of Dask are."""
    hosts = ("127.0.0.1", "127.0.0.2")
    marks = tmp_path / "marks"
    marks.mkdir()
    paths = [str(data / f"f{index}.root") for index in range(FILES)]
    listed = tmp_path / "files.json"
    on_hosts = {path: [hosts[index % 2], "elsewhere"] for index, path in enumerate(paths)}
    listed.write_text(json.dumps({"events": {"files": paths, "hosts": on_hosts}}))
    assert [one.hosts for one in Dataset.of(listed)] == [tuple(on_hosts[path]) for path in paths]
    (tmp_path / "dask").mkdir()
    with dask_servers(tmp_path / "dask", workers=2, hosts=hosts) as place:
        wait_for_workers(place, 2)
        case = Case(place, data, tmp_path)
        result = case.run(write_wagons(tmp_path / "wagons", ON_HOST, FOLDER=marks, PAUSE_S=0.3), listed)
    assert result.errors == []
    assert digest(result) == digest(case.alone(write_wagons(tmp_path / "alone", PLAIN), listed))
    found = Counter(tuple(one.read_text().split()) for one in marks.iterdir())
    near = sum(count for (path, host), count in found.items() if on_hosts[path][0] == host)
    # An idle worker may take what is in the queue of the other one.
    assert near > 0.6 * sum(found.values())
