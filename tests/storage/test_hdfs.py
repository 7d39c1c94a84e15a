"""What is special in HDFS: patterns and folders in its URLs, clusters by name with several NameNodes, and users."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.conftest import Files
from tests.storage.hdfs import Hdfs, write_settings
from tests.storage.machine import Room
from tests.stores.servers import free_port

import branchline
from branchline._core import Store
from branchline.errors import BranchlineError, DatasetError, MissingFileError, StorageError
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.datasets.replicas import hosts_of

NAMES = ("data/a1.root", "data/b2.root", "data/deep/down/c3.root", "data/deep/.hidden.root", "data/with blank%20.root")


@pytest.fixture(scope="module")
def hdfs(files: Files) -> Iterator[Hdfs]:
    room = Room("hdfs-alone")
    try:
        one = Hdfs(room)
        content = (files.folder / "small.root").read_bytes()
        for name in NAMES:
            one.write(name, content)
        one.write("data/notes.txt", b"not ROOT")
        one.make_folder("empty")
        one.write("data/closed/d4.root", content)
        one.close("data/closed")
        yield one
    finally:
        room.close()


@pytest.fixture(autouse=True)
def reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "reader")
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "10")
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "2")


def names(given: str | list[str], base: str) -> list[str]:
    return [one.path.removeprefix(base + "/") for one in Dataset.of(given)]


def test_a_pattern_stands_for_the_files_that_match(hdfs: Hdfs, files: Files) -> None:
    base, size = f"{hdfs.url}/data", (files.folder / "small.root").stat().st_size
    assert names(f"{base}/*.root", base) == ["a1.root", "b2.root", "with blank%20.root"]
    assert names(f"{base}/[a-b]*.root:events", base) == ["a1.root", "b2.root"]
    assert names(f"{base}/d*/d*/*.root", base) == ["deep/down/c3.root"]
    assert {one.size_bytes for one in Dataset.of(f"{base}/*.root")} == {size}
    for one in Dataset.of(f"{base}/w*.root:events"):
        assert branchline.open(f"{one.opens}:{one.tree}").entries_count == 1000
    with pytest.raises(DatasetError, match=r"no file matches .*nothing"):
        Dataset.of(f"{base}/nothing*.root")
    with pytest.raises(DatasetError, match="no file matches"):
        Dataset.of(f"{hdfs.url}/empty/")


def test_a_folder_stands_for_all_files_below_it(hdfs: Hdfs) -> None:
    base = f"{hdfs.url}/data/deep"
    assert names(f"{base}/", base) == ["down/c3.root"]
    with pytest.raises(MissingFileError, match="this folder does not exist"):
        Dataset.of(f"{hdfs.url}/absent/*.root")


def test_what_may_not_be_listed_or_read_is_said(hdfs: Hdfs) -> None:
    for pattern in ("data/closed/*.root", "data/"):
        with pytest.raises(
            StorageError, match=r"AccessControlException: Permission denied: user=reader.*HADOOP_USER_N"
        ):
            Dataset.of(f"{hdfs.url}/{pattern}")
    with pytest.raises(StorageError, match=r"Permission denied: user=reader"):
        Store(f"{hdfs.url}/data/closed/d4.root")


def test_files_that_are_not_there_are_known_before_anything_is_read(hdfs: Hdfs) -> None:
    dataset = Dataset.of([f"{hdfs.url}/data/{name}" for name in ("a1.root", "absent.root", "b2.root")])
    assert [one.path.rpartition("/")[2] for one in dataset.missing] == ["absent.root"]


def test_a_train_runs_over_a_pattern(hdfs: Hdfs, tmp_path: Path) -> None:
    wagon = tmp_path / "wagon.py"
    wagon.write_text(
        "class Count:\n    branches = ['px']\n    def process(self, events):\n        return {'n': len(events)}\n"
    )
    result = branchline.run(str(wagon), f"{hdfs.url}/data/*.root:events", tmp_path / "out", workers=2)
    assert result.outputs["Count"] == {"n": 3000}


def test_a_user_in_the_url_is_told_where_users_are_named(hdfs: Hdfs) -> None:
    url = f"{hdfs.url.replace('hdfs://', 'hdfs://someone@')}/data/"
    for use in (lambda: Store(f"{url}a1.root"), lambda: Dataset.of(f"{url}*.root")):
        with pytest.raises(BranchlineError, match="HDFS URLs cannot have a user; set HADOOP_USER_NAME"):
            use()


@pytest.fixture
def settings(room: Room, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = room.below("client")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))
    return folder


def cluster(name: str, *name_nodes: str) -> dict[str, object]:
    ids = [f"nn{number}" for number in range(1, len(name_nodes) + 1)]
    return {
        "dfs.nameservices": name,
        f"dfs.ha.namenodes.{name}": ",".join(ids),
        **{f"dfs.namenode.rpc-address.{name}.{one}": at for one, at in zip(ids, name_nodes, strict=True)},
    }


def test_a_cluster_by_name_is_found_at_the_name_node_that_lives(hdfs: Hdfs, settings: Path) -> None:
    dead, living = f"127.0.0.1:{free_port()}", f"127.0.0.1:{hdfs.port}"
    write_settings(settings, "core-site", {"fs.defaultFS": "hdfs://first"})
    both = cluster("first", dead, living) | cluster("second", living, dead) | cluster("gone", dead, dead)
    write_settings(settings, "hdfs-site", both)
    for base in ("hdfs://first/data", "hdfs://second/data", "hdfs:///data"):
        assert names(f"{base}/*.root", base) == ["a1.root", "b2.root", "with blank%20.root"]
        assert branchline.open(f"{base}/a1.root:events").entries_count == 1000
    with pytest.raises(StorageError, match=r"hdfs://gone/data/a1\.root: .*Connection refused") as raised:
        Store("hdfs://gone/data/a1.root")
    assert raised.value.retry


def test_a_name_node_that_never_answers_is_left_for_the_other(
    hdfs: Hdfs, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "1")
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "4")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        at = f"127.0.0.1:{silent.getsockname()[1]}"
        write_settings(settings, "hdfs-site", cluster("half", at, f"127.0.0.1:{hdfs.port}") | cluster("mute", at))
        store = Store("hdfs://half/data/a1.root")
        assert store.read([(0, 4)]).contents == [b"root"]
        assert names("hdfs://half/data/*1.root", "hdfs://half/data") == ["a1.root"]
        with pytest.raises(StorageError, match=r"did not answer within|none of its 1"):
            Store("hdfs://mute/data/a1.root")


def test_a_cluster_that_nobody_named_is_looked_for_in_the_settings(settings: Path) -> None:
    write_settings(settings, "hdfs-site", cluster("known", "127.0.0.1:1"))
    for use in (lambda: Store("hdfs://unknown/data/a1.root"), lambda: Dataset.of("hdfs://unknown/data/*.root")):
        with pytest.raises(BranchlineError, match=r"No NameNode hosts found.*HADOOP_CONF_DIR"):
            use()


def test_the_machines_that_hold_files_are_in_the_list(hdfs: Hdfs, settings: Path, tmp_path: Path) -> None:
    write_settings(settings, "core-site", {"fs.defaultFS": hdfs.url})
    write_settings(settings, "hdfs-site", {"dfs.namenode.http-address": hdfs.web_address})
    command = [sys.executable, "-m", "branchline", "locate", f"{hdfs.url}/data/*.root:events"]
    listed = tmp_path / "files.json"
    listed.write_text(subprocess.run(command, capture_output=True, text=True, check=True, timeout=280).stdout)
    found = {file.path.rpartition("/")[2]: file for file in Dataset.of(listed)}
    assert sorted(found) == ["a1.root", "b2.root", "with blank%20.root"]
    # The DataNode is known by this name.
    assert {file.hosts for file in found.values()} == {("127.0.0.1",)}
    assert {file.tree for file in found.values()} == {"events"}
    assert hosts_of("/data/a1.root") == []
    with pytest.raises(MissingFileError, match="no server has this file"):
        hosts_of(f"{hdfs.url}/data/absent.root")
    with pytest.raises(StorageError, match=r"AccessControlException.*HADOOP_USER_NAME"):
        hosts_of(f"{hdfs.url}/data/closed/d4.root")


def test_the_name_node_that_lives_tells_the_machines(hdfs: Hdfs, settings: Path) -> None:
    dead, living = f"127.0.0.1:{free_port()}", f"127.0.0.1:{hdfs.port}"
    write_settings(settings, "core-site", {"fs.defaultFS": "hdfs://both"})
    http = {"dfs.namenode.http-address.both.nn1": dead, "dfs.namenode.http-address.both.nn2": hdfs.web_address}
    write_settings(settings, "hdfs-site", cluster("both", dead, living) | http)
    for url in ("hdfs://both/data/a1.root", "hdfs:///data/a1.root"):
        assert hosts_of(url) == ["127.0.0.1"]
    write_settings(settings, "hdfs-site", cluster("both", dead) | {"dfs.namenode.http-address.both.nn1": dead})
    with pytest.raises(StorageError, match=r"does not respond at 127\.0\.0\.1.*Connection refused") as raised:
        hosts_of("hdfs://both/data/a1.root")
    assert raised.value.retry
