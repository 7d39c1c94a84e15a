"""Datasets in a real Rucio server are located, read from real storage elements, and written down."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import threading
from pathlib import Path

import pytest
from tests.branchline_command import Ended, command, run_branchline
from tests.ecosystem.rucio_server import (
    BOTH,
    EVENTS,
    FIRST,
    GERMANY,
    ON_TAPE,
    SCOPE,
    SECOND,
    SWITZERLAND,
    Rucio,
    client_configuration,
)
from tests.patience import HANG_S
from tests.stores.servers import free_port

from branchline import Dataset
from branchline.errors import DatasetError, MissingFileError, StorageError
from branchline.reading.datasets import rucio_datasets
from branchline.reading.datasets.rucio_datasets import reporting_to

WAGONS = """
import numpy as np


def total(events):
    return int(np.sum(np.asarray(events.x)))
"""


def run(rucio: Rucio, folder: Path, dataset: object, *words: object) -> Ended:
    (folder / "wagons.py").write_text(WAGONS)
    command = ["run", "wagons.py:total", dataset, "-o", "out", "-j", "1", "--force", *words]
    return run_branchline(folder, command, rucio.environment)


def record(folder: Path) -> dict:
    return json.loads((folder / "out" / "job.json").read_text())


def total(folder: Path) -> int:
    import branchline

    return branchline.load(folder / "out", partial=True)["total"]


def sum_of(rucio: Rucio, numbers: range) -> int:
    return sum(rucio.sums[f"f{number}.root"] for number in numbers)


def test_a_dataset_is_run_recorded_and_reused(rucio: Rucio, tmp_path: Path) -> None:
    ended = run(rucio, tmp_path, f"rucio:{SCOPE}:{FIRST}:events")
    assert ended.returncode == 0, ended.stderr
    job = record(tmp_path)
    assert (job["events"], total(tmp_path)) == (5 * EVENTS, sum_of(rucio, range(5)))
    (lookup,) = job["lookups"]
    assert lookup.pop("time")
    assert lookup == {
        "name": f"rucio:{SCOPE}:{FIRST}",
        "server": rucio.url,
        "schemes": ["root", "davs", "https"],
        "rses": "",
        "files": 5,
        "replicas": {GERMANY: 5, SWITZERLAND: 5},
        "tape_replicas": 1,
        "without_replicas": [],
    }
    checksums = {f"adler32:{one['adler32']}" for one in rucio.client.list_files(SCOPE, FIRST)}
    assert {one["version"] for one in job["dataset"]} == checksums
    assert {one["dataset"] for one in job["dataset"]} == {f"{SCOPE}:{FIRST}"}
    again = run(rucio, tmp_path, f"rucio:{SCOPE}:{FIRST}:events")
    assert again.returncode == 0, again.stderr
    job = record(tmp_path)
    assert (job["subjobs_reused"], job["reuse_notes"]) == (job["subjobs"], [])


def test_replicas_are_in_the_order_of_the_client_with_the_sites_of_their_rses(rucio: Rucio) -> None:
    files = {one.version: one for one in Dataset.of(f"rucio:{SCOPE}:{FIRST}")}
    listed = list(rucio.client.list_replicas([{"scope": SCOPE, "name": FIRST}], schemes=["root", "davs", "https"]))
    assert len(listed) == len(files) == 5
    for one in listed:
        file = files[f"adler32:{one['adler32']}"]
        assert list(file.locations) == [url for url, about in one["pfns"].items() if about["type"] == "DISK"]
        assert (len(file.locations), file.size_bytes) == (4, one["bytes"])
        assert {file.sites.site_of(url) for url in file.locations} == {"FZK-LCG2", "CERN-PROD"}
        assert f"root://localhost:{rucio.german.port}" in file.elements


def test_a_container_has_the_files_of_its_datasets_once(rucio: Rucio, tmp_path: Path) -> None:
    (tmp_path / "files.toml").write_text(
        f'[both]\nrucio = "{SCOPE}:{BOTH}"\nrses = "{SWITZERLAND}"\nschemes = ["davs"]\ntree = "events"\n'
    )
    ended = run(rucio, tmp_path, "files.toml")
    assert ended.returncode == 0, ended.stderr
    job = record(tmp_path)
    assert (job["events"], total(tmp_path)) == (9 * EVENTS, sum_of(rucio, range(9)))
    assert {one["dataset"] for one in job["dataset"]} == {"both"}
    assert all(one["path"].startswith(f"davs://localhost:{rucio.swiss_https}/") for one in job["dataset"])
    assert job["lookups"][0]["replicas"] == {SWITZERLAND: 9}


def test_a_file_can_be_named_and_a_name_may_have_slashes(rucio: Rucio) -> None:
    assert len(Dataset.of([f"rucio:{SCOPE}:f0.root", f"rucio:{SCOPE}:{SECOND}"])) == 6


def test_another_replica_is_read_if_a_server_is_down(rucio: Rucio, tmp_path: Path) -> None:
    rucio.german.kill()
    try:
        ended = run(rucio, tmp_path, f"rucio:{SCOPE}:{SECOND}")
    finally:
        rucio.german.start()
    assert ended.returncode == 0, ended.stderr
    assert total(tmp_path) == sum_of(rucio, range(4, 9))
    assert {one["site"] for one in record(tmp_path)["sites"]} != set()


def test_files_that_are_only_on_tape_are_named(rucio: Rucio, tmp_path: Path) -> None:
    ended = run(rucio, tmp_path, f"rucio:{SCOPE}:{ON_TAPE}")
    assert ended.returncode == 1
    assert f"no replica of 1 of 2 files of the dataset can be read: rucio:{SCOPE}:f9.root" in ended.stderr
    ended = run(rucio, tmp_path, f"rucio:{SCOPE}:{ON_TAPE}", "--skip-bad-files")
    assert ended.returncode == 3, ended.stderr
    job = record(tmp_path)
    assert [(one["path"], one["error"]) for one in job["skipped"]] == [
        (f"rucio:{SCOPE}:f9.root", "no replica can be read")
    ]
    assert job["lookups"][0]["without_replicas"] == [f"rucio:{SCOPE}:f9.root"]
    assert (job["events"], total(tmp_path)) == (EVENTS, rucio.sums["f0.root"])
    # They are read if the list allows it.
    dataset = Dataset.of({"tape": {"rucio": f"{SCOPE}:{ON_TAPE}", "tape": True}})
    assert [one.path.partition("//tape/")[2].rpartition("/")[2] for one in dataset if "//tape/" in one.path] == [
        "f9.root"
    ]


def test_the_fileset_of_locate_gives_the_same_results_without_the_server(rucio: Rucio, tmp_path: Path) -> None:
    assert run(rucio, tmp_path, f"rucio:{SCOPE}:{FIRST}:events").returncode == 0
    ended = run_branchline(tmp_path, ["locate", f"rucio:{SCOPE}:{FIRST}:events"], rucio.environment)
    assert (ended.returncode, ended.stderr) == (0, "")
    (tmp_path / "files.json").write_text(ended.stdout)
    (name, content) = next(iter(json.loads(ended.stdout).items()))
    assert (name, len(content["files"])) == (f"{SCOPE}:{FIRST}", 5)
    assert content["sites"][f"root://localhost:{rucio.german.port}"] == "FZK-LCG2"
    with_tape = run_branchline(tmp_path, ["locate", f"rucio:{SCOPE}:{ON_TAPE}"], rucio.environment)
    assert with_tape.returncode == 3
    assert len(json.loads(with_tape.stdout)[f"{SCOPE}:{ON_TAPE}"]["files"]) == 1
    assert with_tape.stderr == f"branchline: left out, since no replica can be read: rucio:{SCOPE}:f9.root\n"
    rucio.server.kill()
    try:
        again = run(rucio, tmp_path, "files.json")
    finally:
        rucio.server.start()
    assert again.returncode == 0, again.stderr
    job = record(tmp_path)
    assert (job["subjobs_reused"], total(tmp_path)) == (job["subjobs"], sum_of(rucio, range(5)))


def test_the_metalink_of_a_dataset_has_the_same_files(rucio: Rucio, tmp_path: Path) -> None:
    path = tmp_path / "data.meta4"
    dids = [{"scope": SCOPE, "name": FIRST}]
    path.write_text(rucio.client.list_replicas(dids, schemes=["root", "davs"], rse_expression=GERMANY, metalink=True))
    listed = {"A": {"rucio": f"{SCOPE}:{FIRST}", "rses": GERMANY, "schemes": ["root", "davs"]}}
    read, located = Dataset.of(path), Dataset.of(listed)
    assert [(one.locations, one.size_bytes, one.version) for one in read] == [
        (one.locations, one.size_bytes, one.version) for one in located
    ]
    assert read.files[0].sites.site_of(read.files[0].path) == GERMANY


@pytest.mark.parametrize("name", [f"{SCOPE}:no-such-dataset", f"no.such.scope:{FIRST}"])
def test_an_unknown_name_is_an_error(rucio: Rucio, name: str) -> None:
    with pytest.raises(DatasetError, match=f"the dataset {name} is not in Rucio") as caught:
        Dataset.of(f"rucio:{name}")
    assert "rucio did list" in str(caught.value)


def test_a_wrong_expression_of_rses_is_an_error(rucio: Rucio) -> None:
    with pytest.raises(DatasetError, match=r"the rses of .* are 'country=Atlantis'"):
        Dataset.of({"A": {"rucio": f"{SCOPE}:{FIRST}", "rses": "country=Atlantis"}})


def test_a_dataset_without_replicas_at_the_rses_has_only_missing_files(rucio: Rucio) -> None:
    dataset = Dataset.of({"A": {"rucio": f"{SCOPE}:{SECOND}", "schemes": "https"}})
    assert len(dataset.missing) == len(dataset) == 5
    with pytest.raises(MissingFileError, match="allow other schemes"):
        dataset.require_present()


def test_a_client_without_configuration_is_explained(rucio: Rucio, tmp_path: Path) -> None:
    environment = {"RUCIO_CONFIG": str(tmp_path / "none.cfg"), "RUCIO_HOME": str(tmp_path), "HOME": str(tmp_path)}
    ended = run_branchline(tmp_path, ["locate", f"rucio:{SCOPE}:{FIRST}"], environment)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "rucio whoami" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_wrong_password_is_explained(rucio: Rucio, tmp_path: Path) -> None:
    path = client_configuration(tmp_path / "client", rucio.url, "wrong")
    ended = run_branchline(tmp_path, ["locate", f"rucio:{SCOPE}:{FIRST}"], {"RUCIO_CONFIG": str(path)})
    assert ended.returncode == 1
    assert f"the Rucio server {rucio.url} cannot be used: " in ended.stderr
    assert "rucio whoami" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_server_that_is_not_there_is_named(rucio: Rucio, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    path = client_configuration(tmp_path / "client", url)
    ended = run_branchline(tmp_path, ["locate", f"rucio:{SCOPE}:{FIRST}"], {"RUCIO_CONFIG": str(path)})
    assert ended.returncode == 1
    assert f"the Rucio server {url} cannot be reached" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_terminal_shows_how_many_files_are_located(rucio: Rucio, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, **rucio.environment, "COLUMNS": "120", "TERM": "xterm"}
    words = command("locate", f"rucio:{SCOPE}:{FIRST}")
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=theirs, check=True, env=environment, timeout=HANG_S)
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "5/5 files" in shown
    assert f"{SCOPE}:{FIRST}" in shown


def test_many_files_are_located_once_with_progress(rucio: Rucio, monkeypatch: pytest.MonkeyPatch) -> None:
    rucio.register("many", 1200)
    counts = []
    with reporting_to(lambda done, total, name: counts.append((done, total, name))):
        dataset = Dataset.of(f"rucio:{SCOPE}:many")
    assert counts == [(number, 1200, f"{SCOPE}:many") for number in range(1, 1201)]
    assert len(dataset) == 1200
    assert dataset.size_bytes == sum(1000 + number for number in range(1200))
    # A server that is started again while files are located answers the rest of the requests.
    monkeypatch.setattr(rucio_datasets, "PAUSE_S", 1.0)
    started: list[threading.Thread] = []

    def restart(done: int, _total: int, _name: str) -> None:
        if done == 600 and not started:
            rucio.server.kill()
            started.append(threading.Thread(target=rucio.server.start))
            started[0].start()

    monkeypatch.setattr(rucio_datasets, "TRIES", 30)
    with reporting_to(restart):
        again = Dataset.of(f"rucio:{SCOPE}:many")
    started[0].join()
    assert again.files == dataset.files
    # One that stays away is an error that says how far it got.
    monkeypatch.setattr(rucio_datasets, "TRIES", 1)
    try:
        with (
            reporting_to(lambda done, *_: rucio.server.kill() if done == 600 else None),
            pytest.raises(StorageError, match="after 500 of 1200 files") as caught,
        ):
            Dataset.of(f"rucio:{SCOPE}:many")
    finally:
        rucio.server.start()
    assert caught.value.retry
    assert rucio.url in str(caught.value)
