"""What is Dask's alone: workers that come and go, clusters that start with none, a scheduler that ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster, default_client
from parsl.executors import HighThroughputExecutor
from tests.branchline_command import run_branchline
from tests.clusters.conformance import EVENTS, FILES, Case, digest, when
from tests.clusters.farm import EVENTS_PER_FILE, Train
from tests.clusters.places import PlaceHere, dask_servers
from tests.clusters.wagons import PLAIN, SLOW, write_wagons
from tests.local_dask import local_cluster
from tests.patience import HANG_S
from tests.sampled import long_but
from tests.stores.servers import free_port
from tests.unit.trains.wagons.test_used_inputs import install

import branchline
from branchline.errors import BranchlineError, MissingPackageError, OptionError
from branchline.jobs.pools.pool import PoolError
from branchline.jobs.where import where_of
from branchline.records.sensors.record import JobRecord

FAILING = """
import numpy as np


class Sums:
    name = "sums"

    def process(self, events):
        return {"sum": float(np.sum(np.asarray(events.px))), "events": len(events)}


class Failing:
    name = "failing"

    def process(self, events):
        if "f01" in events.metadata["filename"]:
            raise ValueError("not here")
        return len(events)
"""


@pytest.fixture
def empty_cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """A cluster without a worker."""
    settings: dict[str, Any] = {
        "threads_per_worker": 1,
        "dashboard_address": "127.0.0.1:0",
        "local_directory": str(tmp_path),
    }
    with local_cluster(0, **settings) as cluster:
        yield cluster


def slow_case(cluster: LocalCluster, data: Path, folder: Path, pause_s: float) -> tuple[Case, str, Path]:
    marks = folder / "marks"
    marks.mkdir()
    wagons = write_wagons(folder / "wagons", SLOW, FOLDER=marks, PAUSE_S=pause_s)
    return Case(PlaceHere({"on": cluster}), data, folder), wagons, marks


@pytest.mark.long
def test_an_adaptive_cluster_starts_workers_for_a_train(
    empty_cluster: LocalCluster, data: Path, tmp_path: Path
) -> None:
    """It has none at first, and takes them back when the train has ended."""
    case, wagons, _ = slow_case(empty_cluster, data, tmp_path, 0.05)
    empty_cluster.adapt(minimum=0, maximum=2, interval="200ms", target_duration="1s", wait_count=3)
    result = case.run(wagons)
    assert result.errors == []
    assert digest(result) == case.expected
    end_s = time.monotonic() + HANG_S
    while empty_cluster.scheduler.workers and time.monotonic() < end_s:
        time.sleep(0.1)
    assert not empty_cluster.scheduler.workers


def test_workers_come_and_go_while_a_train_runs(empty_cluster: LocalCluster, data: Path, tmp_path: Path) -> None:
    case, wagons, marks = slow_case(empty_cluster, data, tmp_path, 0.3)
    empty_cluster.scale(1)

    def go() -> None:
        empty_cluster.scale(3)
        empty_cluster.wait_for_workers(3, timeout=280)
        empty_cluster.scale(1)

    with when(lambda: len(list(marks.iterdir())) >= 3, go):
        result = case.run(wagons)
    assert result.errors == []
    assert digest(result) == case.expected
    assert result.record.subjobs_done == FILES


def test_a_scheduler_that_ends_is_named_and_what_is_done_is_kept(data: Path, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    wagons = write_wagons(tmp_path / "wagons", SLOW, FOLDER=marks, PAUSE_S=0.3)
    with (
        dask_servers(tmp_path, workers=1) as place,
        when(lambda: len(list(marks.iterdir())) >= 6, place.servers["scheduler"].kill),
    ):
        result = Case(place, data, tmp_path).run(wagons)
    [message] = result.errors
    assert "scheduler" in message
    assert "lost the connection to the Dask scheduler" in message
    assert 0 < result.record.events < EVENTS
    assert result.outputs["slow"] == result.record.events
    assert result.exit_code == 1


def test_a_scheduler_that_is_not_there_is_an_error_before_the_run(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchline.jobs.pools.dask_pool.SCHEDULER_CONNECT_S", 1)
    wagons = write_wagons(tmp_path / "wagons", PLAIN)
    out = tmp_path / "out"
    with pytest.raises(PoolError, match="cannot connect to the Dask scheduler at tcp://"):
        branchline.run(wagons, str(data), out, on=f"dask=tcp://127.0.0.1:{free_port()}")
    assert not out.exists()


def test_another_version_on_the_workers_is_an_error_before_the_run(
    empty_cluster: LocalCluster, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty_cluster.scale(1)
    empty_cluster.wait_for_workers(1, timeout=280)
    monkeypatch.setattr("branchline.jobs.program.importlib.metadata.version", lambda _name: "0.0.1")
    with pytest.raises(PoolError, match=r"has Branchline \d.*, the job 0\.0\.1"):
        branchline.run(write_wagons(tmp_path, PLAIN), str(data), on=empty_cluster)


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Train:
    """A train that imports a package, of which there are versions 1 and 2; it is planned with the first."""
    made = Train(tmp_path, 4).make()
    for version in (1, 2):
        install(tmp_path / str(version) / "site-packages", version)
    wagon = "import packageofthistest\n\n\nclass Sums:\n    name = 'sums'\n\n    def process(self, events):\n"
    (tmp_path / "wagons.py").write_text(f"{wagon}        return len(events) * packageofthistest.SCALE\n")
    time.sleep(0.2)  # a package that is as new as a process may have been upgraded in it
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "1" / "site-packages"))
    return made


def run_with_packages(train: Train, *of_workers: str, words: Sequence[str] = ()) -> tuple[int, str, JobRecord]:
    """The exit code, the messages and the record of a train whose workers have folders of packages of their own."""
    folders = [train.folder / name / "site-packages" for name in of_workers]
    (train.folder / "dask").mkdir()
    with dask_servers(train.folder / "dask", workers=len(folders), packages=folders) as place:
        ended = run_branchline(train.folder, [*train.words, "-o", "out", "--on", place.settings["on"], *words])
    return ended.returncode, ended.stderr, branchline.load(train.folder / "out", partial=True).record


@pytest.mark.long
def test_a_worker_with_another_package_gets_no_sub_jobs_and_others_do(train: Train) -> None:
    code, said, record = run_with_packages(train, "1", "2")
    assert code == 0, said
    assert branchline.load(train.folder / "out")["sums"] == 4 * EVENTS_PER_FILE
    assert all("packageofthistest 2 (planned: 1)" in one.how for one in record.workers_lost)
    assert record.reuse_notes == []


@pytest.mark.long
@pytest.mark.parametrize(("folder", "version"), long_but([("2", "2"), ("none", "missing")], [("none", "missing")]))
def test_a_train_whose_workers_all_have_another_package_ends_with_both_versions(
    train: Train, folder: str, version: str
) -> None:
    code, said, record = run_with_packages(train, folder, folder, words=["--skip-bad-files"])
    assert code == 1, said
    assert f"packageofthistest {version} (planned: 1)" in said
    assert record.skipped == []
    assert [one.error for one in record.wagons] == [None]


@pytest.mark.long
def test_a_train_can_run_beside_another_on_one_client(empty_cluster: LocalCluster, data: Path, tmp_path: Path) -> None:
    """Two threads of one notebook."""
    empty_cluster.scale(2)
    wagons = write_wagons(tmp_path / "wagons", PLAIN)
    results: list[branchline.TrainResult] = []
    with empty_cluster.get_client() as client:
        case = Case(PlaceHere({"on": client}), data, tmp_path)
        threads = [threading.Thread(target=lambda: results.append(case.run(wagons))) for _ in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert client.submit(sum, [1, 2]).result(timeout=HANG_S) == 3
    assert {digest(one) for one in results} == {case.expected}


class OtherCluster:
    """A cluster of another package, whose ``get_client`` creates a client for each call, as that of dask-gateway."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.clients: list[Client] = []

    def get_client(self, set_as_default: bool = True) -> Client:
        self.clients.append(Client(self._address, set_as_default=set_as_default))
        return self.clients[-1]


