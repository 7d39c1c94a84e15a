"""A light server of S3 for the tests: moto, which keeps objects in memory and checks no signature."""

from __future__ import annotations

import http.client
import sys
from pathlib import Path

import pytest
from tests.patience import HANG_S
from tests.stores.places import Place
from tests.stores.servers import Process, free_port

# What a client needs to have, and moto does not look at.
KEYS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "very.secret.key"}
OWNER = "AWS4-HMAC-SHA256 Credential=tests/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
#: All by which S3 is set; none of the developer's is for the tests.
VARIABLES = (
    *KEYS, "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_NO_SIGN_REQUEST", "AWS_SKIP_SIGNATURE",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "AWS_ENDPOINT_URL_STS", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME", "AWS_SSO_ENDPOINT",
)  # fmt: skip


class Moto(Process):
    """A server with one bucket, into which the tests put the files of a folder."""

    bucket = "data"

    def __init__(self, folder: Path) -> None:
        port = free_port()
        arguments = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        super().__init__(arguments, port, folder / "moto.log")

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[str]:
        """What it was asked for, from its log."""
        return [line for line in self._log.read_text().splitlines() if "HTTP/1.1" in line]

    def start(self, waits: bool = True) -> None:
        super().start(waits)
        self.request("PUT", f"/{self.bucket}")

    def request(self, method: str, target: str, content: bytes = b"", **headers: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG_S)
        try:
            named = {name.replace("_", "-"): headers[name] for name in headers}
            connection.request(method, target, content, {"Authorization": OWNER, **named})
            response = connection.getresponse()
            answer = response.read()
            assert response.status < 300, (response.status, answer)
            return answer
        finally:
            connection.close()

    def put(self, key: str, content: bytes, is_open: bool = True) -> None:
        """``key`` as it stands in a request; open to all, or to those who sign."""
        self.request("PUT", f"/{self.bucket}/{key}", content, x_amz_acl="public-read" if is_open else "private")

    def put_folder(self, data: Path) -> None:
        for one in sorted(data.rglob("*")):
            if one.is_file():
                self.put(one.relative_to(data).as_posix().replace("%", "%25"), one.read_bytes())


class S3Place(Place):
    """A bucket with the files of the tests, read with keys or, where open to all, without."""

    def __init__(self, name: str, moto: Moto, originals: Path, content: bytes) -> None:
        closes_nothing = "" if name == "s3-anonymous" else "moto lets in whoever signs"
        super().__init__(name, lambda key: f"s3://{moto.bucket}/{key}", originals, content, closes_nothing)
        self.moto = moto

    def write(self, name: str, content: bytes) -> None:
        self.moto.put(name, content)

    def close(self, name: str) -> None:
        self.moto.put(name, b"closed", is_open=False)

    def remove(self, name: str) -> None:
        self.moto.request("DELETE", f"/{self.moto.bucket}/{name}")


def set_s3(monkeypatch: pytest.MonkeyPatch, moto: Moto, has_keys: bool = True) -> None:
    """Lets the environment of a test lead to a server."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto.endpoint)
    for name in KEYS:
        if has_keys:
            monkeypatch.setenv(name, KEYS[name])
