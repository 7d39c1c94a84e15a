"""Shares are cut by storage elements, and handed out to who is near; the plan knows nothing of workers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from branchline.base.limits import FAR_WORK_WAIT_S, GROUP_S, MB
from branchline.errors import DatasetError
from branchline.jobs.sites import SiteMap, Spot
from branchline.jobs.subjob import Lost, SubJob, Workers
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.datasets.elements import ElementSites
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.trains.running.recovery import Recovery
from branchline.trains.subjobs.locality import Locality
from branchline.trains.subjobs.shares import Share, cut
from branchline.trains.subjobs.subjob_queue import NearFirst, SubJobQueue
from branchline.trains.wagons.wagons import Wagon

LISTED = ElementSites.of({"root://se.a": "A", "root://se.b": "B"})
AT_A, AT_B, AT_C = Spot(site="A"), Spot(site="B"), Spot(site="C")
ALL = Workers({AT_A: 2, AT_B: 2, AT_C: 2})


def file_at(index: int, *servers: str, size_bytes: int = MB) -> DataFile:
    locations = [f"root://{one}//f{index}.root" for one in servers]
    return DataFile(locations[0], size_bytes=size_bytes, replicas=tuple(locations[1:]), sites=LISTED)


def places(shares: list[Share]) -> list[list[str]]:
    return [[one.path.rpartition("/")[2] for one in share.files] for share in shares]


def test_no_share_mixes_storage_elements() -> None:
    files = [file_at(index, "se.a" if index < 5 else "se.b") for index in range(10)]
    shares = cut(files)
    assert [file for share in shares for file in share.files] == files
    for share in shares:
        assert len({one.elements for one in share.files}) == 1


def test_files_of_mixed_elements_are_taken_together_in_the_order_of_the_first() -> None:
    files = [file_at(index, "se.a" if index % 2 else "se.b") for index in range(200)]
    shares = cut(files)
    assert len(shares) < 150
    assert sorted(file.path for share in shares for file in share.files) == sorted(file.path for file in files)
    firsts = [files.index(share.files[0]) for share in shares]
    assert firsts == sorted(firsts)
    for share in shares:
        assert len({one.elements for one in share.files}) == 1
        indices = [files.index(one) for one in share.files]
        assert indices == sorted(indices)


def test_a_wagon_that_failed_runs_in_the_sub_jobs_before() -> None:
    """Workers at several sites are not at the same place of the dataset."""
    shares = [Share((file_at(index, "se.a" if index < 3 else "se.b"),)) for index in range(6)]
    queue = SubJobQueue(shares, ["px"], 1000, wagons_count=2)

    def drawn(spot: Spot) -> tuple[int, frozenset[str]]:
        subjob = queue.draw(spot, ALL)
        assert isinstance(subjob, SubJob)
        return subjob.index, subjob.payload.stopped

    assert [drawn(AT_A), drawn(AT_B)] == [(0, frozenset()), (3, frozenset())]
    queue.wagon_failed("first", 3)
    assert [drawn(AT_A), drawn(AT_B)] == [(1, frozenset()), (4, {"first"})]
    # Where none is left to run a sub-job is not handed out.
    queue.wagon_failed("second", 1)
    assert drawn(AT_A) == (2, {"second"})
    assert queue.draw(AT_B, ALL) is None


def test_local_files_are_one_element_unless_the_list_says_more() -> None:
    files = [DataFile(f"/data{index % 2}/f{index}.root", size_bytes=100) for index in range(6)]
    assert len(cut(files)) == 1 or [file for share in cut(files) for file in share.files] == files
    listed = ElementSites.of({"/data0": "A", "/data1": "B"})
    for share in cut([one.changed(sites=listed) for one in files]):
        assert len({one.path.split("/")[1] for one in share.files}) == 1


def queue_of(servers: list[tuple[str, ...]]) -> tuple[NearFirst, list[float]]:
    now_s = [100.0]
    shares = [Share((file_at(index, *names),)) for index, names in enumerate(servers)]
    return NearFirst(shares, lambda: now_s[0]), now_s


def test_near_work_comes_first_and_far_work_after_a_wait() -> None:
    queue, now_s = queue_of([("se.a",), ("se.b",), ("se.a",), ("se.b",), ("se.b",)])
    assert [queue.take(AT_B, ALL), queue.take(AT_A, ALL), queue.take(AT_A, ALL)] == [1, 0, 2]
    assert queue.take(AT_A, ALL) is None
    now_s[0] += FAR_WORK_WAIT_S / 2
    assert queue.take(AT_A, ALL) is None
    assert queue.take(AT_B, ALL) == 3
    now_s[0] += FAR_WORK_WAIT_S / 2
    assert queue.take(AT_A, ALL) == 4
    assert queue.count == 0


def with_times(**seconds: dict[str, float]) -> Workers:
    """Two workers at each site, and the usual seconds of sub-jobs by server and site."""
    return Workers(ALL.slots, lambda kind, site: seconds.get(kind.partition("//")[2].partition(":")[0], {}).get(site))


def test_the_storage_element_that_takes_longest_comes_first() -> None:
    queue, _ = queue_of([("se1.a",), ("se1.a",), ("se1.a",), ("se2.a",), ("se2.a",), ("se2.a",)])
    known = with_times(**{"se1.a": {"A": 1.0}, "se2.a": {"A": 3.0}})
    # Once the slow one needs clearly less than the other one, their turns change.
    assert [queue.take(AT_A, known) for _ in range(6)] == [3, 4, 5, 0, 1, 2]
    queue, _ = queue_of([("se1.a",), ("se2.a",), ("se1.a",)])
    assert [queue.take(AT_A, with_times(**{"se1.a": {"A": 1.0}})) for _ in range(3)] == [1, 0, 2]


def test_far_work_is_left_to_the_near_workers_that_are_done_sooner() -> None:
    queue, now_s = queue_of([("se.b",)] * 6)
    known = with_times(**{"se.b": {"B": 1.0, "A": 3.5}})
    assert queue.take(AT_A, known) is None
    now_s[0] += FAR_WORK_WAIT_S
    # Six of 1 s for two workers take 3 s, so that a seventh would be done after 4 s.
    assert queue.take(AT_A, known) == 0
    assert queue.take(AT_A, known) is None
    assert [queue.take(AT_B, known) for _ in range(4)] == [1, 2, 3, 4]
    assert queue.take(AT_A, known) is None
    # The near workers have not asked for more for a long time.
    now_s[0] += FAR_WORK_WAIT_S + 2 * GROUP_S + 0.1
    assert queue.take(AT_A, known) == 5


def test_nobody_waits_for_work_that_is_near_to_nobody_else() -> None:
    queue, _ = queue_of([("se.x",), ("se.b",), ("se.a", "se.b")])
    assert queue.take(AT_C, ALL) == 0
    assert queue.take(AT_C, Workers({AT_C: 2})) == 1
    assert queue.take(AT_A, ALL) == 2


def test_a_replica_makes_work_near() -> None:
    queue, _ = queue_of([("se.b",), ("se.b", "se.a"), ("se.a", "se.b")])
    assert [queue.take(AT_A, ALL), queue.take(AT_A, ALL)] == [1, 2]


def test_measured_round_trips_say_more_than_names() -> None:
    queue, _ = queue_of([("se.a",), ("se.b",)])
    queue.distances.measured("A", "root://se.a", 0.3)
    queue.distances.measured("A", "root://se.b", 0.001)
    assert queue.take(AT_A, ALL) == 1


def test_without_a_spot_the_order_is_that_of_the_dataset() -> None:
    queue, _ = queue_of([("se.a",), ("se.b",), ("se.a",), ("se.b",)])
    assert [queue.take() for _ in range(4)] == [0, 1, 2, 3]


def test_branches_are_learned_on_the_first_share_whoever_is_near() -> None:
    shares = [Share((file_at(index, "se.a"),)) for index in range(3)]
    queue = SubJobQueue(shares, [], None, wagons_count=1)
    first = queue.draw(AT_B, ALL)
    assert getattr(first, "index", None) == 0
    assert getattr(first, "payload", Share(())).learn


def test_a_list_says_where_elements_are() -> None:
    fileset = {"data": {"files": [["root://se.a//f.root", "root://se.b//f.root"]], "sites": {"root://se.a": "A"}}}
    (file,) = Dataset.of(fileset)
    assert file.elements == ("root://se.a", "root://se.b")
    assert [file.sites.site_of(one) for one in file.locations] == ["A", ""]


def test_a_list_may_be_toml(tmp_path: Path) -> None:
    path = tmp_path / "files.toml"
    text = '[data]\ntree = "Events"\nfiles = [["root://se.a//f.root", "root://se.b//f.root"], "root://se.b//g.root"]\n'
    path.write_text(text + '[data.sites]\n"root://se.a" = "A"\n')
    first, second = Dataset.of(path)
    assert (first.tree, first.dataset, first.sites.site_of(first.path)) == ("Events", "data", "A")
    assert (first.elements, second.elements) == (("root://se.a", "root://se.b"), ("root://se.b",))
    path.write_text("[data")
    with pytest.raises(DatasetError, match="not valid TOML"):
        Dataset.of(path)


def lost_while(doing: str) -> Lost:
    return Lost(0, 1, doing, 5.0, "its process is stopped", ("f0.root",))


@pytest.mark.parametrize(("doing", "skipped"), [("reading f0.root", 1), ("wagon w in f0.root, entries 0 to 9", 0)])
def test_after_a_silent_read_another_replica_comes_first(doing: str, skipped: int) -> None:
    shares = [Share((file_at(0, "se.a", "se.b"),))]
    queue = SubJobQueue(shares, [], 10, wagons_count=1)
    first = queue.draw()
    assert isinstance(first, SubJob)
    assert Recovery([Wagon(lambda events: None, name="w")], queue).worker_lost(lost_while(doing), [first])
    second = queue.draw()
    assert isinstance(second, SubJob)
    assert second.payload.replicas_skipped == skipped


@pytest.mark.parametrize("skipped", [0, 1, 2])
def test_as_many_replicas_are_left_out_as_were_silent(skipped: int, folder: Path, tmp_path: Path) -> None:
    """Also of local files, which are all equally near."""
    folders = [tmp_path / name for name in ("one", "two")]
    names = sorted(one.name for one in folder.glob("*.root"))[:2]
    for own in folders:
        own.mkdir()
        for name in names:
            shutil.copy(folder / name, own)
    files = [DataFile(str(folders[0] / name), replicas=(str(folders[1] / name),)) for name in names]
    locality = Locality(Spot(), SiteMap(), Access())
    locality.prefer_near(files, skipped)
    try:
        for file in files:
            stream = ChunkStream([Source(file.opens)], ["px"], step_size=100)
            for _chunk in stream:
                pass
            [record] = stream.records().files
            most = max(record.replicas, key=lambda one: one.bytes_read)
            assert most.path == file.locations[skipped % 2]
    finally:
        locality.prefer_near(files)