class SharedClient:
    """A cluster that returns the same client for each call."""

    def __init__(self, client: object) -> None:
        self.client = client

    def get_client(self) -> object:
        return self.client


def test_a_train_runs_on_anything_that_has_a_client(empty_cluster: LocalCluster, data: Path, tmp_path: Path) -> None:
    """A client that is created for the train is closed and never becomes the default client; others stay open."""
    empty_cluster.scale(1)
    wagons = write_wagons(tmp_path / "wagons", PLAIN)
    with Client(empty_cluster) as own:
        other, shared = OtherCluster(empty_cluster.scheduler_address), SharedClient(own)
        for on in (other, shared):
            case = Case(PlaceHere({"on": on}), data, tmp_path)
            assert digest(case.run(wagons)) == case.expected
            assert default_client() is own
        [client] = other.clients
        assert client.status == "closed"
        assert own.status == "running"
        with pytest.raises(PoolError, match=r"get_client\(\) of the SharedClient returned no Dask client"):
            branchline.run(wagons, str(data), on=SharedClient(None))


def test_an_executor_of_parsl_alone_is_refused_with_the_remedy() -> None:
    with pytest.raises(OptionError) as caught:
        where_of(HighThroughputExecutor(address="127.0.0.1"))
    assert str(caught.value).startswith("a job cannot run on a HighThroughputExecutor (")
    assert "parsl.concurrent.ParslPoolExecutor(parsl.Config(executors=[...]))" in str(caught.value)
    assert len(str(caught.value)) < 200


