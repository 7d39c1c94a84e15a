"""What every store does alike, checked against the real server of each."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from tests.stores.conformance import *  # noqa: F403
from tests.stores.conftest import Served
from tests.stores.places import Place
from tests.stores.servers_gsi import GsiXrootd
from tests.stores.servers_s3 import Moto, S3Place, set_s3

from branchline import Access

pytestmark = pytest.mark.slow

Url = Callable[[Served, str], str]

STORES: dict[str, Url] = {
    "local": lambda served, name: str(served.data / name),
    "file-url": lambda served, name: f"file://{served.data}/{name}",
    "http-nginx": lambda served, name: f"http://127.0.0.1:{served.nginx.port}/{name}",
    "http-nginx-one-range": lambda served, name: f"http://127.0.0.1:{served.nginx.port}/one-range/{name}",
    "http-nginx-moved": lambda served, name: f"http://127.0.0.1:{served.nginx.port}/moved/{name}",
    "https-nginx": lambda served, name: f"https://localhost:{served.nginx.tls_port}/{name}",
    "davs-nginx": lambda served, name: f"davs://127.0.0.1:{served.nginx.tls_port}/{name}",
    "root": lambda served, name: f"root://127.0.0.1:{served.xrootd.port}//{name}",
    "root-cluster": lambda served, name: f"root://127.0.0.1:{served.cluster.redirector.port}//{name}",
    "root-tls-there": lambda served, name: f"root://localhost:{served.xrootd_tls.port}//{name}",
    "roots": lambda served, name: f"roots://localhost:{served.xrootd_tls.port}//{name}",
    "fsspec-one-by-one": lambda served, name: f"fsspec+file://{served.data}/{name}",
    "fsspec-in-parallel": lambda served, name: f"fsspec+http://127.0.0.1:{served.nginx.port}/{name}",
    "http-xrootd": lambda served, name: f"http://127.0.0.1:{served.xrootd_http_port}/{name}",
}
# Whether there are keys.
S3 = {"s3": True, "s3-anonymous": False}
LOCAL_WAYS = {"local-threads": "threads", "local-direct": "direct", "local-uring": "uring"}
LOCAL = {"local", "file-url", "fsspec-one-by-one", *LOCAL_WAYS}


@pytest.fixture(params=[*STORES, *LOCAL_WAYS, *S3, "root-gsi"])
def place(request: pytest.FixtureRequest, served: Served, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("SSL_CERT_FILE", str(served.certificates / "ca.pem"))
    name = request.param
    if name in S3:
        moto: Moto = request.getfixturevalue("moto")
        set_s3(monkeypatch, moto, S3[name])
        return S3Place(name, moto, served.data, served.content)
    if name == "root-gsi":
        gsi: GsiXrootd = request.getfixturevalue("gsi")
        for variable, value in gsi.grid.environment.items():
            monkeypatch.setenv(variable, value)
        return Place(name, lambda file: f"root://localhost:{gsi.port}//{file}", served.data, served.content)
    closes_nothing = "nothing is closed to root" if os.geteuid() == 0 and name in LOCAL else ""
    url = STORES["local" if name in LOCAL_WAYS else name]
    place = Place(name, lambda file: url(served, file), served.data, served.content, closes_nothing)
    if name in LOCAL_WAYS:
        place.access = Access(local=LOCAL_WAYS[name])
    return place
