"""The cache of a site: which files are read through it, and under which URL."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchline.errors import OptionError
from branchline.jobs.sites import SITE_FILE_VARIABLE, SiteCache, SiteMap, Spot
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.sources import ReplicaReading
from branchline.records.sensors.record import FileRecord
from branchline.trains.subjobs.locality import Locality

PLAIN, FORWARDING = SiteCache("root://cache.a:1094"), SiteCache("root://cache.a:1094//")
ORIGIN = "root://se.b:1094//store/f.root"


@pytest.mark.parametrize(
    ("cache", "location", "cached"),
    [
        (PLAIN, ORIGIN, "root://cache.a:1094//store/f.root"),
        (PLAIN, "roots://me@se.b/store/f.root?authz=t", "root://cache.a:1094//store/f.root?authz=t"),
        (FORWARDING, ORIGIN, "root://cache.a:1094//root://se.b:1094//store/f.root"),
        (FORWARDING, "root://me:secret@se.b/store/f.root", "root://cache.a:1094//root://se.b//store/f.root"),
        (PLAIN, "https://se.b/store/f.root", ""),
        (PLAIN, "/store/f.root", ""),
        (PLAIN, "root://cache.a:1094//store/f.root", ""),
        (SiteCache("root://cache.a:1094", ("root://*.c:1094",)), ORIGIN, ""),
        (SiteCache("root://cache.a:1094", ("root://*.b:1094",)), ORIGIN, "root://cache.a:1094//store/f.root"),
    ],
)
def test_files_on_xrootd_are_cached_unless_the_cache_has_other_origins(
    cache: SiteCache, location: str, cached: str
) -> None:
    assert cache.location_of(location) == cached


def test_a_sites_file_has_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "site.toml"
    monkeypatch.setenv(SITE_FILE_VARIABLE, str(path))
    path.write_text(
        '[sites.A]\ncache = "root://cache.a:1094/"\ncache_origins = ["root://*.b:1094"]\n'
        '[sites.B]\ncache = "root://cache.b//"\n[sites.C]\nhosts = ["c*"]\n'
    )
    caches = SiteMap.load().caches
    assert caches == {"A": SiteCache("root://cache.a:1094", ("root://*.b:1094",)), "B": SiteCache("root://cache.b//")}
    assert [one.server for one in caches.values()] == ["root://cache.a:1094", "root://cache.b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('cache = "https://cache.a"', "invalid cache 'https://cache.a' of the site A"),
        ('cache = "root://cache.a//store"', "root://HOST:PORT//"),
        ("cache = 7", "invalid cache 7"),
        ('cache = "root://cache.a | /etc"', "invalid cache"),
        ('cache_origins = ["root://*.b"]', "cache_origins without a cache"),
        ('cache = "root://cache.a"\ncache_origins = "root://*.b"', "invalid cache_origins"),
        ('caches = ["root://cache.a"]', "hosts, storage, cache, cache_origins"),
    ],
)
def test_what_is_no_cache_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    path = tmp_path / "site.toml"
    monkeypatch.setenv(SITE_FILE_VARIABLE, str(path))
    path.write_text(f"[sites.A]\n{text}\n")
    with pytest.raises(OptionError, match=r"site\.toml") as raised:
        SiteMap.load()
    assert said in str(raised.value)


def at(site: str, cache: SiteCache = PLAIN) -> Locality:
    sites = SiteMap(storage=(("root://se.a*", "A"),), caches={"A": cache})
    return Locality(Spot("node.a", site), sites, Access())


def test_only_files_without_a_replica_at_the_site_are_read_through_its_cache() -> None:
    file = DataFile(ORIGIN, replicas=("root://se.c:1094//store/f.root",))
    cached = at("A").through_cache(file)
    assert cached.locations == (*file.locations, "root://cache.a:1094//store/f.root")
    assert cached.elements == file.elements
    assert at("B").through_cache(file) == file
    near = DataFile(ORIGIN, replicas=("root://se.a:1094//store/f.root",))
    assert at("A").through_cache(near) == near


@pytest.mark.parametrize("cache", [PLAIN, FORWARDING])
def test_reads_through_a_cache_count_for_the_origin(cache: SiteCache) -> None:
    locality = at("A", cache)
    file = locality.through_cache(DataFile(ORIGIN))
    record = FileRecord(ORIGIN)
    [reading] = locality.read(record, file, [ReplicaReading(file.cache, 10, 0, ""), ReplicaReading(ORIGIN, 0, 0, "")])
    assert (record.storage_element, record.replica) == ("root://se.b:1094", file.cache)
    assert (reading.storage_element, reading.nearness, reading.bytes_read) == ("root://se.b:1094", "site", 10)
