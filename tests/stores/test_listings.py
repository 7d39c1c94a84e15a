"""Patterns and folders in URLs stand for the files that servers say are there, with their sizes."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest
from tests.stores.conftest import PARTS, Served
from tests.stores.scripted import HttpRequest, HttpServer, http_answer, scripted
from tests.stores.servers import Folder, Nginx, wait_for
from tests.stores.servers_s3 import Moto, set_s3

from branchline.errors import BranchlineError, DatasetError, MissingFileError, StorageError
from branchline.reading.access import Access
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.datasets.server_listings import ListingEntry, entries_in, list_folder
from branchline.trains.subjobs.shares import cut


def roots(served: Served, moto: Moto) -> dict[str, str]:
    return {
        "xrootd": f"root://127.0.0.1:{served.xrootd.port}/",
        "cluster": f"root://127.0.0.1:{served.cluster.redirector.port}/",
        "xrootd-tls": f"roots://localhost:{served.xrootd_tls.port}/",
        "xrdhttp": f"http://127.0.0.1:{served.xrootd_http_port}",
        "nginx-json": f"http://127.0.0.1:{served.nginx.port}/json",
        "nginx-page": f"http://127.0.0.1:{served.nginx.port}/page",
        "s3": f"s3://{moto.bucket}",
        "fsspec": f"local://{served.data}",
    }


KINDS = ["xrootd", "cluster", "xrootd-tls", "xrdhttp", "nginx-json", "nginx-page", "s3", "fsspec"]


@pytest.fixture(params=KINDS)
def base(request: pytest.FixtureRequest, served: Served, moto: Moto, monkeypatch: pytest.MonkeyPatch) -> str:
    set_s3(monkeypatch, moto)
    monkeypatch.setenv("SSL_CERT_FILE", str(served.certificates / "ca.pem"))
    monkeypatch.setenv("X509_CERT_DIR", str(served.certificates / "authorities"))
    return roots(served, moto)[request.param]


def named(dataset: Dataset, base: str) -> dict[str, int | None]:
    return {one.path.removeprefix(base): one.size_bytes for one in dataset}


def test_a_pattern_stands_for_the_files_that_match(base: str, served: Served) -> None:
    sizes = {f"/{name}.root": (served.data / f"{name}.root").stat().st_size for name in ("events", "small")}
    assert named(Dataset.of(f"{base}/*.root"), base) == sizes
    assert named(Dataset.of(f"{base}/"), base) == sizes
    assert named(Dataset.of(f"{base}/**/*.root:events"), base) == sizes
    assert {one.tree for one in Dataset.of(f"{base}/[a-e]*.root:events")} == {"events"}
    assert named(Dataset.of(f"{base}/s*/with*.bin"), base).popitem()[1] == len(b"hello")
    with pytest.raises(DatasetError, match=r"no file matches .*nothing"):
        Dataset.of(f"{base}/nothing*.root")


def test_folders_at_any_depth_are_listed_once(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []

    def listing(url: str, access: Access | None) -> list[ListingEntry]:
        listed.append(url)
        return list_folder(url, access)

    monkeypatch.setattr("branchline.reading.datasets.server_files.list_folder", listing)
    for pattern in ("/**/*.root", "/**/sm*.root", "/", "/**/s*/*.bin", "/**/**/*.root"):
        listed.clear()
        Dataset.of(f"{base}{pattern}")
        assert len(listed) == len(set(listed)) > 1, (pattern, listed)


def test_a_folder_of_parquet_files_is_in_the_order_of_its_parts(base: str) -> None:
    found = Dataset.of(f"{base}/table.parquet/")
    assert [one.path.removeprefix(f"{base}/table.parquet/") for one in found] == PARTS
    with pytest.raises(DatasetError, match=r"no file matches .*sub"):
        Dataset.of(f"{base}/sub/")


def test_a_folder_that_is_not_there_is_said(base: str) -> None:
    with pytest.raises(BranchlineError, match=r"no such|no file matches|cannot be|does not exist"):
        Dataset.of(f"{base}/absent/*.root")


def test_what_was_found_can_be_opened(base: str) -> None:
    import branchline

    [one] = Dataset.of(f"{base}/sm*.root:events")
    assert branchline.open(f"{one.opens}:{one.tree}").entries_count == 1000


@pytest.mark.parametrize("kind", ["xrootd", "cluster", "s3", "nginx"])
def test_sizes_and_absences_are_known_without_a_pattern(
    kind: str, served: Served, moto: Moto, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_s3(monkeypatch, moto)
    where = roots(served, moto) | {"nginx": f"http://127.0.0.1:{served.nginx.port}"}
    names = ["events.root", "small.root", "absent.root"]
    dataset = Dataset.of([f"{where[kind]}/{name}" for name in names])
    local = [(served.data / name).stat().st_size if (served.data / name).exists() else None for name in names]
    assert [one.size_bytes for one in dataset] == local
    assert [one.path.rpartition("/")[2] for one in dataset.missing] == ["absent.root"]
    with pytest.raises(MissingFileError, match=r"1 of 3 files of the dataset are missing: .*absent\.root"):
        dataset.require_present()
    # A job is cut as it is over the same files on a disk.
    there = [one for one in dataset if not one.is_missing]
    here = list(Dataset.of([str(served.data / name) for name in names[:2]]))
    assert [(share.part, share.parts, len(share.files)) for share in cut(there)] == [
        (share.part, share.parts, len(share.files)) for share in cut(here)
    ]


def test_a_server_that_lists_nothing_says_so(served: Served) -> None:
    with pytest.raises(StorageError, match=r"does not let you|does not list|refused"):
        Dataset.of(f"http://127.0.0.1:{served.nginx.port}/*.root")


def test_a_server_that_is_gone_costs_no_long_wait_and_is_left_to_reading(served: Served) -> None:
    dataset = Dataset.of(["root://127.0.0.1:1//a.root", "root://127.0.0.1:1//b.root", "http://127.0.0.1:1/c.root"])
    assert [one.size_bytes for one in dataset] == [None, None, None]
    assert not dataset.missing


def test_a_library_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "0.2")

    def silence(_: int, connection: socket.socket) -> None:
        while connection.recv(65536):
            pass

    with scripted(silence) as server:
        with pytest.raises(StorageError, match=r"the library that lists it did not answer within 0\.4 s") as raised:
            Dataset.of(f"fsspec+http://127.0.0.1:{server.port}/data/*.root")
        assert raised.value.retry


def test_a_server_is_asked_once_for_each_folder(own_folder: Folder, served: Served) -> None:
    data = own_folder.below("data")
    for name in ("a", "a/deep", "b"):
        (data / name).mkdir()
        (data / name / "events.root").write_bytes(b"x")
    server = Nginx(own_folder.below("nginx"), data, served.certificates)
    try:
        server.start()
        assert len(Dataset.of(f"http://127.0.0.1:{server.port}/json/**/*.root")) == 3
        wait_for(lambda: [line for line in server.requests if "GET /json" in line], 4)
    finally:
        server.kill()
    # It is also asked for a listing of WebDAV, which this one refuses.
    asked = [line.split('"')[1].removeprefix("GET ").split()[0] for line in server.requests if "GET /json" in line]
    assert sorted(asked) == ["/json/", "/json/a/", "/json/a/deep/", "/json/b/"]


def test_names_are_written_as_urls_want_them(own_folder: Folder, served: Served) -> None:
    data = own_folder.below("data")
    for name in ("with blank.root", "with%20percent.root", "with#mark?.root", "\u00fcber.root"):
        (data / name).write_bytes(b"x")
    server = Nginx(own_folder.below("nginx"), data, served.certificates)
    try:
        server.start()
        found = Dataset.of(f"http://127.0.0.1:{server.port}/json/*.root")
        assert [one.path.rpartition("/")[2] for one in found] == [
            "%C3%BCber.root", "with%20blank.root", "with%23mark%3F.root", "with%2520percent.root",
        ]  # fmt: skip
        from branchline._core import Store

        assert [Store(one.path).size_bytes for one in found] == [1, 1, 1, 1]
    finally:
        server.kill()


BOMB = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;">]><multistatus>&b;</multistatus>'


@pytest.mark.parametrize(
    ("form", "page"),
    [
        ("webdav", BOMB),
        (
            "webdav",
            b"<multistatus><response><href>/a</href><getcontentlength>x</getcontentlength></response></multistatus>",
        ),
        ("s3", b"not even XML"),
        ("json", b'{"name": 1}'),
        ("json", b'[{"name": "a", "type": "file", "size": "large"}]'),
        ("xrootd", b".\n0 0 0 0\na\nx y z\n\0"),
    ],
)
def test_lists_that_make_no_sense_are_refused(form: str, page: bytes) -> None:
    with pytest.raises(StorageError, match="cannot be parsed"):
        list(entries_in(form, page, "s3://bucket/folder"))


@pytest.mark.parametrize("name", ["../../etc", "a/../b.root"])
def test_names_cannot_lead_out_of_their_folder(name: str) -> None:
    page = json.dumps([{"name": name, "type": "file", "size": 3}]).encode()
    with pytest.raises(StorageError, match="cannot be parsed"):
        list(entries_in("json", page, "http://127.0.0.1/folder"))


# Timeouts, retries and their pauses.


def busy_listing(refusals: int) -> HttpServer:
    """A server that lists one file, after this many answers that it is too busy."""
    left = [refusals]

    def answer(request: HttpRequest) -> bytes:
        if request.method != "GET":
            return http_answer("405 Method Not Allowed")
        if left[0]:
            left[0] -= 1
            return http_answer("503 Service Unavailable")
        body = json.dumps([{"name": "a.root", "type": "file", "size": 7}]).encode()
        return http_answer("200 OK", "Content-Type: application/json", body=body)

    return HttpServer(answer)


def test_a_listing_is_retried_as_the_access_says_and_not_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "1")
    with scripted(server := busy_listing(2)) as served:
        pattern = f"http://127.0.0.1:{served.port}/f/*.root"
        with pytest.raises(StorageError, match="503"):
            Dataset.of(pattern)
        assert server.count("GET") == 1
        found = Dataset.of([pattern], access=Access(tries=2, retry_pause=0))
        assert [one.size_bytes for one in found] == [7]
        assert server.count("GET") == 3


def test_a_list_of_patterns_and_a_fileset_are_listed_as_the_access_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "1")
    text, fileset = tmp_path / "files.txt", tmp_path / "files.json"
    for path in (text, fileset):
        with scripted(busy_listing(1)) as served:
            pattern = f"http://127.0.0.1:{served.port}/f/*.root"
            path.write_text(pattern if path is text else json.dumps({"a": [pattern]}))
            assert len(Dataset.of(path, access=Access(tries=2, retry_pause=0))) == 1


@pytest.mark.parametrize("scheme", ["root", "http"])
def test_a_silent_server_is_waited_for_as_often_as_the_access_says(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "3600")
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "5")

    def silence(_: int, connection: socket.socket) -> None:
        while connection.recv(65536):
            pass

    with scripted(silence) as served:
        with pytest.raises(StorageError, match="did not answer in time"):
            Dataset.of(f"{scheme}://127.0.0.1:{served.port}//f/*.root", access=Access(timeout=0.1, tries=1))
        assert served.connections == 1


def test_the_size_of_a_file_is_waited_for_as_long_as_the_access_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "0.1")

    def answer(request: HttpRequest) -> bytes:
        time.sleep(0.5)
        return http_answer("200 OK", "Content-Length: 7", body=b"" if request.method == "HEAD" else b"1234567")

    with scripted(HttpServer(answer)) as served:
        url = f"http://127.0.0.1:{served.port}/a.root"
        [found] = Dataset.of(url, access=Access(timeout=60))
        assert found.size_bytes == 7
    with scripted(HttpServer(answer)) as served:
        [found] = Dataset.of(f"http://127.0.0.1:{served.port}/a.root")
        assert found.size_bytes is None
