"""Names in Rucio, metalinks, and filesets with checksums: what they say is checked before it is used."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from branchline import Dataset
from branchline.errors import DatasetError, MissingFileError, MissingPackageError
from branchline.reading.datasets import metalink
from branchline.reading.datasets.catalogue import checked_name, checked_url, sites_of_servers
from branchline.reading.datasets.identity import checked_size, checksum_version
from branchline.reading.datasets.replicas import located_fileset
from branchline.reading.datasets.rucio_datasets import RucioDataset

#: As Rucio 41 writes it, shortened: two replicas on disk, one with a scheme that is not read.
RUCIO = """<?xml version="1.0" encoding="UTF-8"?>
<metalink xmlns="urn:ietf:params:xml:ns:metalink">
 <file name="b.root">
  <identity>user.me:b.root</identity>
  <hash type="adler32">0A1b2c3</hash>
  <hash type="md5">00112233445566778899aabbccddeeff</hash>
  <size>1234</size>
  <glfn name="/generic/rucio/user.me:b.root"></glfn>
  <url location="CERN" domain="wan" priority="2" client_extract="false">root://b.cern.ch:1094//b.root?a=1&amp;b=2</url>
  <url location="DESY" domain="wan" priority="1" client_extract="false">davs://a.desy.de/b.root</url>
  <url location="DESY" domain="wan" priority="3" client_extract="false">srm://a.desy.de/b.root</url>
 </file>
 <file name="a.root">
  <identity>user.me:a.root</identity>
  <size>None</size>
  <url location="CERN" priority="1">root://b.cern.ch:1094//a.root</url>
 </file>
</metalink>
"""
VERSION_3 = """<metalink version="3.0" xmlns="http://www.metalinker.org/"><files><file name="a.root">
<size>10</size><verification><hash type="sha-256">{digits}</hash></verification>
<resources><url type="https" location="de" preference="10">https://a.org/a.root</url>
<url type="https" location="ch" preference="90">https://b.org/a.root</url></resources></file></files></metalink>"""


def written(folder: Path, text: str | bytes, name: str = "data.meta4") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_a_metalink_has_the_files_with_replicas_versions_and_sites(tmp_path: Path) -> None:
    path = written(tmp_path, RUCIO)
    first, second = Dataset.of(f"{path}:Events", name="mine")
    # Without a checksum, the server is asked for size and version.
    assert (first.path, first.size_bytes, first.version) == ("root://b.cern.ch:1094//a.root", None, "")
    assert second.locations == ("davs://a.desy.de/b.root", "root://b.cern.ch:1094//b.root?a=1&b=2")
    assert (second.size_bytes, second.version) == (1234, "adler32:00a1b2c3")
    assert (second.tree, second.dataset, second.sites.site_of(second.path)) == ("Events", "mine", "DESY")
    lookup = second.lookup
    assert lookup is not None
    assert lookup is first.lookup
    assert (lookup.name, lookup.files, lookup.replicas, lookup.without_replicas) == (
        str(path), 2, {"CERN": 2, "DESY": 1}, (),
    )  # fmt: skip


def test_a_metalink_of_version_3_is_read_by_preference(tmp_path: Path) -> None:
    (file,) = Dataset.of(written(tmp_path, VERSION_3.format(digits="AB" * 32), "data.metalink"))
    assert file.locations == ("https://b.org/a.root", "https://a.org/a.root")
    assert file.version == f"sha256:{'ab' * 32}"
    assert file.sites.beginnings == ()  # countries are no sites


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "gsiftp://a.desy.de/b.root", "zip://x::https://a.org/b.zip", "fsspec+https://a/b"]
)
def test_a_file_whose_replicas_cannot_be_read_is_missing_by_its_name(tmp_path: Path, url: str) -> None:
    path = written(tmp_path, RUCIO.replace("root://b.cern.ch:1094//a.root", url))
    dataset = Dataset.of(path)
    (missing,) = dataset.with_absolute_paths().missing
    assert (missing.path, missing.missing_reason) == ("user.me:a.root", "no replica can be read")
    with pytest.raises(MissingFileError, match=r"no replica of 1 of 2 files of the dataset can be read: user\.me"):
        dataset.require_present()
    fileset = located_fileset(dataset)["dataset"]
    assert list(fileset["files"]) == ["davs://a.desy.de/b.root"]