def test_an_address_of_dask_gateway_is_refused_with_the_remedy() -> None:
    with pytest.raises(OptionError, match=r"needs the certificate .*on=dask_gateway.Gateway\(\).connect"):
        where_of("dask=gateway://host:8786/1234")


def test_ray_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.jobs.pools.ray_executor.importlib.util.find_spec", lambda _name: None)
    with pytest.raises(MissingPackageError, match="pip install ray"):
        where_of("ray")


@pytest.mark.parametrize("on", ["slrm", "dask", "dask=", "dask=host:8786", "", 7, Client, pytest])
def test_what_is_no_place_is_refused(on: Any, data: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="dask=tcp://host:8786"):
        branchline.run(write_wagons(tmp_path, PLAIN), str(data), on=on)


def test_a_place_elsewhere_has_its_own_workers(data: Path, tmp_path: Path) -> None:
    with pytest.raises(BranchlineError, match="its own workers"):
        branchline.run(write_wagons(tmp_path, PLAIN), str(data), on="dask=tcp://host:8786", workers=2)


@pytest.mark.long
def test_a_sub_job_of_a_train_on_dask_runs_again_here(tmp_path: Path) -> None:
    """Also one that failed there: its wagon fails again, and the other has the kept result."""
    train = Train(tmp_path, 3).make()
    (train.folder / "wagons.py").write_text(FAILING)
    (tmp_path / "dask").mkdir()
    with dask_servers(tmp_path / "dask", workers=1) as place:
        ended = run_branchline(train.folder, [*train.words, "-o", "out", "--on", place.settings["on"]])
    assert ended.returncode == 3, ended.stderr
    good = run_branchline(train.folder, ["rerun", "out", "0"])
    assert good.returncode == 0, good.stderr
    assert good.stdout.count("identical to the stored result") == 2
    bad = run_branchline(train.folder, ["rerun", "out", "data/f01.root"])
    assert bad.returncode == 3, bad.stderr
    assert "sums: identical to the stored result" in bad.stdout
    assert "failing: failed, ValueError: not here" in bad.stdout
    assert 'raise ValueError("not here")' in bad.stderr
