"""Trains at a site with an XRootD cache: results, versions and storage elements are those of the origin."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ecosystem.caches import FILES, Caches, started_caches
from tests.patience import HANG_S
from tests.unit.control.web.server import Server

import branchline
from branchline._core import Store
from branchline.jobs.sites import SITE_FILE_VARIABLE

WAGON = "import numpy as np\n\n\ndef total(events):\n    return float(np.sum(np.asarray(events.x)))\n"


@pytest.fixture(scope="module")
def caches() -> Iterator[Caches]:
    with started_caches() as caches:
        yield caches


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter waits than everybody has."""
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "2")
    monkeypatch.setenv("BRANCHLINE_STORAGE_PAUSE", "0")


def at_site(caches: Caches, form: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are at a site with a cache, and the origin is at another."""
    (folder / "site.toml").write_text(
        f'[sites.HERE]\ncache = "{caches.configured(form)}"\n'
        f'[sites.THERE]\nstorage = ["root://127.0.0.1:{caches.origin.port}"]\n'
    )
    monkeypatch.setenv(SITE_FILE_VARIABLE, str(folder / "site.toml"))
    monkeypatch.setenv("BRANCHLINE_SITE", "HERE")


def run(urls: list[str], folder: Path, name: str = "out") -> branchline.TrainResult:
    (folder / "wagons.py").write_text(WAGON)
    return branchline.run(f"{folder / 'wagons.py'}:total", urls, folder / name, workers=1, tree="events")


@pytest.mark.parametrize("form", ["plain", "forwarding"])
def test_a_train_reads_through_the_cache_of_its_site(
    caches: Caches, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct = run(caches.urls, tmp_path, "direct")
    assert not caches.cached(form)
    at_site(caches, form, tmp_path, monkeypatch)
    first = run(caches.urls, tmp_path)
    assert first.outputs == direct.outputs
    assert len(caches.cached(form)) == len(FILES)
    for one in first.record.files:
        assert one.storage_element == f"root://127.0.0.1:{caches.origin.port}"
        assert one.replica.startswith(caches.configured(form))
        assert one.replicas_failed == []
    assert {(one.storage_element, one.nearness) for one in first.record.sites} == {
        (f"root://127.0.0.1:{caches.origin.port}", "site")
    }
    assert first.record.reuse_notes == []
    # The cache writes its files again, at another time; the results are those of the origin's files.
    caches.purge(form)
    again = run(caches.urls, tmp_path)
    assert again.outputs == direct.outputs
    assert again.record.subjobs_reused == again.record.subjobs
    assert run(caches.urls, tmp_path, "another").outputs == direct.outputs
    assert len(caches.cached(form)) == len(FILES)


@pytest.mark.parametrize("how", ["dead", "silent"])
def test_a_train_reads_from_the_origin_if_the_cache_does_not_answer(
    caches: Caches, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_site(caches, "plain", tmp_path, monkeypatch)
    if how == "dead":
        caches.plain.kill()
    else:
        caches.plain.pause()
    try:
        result = run(caches.urls, tmp_path)
        assert result.exit_code == 0
        assert all(one.replica == "" for one in result.record.files)
        assert any("failed" in said for one in result.record.files for said in one.replicas_failed)
        assert result.record.reuse_notes == []
    finally:
        if how == "dead":
            caches.plain.start()
        else:
            caches.plain.go_on()
    assert run(caches.urls, tmp_path).record.subjobs_reused == result.record.subjobs


def test_an_origin_that_the_cache_cannot_reach_is_read_from_another_replica(
    caches: Caches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache then takes minutes to say so."""
    caches.purge("plain")
    at_site(caches, "plain", tmp_path, monkeypatch)
    local = tmp_path / "copy"
    local.mkdir()
    files = []
    for number, (name, url) in enumerate(zip(FILES, caches.urls, strict=True)):
        path = local / f"{number}.root"
        path.write_bytes((caches.folder / "data" / name).read_bytes())
        files.append(f"{url} | {path}")
    monkeypatch.setenv("BRANCHLINE_SITE", "HERE")
    expected = run([str(local / f"{number}.root") for number in range(len(FILES))], tmp_path, "direct")
    caches.origin.pause()
    try:
        found = run([f"{url} | {path}" for url, path in (one.split(" | ") for one in files)], tmp_path)
    finally:
        caches.origin.go_on()
    assert found.outputs == expected.outputs


def test_the_control_room_shows_hits_and_misses_of_a_cache(
    caches: Caches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_site(caches, "plain", tmp_path, monkeypatch)
    caches.purge("plain")
    url = caches.urls[0].replace(str(caches.origin.port), str(caches.plain.port))
    size = os.stat(caches.folder / "data" / FILES[0]).st_size

    def summed(server: Server, files: int) -> tuple[int, int]:
        """The bytes of hits and misses, once so many files were closed."""
        end_s = time.monotonic() + HANG_S
        while True:
            found = server.get("/elements.json?period=day").json()["caches"]
            if sum(one["reads"]["files"] for one in found) >= files:
                [cache] = found
                assert (cache["element"], cache["site"]) == (caches.configured("plain"), "HERE")
                return cache["reads"]["hit_bytes"], cache["reads"]["miss_bytes"]
            assert time.monotonic() < end_s, found
            time.sleep(0.5)

    with Server(tmp_path / "room", options=("--caches", f"127.0.0.1:{caches.monitor_port}")) as server:
        for reads in (1, 2):
            store = Store(url)
            assert len(store.read([(0, size)]).contents[0]) == size
            del store
            hits, misses = summed(server, reads)
            assert misses >= size
            assert hits >= size * (reads - 1)
        assert hits < 2 * size
        assert misses < 2 * size