BOMB = '<!DOCTYPE metalink [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (RUCIO.replace("<metalink", f"{BOMB}<metalink"), "document type declarations"),
        (RUCIO.replace("UTF-8", "UTF-16").replace("<metalink", f"{BOMB}<metalink").encode("utf-16"), "document type"),
        (RUCIO.replace("<metalink", '<!DOCTYPE m SYSTEM "file:///etc/passwd"><metalink'), "document type declarations"),
        (RUCIO[:300], "invalid XML"),
        (b"\x00root\x00", "invalid XML"),
        ("<html/>", "its root element is 'html'"),
        ("<metalink/>", "contains no files"),
        (RUCIO.replace("1234", "-1234"), "the size of user.me:b.root is '-1234'"),
        (RUCIO.replace("1234", "9" * 5000), "the size of user.me:b.root is '999"),
        (RUCIO.replace("0A1b2c3", "xyz"), "'adler32:xyz' is not a checksum"),
        (RUCIO.replace("user.me:a.root", "user.me:a\u202e.root"), r"the name of a file is 'user.me:a\\u202e.root'"),
        (RUCIO.replace("user.me:a.root", "a" * 2000), "the name of a file is 'aaaa"),
        (RUCIO.replace("1094//a.root", "1094//a&#10;b.root"), r"the URL of a replica is 'root://b.cern.ch:1094//a\\nb"),
        (RUCIO.replace("//b.cern.ch:1094//a.root", "//b/a.root | root://c/d.root"), "the URL of a replica is"),
        (RUCIO.replace("root://b.cern.ch:1094//a.root", "root:///a.root"), "the URL of a replica is 'root:///a.root'"),
        (RUCIO.replace('"CERN"', '"CERN\u200f"'), r"the location of a URL is 'CERN\\u200f'"),
    ],
)
def test_a_metalink_is_checked(tmp_path: Path, text: str | bytes, problem: str) -> None:
    with pytest.raises(DatasetError, match=problem) as caught:
        Dataset.of(written(tmp_path, text))
    assert caught.value.path == str(tmp_path / "data.meta4")
    assert len(str(caught.value)) < len(str(tmp_path)) + 300


def test_a_metalink_of_any_size_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metalink, "METALINK_MAX_BYTES", 500)
    with pytest.raises(DatasetError, match="this metalink has more than 500 B"):
        Dataset.of(written(tmp_path, RUCIO))


