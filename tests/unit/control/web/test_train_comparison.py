"""Trains of a server beside each other, and a train that is taken to another machine."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clusters.event_files import write_events
from tests.unit.control.web.server import Server

WAIT_S = 240
SOURCE = """
import hist
import numpy as np

class Spectrum:
    branches = ["px"]
    def __init__(self, scale: float = 1.0):
        self.scale = scale
    def process(self, events):
        px = hist.Hist.new.Reg(10, -5, 5, name="px").Weight()
        px.fill(np.asarray(events.px), weight=self.scale)
        return {"px": px, "sum": float(np.sum(np.asarray(events.px))) * self.scale}
"""


def run_train(server: Server, owner: str) -> int:
    """Waits until the wagon has passed as it is now, runs it, and gives the number of the train."""
    end = time.monotonic() + WAIT_S
    while not server.get(f"/new-train.json?dataset={owner}/events").json()["wagons"][0]["may_ride"]:
        assert time.monotonic() < end, server.get("/grid.json").text
        time.sleep(0.1)
    fields = {"name": "spectra", "dataset": f"{owner}/events", "wagon": f"{owner}/Spectrum", "workers": "1"}
    page = server.do("order-train", **fields).json()["page"]
    while (shown := server.get(f"{page}.json").json())["train"]["state"] in ("starting", "running"):
        assert time.monotonic() < end, shown
        time.sleep(0.1)
    assert shown["train"]["state"] == "finished", shown["train"]["why"]
    return int(shown["train"]["number"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with three trains: two of the same wagon, and one of it with another parameter."""
    data = tmp_path_factory.mktemp("data")
    write_events(data, 2, 100)
    with Server(tmp_path_factory.mktemp("room")) as server:
        owner = server.do("upload", text=SOURCE).json()["page"].split("/")[2]
        server.do("save-dataset", name="events", files=str(data / "*.root"))
        server.do("enable", wagon=f"{owner}/Spectrum", dataset=f"{owner}/events", to="on")
        assert [run_train(server, owner), run_train(server, owner)] == [1, 2]
        revision = str(server.get(f"/wagons/{owner}/Spectrum.json").json()["wagon"]["revision"])
        server.do("save-wagon", address=f"{owner}/Spectrum", revision=revision, **{"value.scale": "2"})
        assert run_train(server, owner) == 3
        yield server


@pytest.mark.long
def test_the_same_train_again_is_identical(server: Server) -> None:
    found: Any = server.get("/trains/2/compare.json").json()
    assert (found["other"], found["choices"], found["compared"]["is_identical"]) == (1, [1], True)
    assert "identical, bit for bit" in server.get("/trains/2/compare").text
    assert {one["wagon"] for one in found["compared"]["costs"]} == {"", "Spectrum"}
    assert server.get("/trains/1/compare.json").json()["other"] == 0


def test_each_train_leads_to_the_job_that_reported_it(server: Server) -> None:
    out = {one["identity"]["job"]: one["identity"]["out"] for one in server.get("/jobs.json").json()["rows"]}
    for number in (1, 2, 3):
        job = server.get(f"/trains/{number}.json").json()["job"]
        assert f"/trains/{number}/" in out.pop(job)
        assert f"/jobs/{job}" in server.get(f"/trains/{number}").text
    assert not out


def test_another_parameter_is_seen_in_bins_and_values(server: Server) -> None:
    found: Any = server.get("/trains/3/compare.json?with=1").json()
    parts = {one["name"]: one for one in found["compared"]["parts"]}
    histogram, data = parts["results/Spectrum/px.json"], parts["results/Spectrum.json"]
    bins = histogram["bins"]
    assert bins["first"] == [2 * one for one in bins["second"]]
    assert sum(bins["second"]) == 200
    assert histogram["differing"] == sum(1 for one in bins["second"] if one)
    # Twice as many of weight 2: the error is that of the larger run.
    top = max(bins["second"])
    assert (histogram["largest"], histogram["in_errors"]) == (top, pytest.approx(top**0.5 / 2))
    assert [one["name"] for one in data["values"]] == ["sum"]
    page = server.get("/trains/3/compare?with=1").text
    assert "<svg" in page
    assert "identical, bit for bit" not in page


def test_what_cannot_be_compared_is_refused(server: Server) -> None:
    for address in ("/trains/9/compare", "/trains/1/compare?with=9"):
        assert server.get(address).status == 404, address
    assert server.get("/trains/1/compare?with=x").status == 400


def test_a_train_runs_elsewhere_with_the_same_results(server: Server, tmp_path: Path) -> None:
    answer = server.get("/trains/3/bundle.zip")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/zip")
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    texts = {name: archive.read(name) for name in archive.namelist()}
    room = server.get("/trains/3.json").json()["command"].split()[2].rpartition("/trains/")[0]
    for secret in (server.token, room):
        assert not any(secret.encode() in one for one in texts.values())
    archive.extractall(tmp_path)
    [folder] = tmp_path.iterdir()
    words = f'#!/bin/sh\nexec {sys.executable} -m branchline "$@"\n'
    (tmp_path / "branchline").write_text(words)
    (tmp_path / "branchline").chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", str(folder / "run.sh")], env={**os.environ, **path}, timeout=WAIT_S, check=False)
    assert done.returncode == 0
    names = [one for one in server.get("/trains/3.json").json()["files"] if one.startswith("results/")]
    assert len(names) == 2
    for name in names:
        assert (folder / "results" / name).read_bytes() == server.get(f"/trains/3/files/{name}").content
