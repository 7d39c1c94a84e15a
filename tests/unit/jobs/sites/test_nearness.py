"""Where workers and storage elements are, and what is near to what."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchline.errors import DatasetError, OptionError
from branchline.jobs.sites import (
    SITE_FILE_VARIABLE,
    Distances,
    Nearness,
    SiteMap,
    Spot,
    holding_most,
    is_near,
    nearness_of,
    own_spot,
)
from branchline.reading.datasets.elements import LOCAL_ELEMENT, ElementSites, server_of

NOTHING_LISTED = ElementSites()


@pytest.mark.parametrize(
    ("location", "server"),
    [
        ("root://me@se.site.org:1094//store/f.root", "root://se.site.org:1094"),
        ("ROOT://se//f", "root://se"),
        ("https://[::1]:80/f?x=a/b", "https://[::1]:80"),
        ("zip://f.root::https://h/a.zip", "https://h"),
        ("file:///data/f.root", LOCAL_ELEMENT),
        ("/data/f.root", LOCAL_ELEMENT),
    ],
)
def test_the_element_of_a_location_is_its_server(location: str, server: str) -> None:
    assert server_of(location) == server
    assert NOTHING_LISTED.element_of(location) == server


def test_a_list_names_elements_by_how_locations_begin() -> None:
    listed = ElementSites.of({"/data/": "A", "/data/far": "B", "root://se:10": "C", "root://se:1094//cms": "D"})
    assert [(listed.element_of(one), listed.site_of(one)) for one in ("/data/f", "/data/far/f", "/data2/f")] == [
        ("/data", "A"),
        ("/data/far", "B"),
        (LOCAL_ELEMENT, ""),
    ]
    assert listed.site_of("root://me@se:10//f") == "C"
    assert listed.site_of("root://se:1094//cms/f") == "D"
    assert listed.site_of("root://se:1094//atlas/f") == ""


@pytest.mark.parametrize("given", [["/data"], {"/data": 1}, {"": "A"}, "A"])
def test_what_is_no_mapping_of_elements_to_sites_is_refused(given: object) -> None:
    with pytest.raises(DatasetError, match="sites of storage elements"):
        ElementSites.of(given)


def test_the_site_of_a_worker_is_in_its_environment_or_in_the_sites_file_or_its_domain() -> None:
    sites = SiteMap(hosts=(("wn*.b.org", "B"),))
    for name in ("GLIDEIN_CMSSite", "OSG_SITE_NAME", "ALIEN_SITE"):
        assert Spot.of("wn1.b.org", {name: "T2_A", "GLIDEIN_Site": "Unknown"}, sites) == Spot("wn1.b.org", "T2_A")
    assert Spot.of("wn1.b.org", {"BRANCHLINE_SITE": "C", "ALIEN_SITE": "D"}, sites).site == "C"
    assert Spot.of("wn1.b.org", {"GLIDEIN_Site": "Unknown"}, sites).site == "B"
    assert Spot.of("wn1.c.org", {}, sites).site == "c.org"
    assert Spot.of("laptop", {}, sites).site == ""


def test_a_sites_file_has_hosts_and_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "site.toml"
    path.write_text(
        '[sites.GSI]\nhosts = ["*"]\nstorage = ["root://*.gsi.de:1094/", "/lustre/"]\n[slurm]\nmemory = "1G"\n'
    )
    monkeypatch.setenv(SITE_FILE_VARIABLE, str(path))
    for name in ("BRANCHLINE_SITE", "GLIDEIN_CMSSite"):
        monkeypatch.delenv(name, raising=False)
    assert own_spot().site == "GSI"
    sites = SiteMap.load()
    assert sites.site_of_storage("root://lxse1.gsi.de:1094//f") == "GSI"
    assert (sites.site_of_storage("/lustre/f"), sites.site_of_storage("/lustre2/f")) == ("GSI", "")
    for wrong in ("[sites]\nGSI = 3", '[sites.GSI]\nhosts = "*"', '[sites.GSI]\nstorages = ["/a"]'):
        path.write_text(wrong)
        with pytest.raises(OptionError, match="GSI"):
            SiteMap.load()


def test_what_is_said_of_a_location_comes_before_its_name() -> None:
    sites = SiteMap(storage=(("root://127.0.0.2:*", "B"),))
    listed = ElementSites.of({"/far": "B", "/near": "A"})
    at_a = Spot("wn1.a.org", "A")
    found = {one: nearness_of(at_a, one, listed, sites) for one in ("/far/f", "/near/f", "/f", "root://127.0.0.2:7//f")}
    assert list(found.values()) == [Nearness.ELSEWHERE, Nearness.SITE, Nearness.HOST, Nearness.ELSEWHERE]
    assert nearness_of(Spot("wn1", "B"), "root://127.0.0.2:7//f", listed, sites) is Nearness.SITE


def test_without_a_word_of_it_a_server_of_the_same_domain_is_at_the_site() -> None:
    at_a = Spot("wn1.a.org", "a.org")
    for location, expected in (
        ("root://wn1.a.org:1094//f", Nearness.HOST),
        ("root://localhost//f", Nearness.HOST),
        ("https://se.a.org/f", Nearness.SITE),
        ("https://se.aa.org/f", Nearness.ELSEWHERE),
    ):
        assert nearness_of(at_a, location, NOTHING_LISTED, SiteMap()) is expected
    assert nearness_of(Spot(), "https://se.a.org/f", NOTHING_LISTED, SiteMap()) is Nearness.ELSEWHERE


def test_a_measured_round_trip_comes_before_names() -> None:
    distances = Distances(SiteMap())
    spot, near, far = Spot("wn1.a.org", "a.org"), "root://se.a.org//f", "root://se.b.org//f"
    assert distances.to_nearest_s(spot, [far, near], NOTHING_LISTED) == distances.round_trip_s(
        spot, near, NOTHING_LISTED
    )
    for took_s in (0.4, 0.2, 0.3):
        distances.measured("a.org", "root://se.a.org", took_s)
    distances.measured("a.org", "root://se.b.org", 0.0001)
    distances.measured("b.org", "root://se.a.org", 0.0001)
    assert distances.round_trip_s(spot, near, NOTHING_LISTED) == 0.2
    assert distances.round_trip_s(spot, far, NOTHING_LISTED) == 0.0001
    measured = {one.server: one.took_s for one in distances.from_site("a.org")}
    assert measured == {"root://se.a.org": 0.2, "root://se.b.org": 0.0001}
    assert not is_near(0.2, 0.0001)
    assert is_near(0.2, 0.11)
    assert is_near(0.002, 0.0001)


def test_a_machine_that_holds_the_file_is_the_nearest() -> None:
    at_a, url = Spot("wn1.a.org", "A"), "hdfs://nn.b.org:8020/f"
    listed = ElementSites.of({"hdfs://nn.b.org:8020": "A"})
    for hosts, expected in (
        (["wn2.a.org", "wn1.a.org"], Nearness.HOST),
        (["wn1"], Nearness.HOST),
        (["wn11", "wn1.b.org", "wn"], Nearness.SITE),
        ([], Nearness.SITE),
    ):
        assert nearness_of(at_a, url, listed, SiteMap(), hosts) is expected
    assert nearness_of(Spot("wn1"), url, NOTHING_LISTED, SiteMap(), ["wn1.a.org"]) is Nearness.HOST
    assert nearness_of(Spot(), url, NOTHING_LISTED, SiteMap(), ["wn1.a.org", ""]) is Nearness.ELSEWHERE


def test_machines_that_hold_most_of_several_files() -> None:
    assert holding_most([("a", "b"), ("b", "c"), ("c",)]) == ("b", "c")
    assert holding_most([(), ()]) == ()