def test_a_name_in_rucio_has_a_scope_and_maybe_a_tree() -> None:
    one = RucioDataset.of("rucio:cms:/DY/Run3-v1/NANOAODSIM:dir/Events")
    assert (one.scope, one.name, one.tree) == ("cms", "/DY/Run3-v1/NANOAODSIM", "dir/Events")
    assert RucioDataset.of("cms:/DY/Run3-v1/NANOAODSIM") == RucioDataset("cms", "/DY/Run3-v1/NANOAODSIM")
    restricted = RucioDataset.of("user.me:a", {"schemes": ["root"], "rses": "country=DE", "tape": True})
    assert restricted == RucioDataset("user.me", "a", None, ("root",), "country=DE", tape=True)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"rucio": "no-scope"}, "'no-scope' is not the name of a dataset in Rucio"),
        ({"rucio": "cms:"}, "'cms:' is not the name"),
        ({"rucio": "cms:a b"}, "'cms:a b' is not the name"),
        ({"rucio": "cms:a\x1b[31m"}, r"'cms:a\\x1b\[31m' is not the name"),
        ({"rucio": ["cms:a", 7]}, "7 is not the name"),
        ({"rucio": "cms:/DY*/x"}, "patterns of names in Rucio are not supported"),
        ({"rucio": "cms:a", "schemes": ["file"]}, r"the schemes of cms:a are \['file'\]"),
        ({"rucio": "cms:a", "schemes": []}, "the schemes of cms:a"),
        ({"rucio": "cms:a", "schemes": [["root"]]}, "the schemes of cms:a"),
        ({"rucio": "cms:a", "rses": ["A"]}, r"the rses of cms:a are \['A'\]"),
        ({"rucio": "cms:a", "tape": "no"}, "tape of cms:a is 'no'"),
        ({"files": ["a.root"], "rses": "country=DE"}, "the dataset 'DY' has rses without rucio"),
    ],
)
def test_a_dataset_in_rucio_is_described_correctly(
    content: dict, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rucio", None)
    expected = (DatasetError, MissingPackageError) if content.get("rucio") == ["cms:a", 7] else DatasetError
    with pytest.raises(expected, match=problem if expected is DatasetError else "rucio"):
        Dataset.of({"DY": content})


def test_a_missing_client_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rucio", None)
    lists = [tmp_path / "files.txt", tmp_path / "files.json", tmp_path / "files.toml"]
    lists[0].write_text("rucio:cms:/DY/Run3/NANOAODSIM\n")
    lists[1].write_text(json.dumps({"DY": {"files": {"rucio:cms:/DY/Run3/NANOAODSIM": "Events"}}}))
    lists[2].write_text('[DY]\nrucio = "cms:/DY/Run3/NANOAODSIM"\n')
    for given in ("rucio:cms:/DY/Run3/NANOAODSIM:Events", *lists):
        with pytest.raises(MissingPackageError, match=r"pip install 'branchline\[rucio\]'"):
            Dataset.of(given)


def test_a_fileset_gives_checksums_which_locate_writes_again(tmp_path: Path) -> None:
    described = {"object_path": "Events", "replicas": ["root://b//f.root"], "version": "adler32:1A", "size_bytes": 70}
    given = {"DY": {"files": {"root://a//f.root": described}, "sites": {"root://a": "A"}}}
    (file,) = Dataset.of(given)
    assert (file.version, file.size_bytes, file.tree) == ("adler32:0000001a", 70, "Events")
    path = written(tmp_path, RUCIO)
    files = Dataset.of(path, "Events", name="DY").files[1:]
    fileset = located_fileset(Dataset(files))
    again = Dataset.of(json.loads(json.dumps(fileset)))
    assert [(one.locations, one.tree, one.dataset, one.version, one.size_bytes, one.sites) for one in again] == [
        (one.locations, one.tree, one.dataset, one.version, one.size_bytes, one.sites) for one in files
    ]


def test_locate_keeps_checksums_beside_files_without_and_entry_ranges(tmp_path: Path) -> None:
    path = written(tmp_path, RUCIO)
    unknown, known = Dataset.of(path, name="DY").files
    # As a server would tell it.
    unknown = unknown.changed(version="written 5 s", size_bytes=10)
    files = [unknown, *(known.changed(entry_start=start, entry_stop=start + 5) for start in (0, 10))]
    fileset = located_fileset(Dataset(files))
    again = Dataset.of(json.loads(json.dumps(fileset)))
    assert [(one.path, one.version, one.entry_start, one.entry_stop) for one in again] == [
        (unknown.path, "", 0, None),
        (known.path, known.version, 0, 5),
        (known.path, known.version, 10, 15),
    ]


@pytest.mark.parametrize(
    ("described", "problem"),
    [
        ({"version": "adler32:zz"}, "version or size_bytes of root://a//f.root: 'adler32:zz' is not a checksum"),
        ({"version": "adler32:123456789"}, "is not a checksum"),
        ({"version": "crc:12"}, "'crc:12' is not a checksum; write adler32: and 8 hexadecimal digits"),
        ({"version": 12}, "'12' is not a checksum"),
        ({"version": "adler32:12", "size_bytes": -1}, "size_bytes of root://a//f.root: a file's size is -1"),
        ({"version": "adler32:12", "size_bytes": True}, "size_bytes"),
    ],
)
def test_a_wrong_version_of_a_fileset_is_an_error(described: dict, problem: str) -> None:
    with pytest.raises(DatasetError, match=problem):
        Dataset.of({"DY": {"files": {"root://a//f.root": described}}})


def test_the_replicas_of_coffea_are_a_dataset() -> None:
    """Those of `rucio_utils.get_dataset_files_replicas`, in its modes `full` and `first`."""
    files = [["root://a//1.root", "root://b//1.root"], ["root://b//2.root"]]
    full = (files, [["T2_DE", "T2_CH"], ["T2_CH"]], {"T2_DE": 1, "T2_CH": 2})
    dataset = Dataset.of(full, "Events", name="DY")
    assert [(one.locations, one.tree, one.dataset) for one in dataset] == [
        (("root://a//1.root", "root://b//1.root"), "Events", "DY"),
        (("root://b//2.root",), "Events", "DY"),
    ]
    assert dataset.files[0].sites.site_of("root://a//1.root") == "T2_DE"
    first = ([one[0] for one in files], ["T2_DE", "T2_CH"], {"T2_DE": 1, "T2_CH": 1})
    assert [one.path for one in Dataset.of(first)] == ["root://a//1.root", "root://b//2.root"]
    with pytest.raises(DatasetError, match="a file of dataset 'dataset' has no replicas"):
        Dataset.of(([*files, []], [["T2_DE", "T2_CH"], ["T2_CH"], []], {}))


def test_a_list_in_yaml_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"YAML are not supported \(save the list as \.json\)"):
        Dataset.of(written(tmp_path, "DY:\n  files: {}\n", "output.yaml"))


@pytest.mark.parametrize(
    ("given", "version"),
    [
        ("adler32:1", "adler32:00000001"),
        ("md5:" + "A" * 32, "md5:" + "a" * 32),
        ("sha256:" + "b" * 64, "sha256:" + "b" * 64),
    ],
)
def test_checksums_have_one_form(given: str, version: str) -> None:
    assert checksum_version(given) == version


def test_fields_of_a_catalogue_are_checked() -> None:
    assert (checked_size(0), checked_size(None)) == (0, None)
    assert checked_url("ROOT://a//b", ("root",)) == "ROOT://a//b"
    assert checked_url("davs://a/b", ("root",)) is None
    for size in (-1, True, 1.5, "12", 10**13 + 1):
        with pytest.raises(ValueError, match="a file's size is"):
            checked_size(size)
    for name in ("", "a b", "a\tb", None, 7, "a" * 1001, "a\x00"):
        with pytest.raises(ValueError, match="the name is"):
            checked_name(name, "the name")
    for url in ("a", "root://", "root://a", "root:///a", "root://a/", "root://a//b c", None, "root://a/" + "b" * 8000):
        with pytest.raises(ValueError, match="the URL of a replica is"):
            checked_url(url, ("root",))


def test_a_server_of_several_sites_has_no_site() -> None:
    sites = sites_of_servers([("root://r//a", "A"), ("root://r//b", "B"), ("root://s//a", "A"), ("root://t//a", "")])
    assert dict(sites.beginnings) == {"root://s": "A"}
