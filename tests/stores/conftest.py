"""The servers that the tests of stores share, the files on them, and short waits."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.stores.servers import (
    Folder,
    Nginx,
    Process,
    Xrootd,
    XrootdCluster,
    certificates,
    loopback_shim,
    xrootd_with_http,
    xrootd_with_tls,
)
from tests.stores.servers_gsi import GsiXrootd
from tests.stores.servers_s3 import VARIABLES, Moto

# The checks that several test files share explain themselves like those in a test file.
pytest.register_assert_rewrite("tests.stores.conformance")

# An odd size, larger than what a server moves at once.
BYTES_COUNT = 5_000_017


#: The parts of the table in the folder `table.parquet`.
PARTS = [f"part.{number}.parquet" for number in (0, 2, 10)]


@dataclass(frozen=True)
class Served:
    """Where the files of the tests are: `random.bin`, `empty.bin`, `small.root`, `sub/`, and `events.root`, which is
    larger than what is read whole.
    """

    data: Path
    content: bytes
    nginx: Nginx
    xrootd: Xrootd
    xrootd_http_port: int
    xrootd_tls: Xrootd
    cluster: XrootdCluster
    certificates: Path
    shim: Path


def write_files(data: Path) -> bytes:
    content = random.Random(7).randbytes(BYTES_COUNT)
    (data / "random.bin").write_bytes(content)
    (data / "empty.bin").write_bytes(b"")
    (data / "sub").mkdir()
    (data / "sub" / "with%20percent.bin").write_bytes(b"hello")
    for name in (*PARTS, "_metadata", "_hidden.parquet", "_temporary/part.1.parquet", ".part.0.parquet"):
        (data / "table.parquet" / name).parent.mkdir(parents=True, exist_ok=True)
        (data / "table.parquet" / name).write_bytes(b"of a table")
    write_tree(data / "events.root", clusters=8, entries=40_000)
    write_tree(data / "small.root", clusters=2, entries=500)
    for one in (data, *data.rglob("*")):
        one.chmod(0o755 if one.is_dir() else 0o644)
    return content


def write_tree(path: Path, clusters: int, entries: int) -> None:
    numbers = np.random.default_rng(7)
    with uproot.recreate(path, compression=uproot.ZLIB(1)) as file:
        tree = file.mktree("events", {"px": "float64", "pt": "var * float64"})
        for _ in range(clusters):
            counts = numbers.poisson(3, entries)
            pt = ak.unflatten(numbers.random(counts.sum()), counts)
            tree.extend({"px": numbers.normal(size=entries), "pt": pt})


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    """nginx and XRootD over the same files, for tests that do them no harm."""
    folder = Folder()
    started: list[Process | XrootdCluster] = []
    try:
        data = folder.below("data")
        content = write_files(data)
        keys = folder.below("certificates")
        certificates(keys)
        shim = loopback_shim(folder.path)
        nginx = Nginx(folder.below("nginx"), data, keys)
        xrootd, xrootd_http_port = xrootd_with_http(folder.below("xrootd"), data, shim)
        xrootd_tls = xrootd_with_tls(folder.below("xrootd-tls"), data, shim, keys)
        cluster = XrootdCluster(folder, data, shim)
        for one in (nginx, xrootd, xrootd_tls, cluster):
            started.append(one)
            one.start()
        yield Served(data, content, nginx, xrootd, xrootd_http_port, xrootd_tls, cluster, keys, shim)
    finally:
        for each in started:
            each.kill()
        folder.remove()


@pytest.fixture(scope="session")
def moto(served: Served) -> Iterator[Moto]:
    """S3 with the same files, open to all."""
    folder = Folder()
    server = Moto(folder.path)
    try:
        server.start()
        server.put_folder(served.data)
        yield server
    finally:
        server.kill()
        folder.remove()


@pytest.fixture(scope="session")
def gsi(served: Served) -> Iterator[GsiXrootd]:
    """XRootD over the same files, for users of the grid."""
    folder = Folder()
    try:
        server = GsiXrootd(folder, served.data, served.shim)
        server.start()
        yield server
        server.kill()
    finally:
        folder.remove()


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No token or certificate of the developer's, and short waits."""
    for name in ("BEARER_TOKEN", "BEARER_TOKEN_FILE", "X509_USER_PROXY", "X509_USER_CERT", "X509_USER_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, os.devnull)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "10")
    monkeypatch.setenv("BRANCHLINE_STORAGE_WAIT", "20")


@pytest.fixture
def own_folder() -> Iterator[Folder]:
    """A folder for servers of one test alone."""
    folder = Folder()
    yield folder
    folder.remove()
