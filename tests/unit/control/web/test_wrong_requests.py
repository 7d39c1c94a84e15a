"""Requests that no browser and no job makes: the server answers with a refusal, and goes on."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.unit.control.web.server import WAIT_S, Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("room")) as server:
        yield server
        # None of these is a fault, and it ends as ever.
        code, said = server.end()
        assert code == 0
        assert set(said.splitlines()) <= {"WARNING:  Invalid HTTP request received."}


def sent(server: Server, request: str) -> tuple[int, str]:
    """What comes back for these bytes: status and body; 0 if the connection is only closed."""
    with closing(socket.create_connection(("127.0.0.1", server.port), WAIT_S)) as connection:
        connection.sendall(request.format(token=server.token).encode("latin-1"))
        answer = http.client.HTTPResponse(connection)
        try:
            answer.begin()
        except (http.client.BadStatusLine, ConnectionError):
            return 0, ""
        return answer.status, answer.read().decode()


HEAD = "Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
WRONG = {
    "no host": ("GET /jobs HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n", 400),
    "two hosts": (f"GET /jobs HTTP/1.1\r\n{HEAD}Host: evil.example\r\n\r\n", 400),
    "host that begins like ours": ("GET /jobs HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n", 421),
    "host with a user": ("GET /jobs HTTP/1.1\r\nHost: 127.0.0.1:1@evil.example\r\n\r\n", 421),
    "token of nobody": ("GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer \r\n\r\n", 401),
    "token with odd letters": ("GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer \xe9\xff\r\n\r\n", 401),
    "other way to log in": ("GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Digest {token}\r\n\r\n", 401),
    "token in a query of a form": ("POST /do/upload?token={token} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 401),
    "unknown page": (f"GET /nothing HTTP/1.1\r\n{HEAD}\r\n", 404),
    "path out of the folder": (f"GET /static/../app.py HTTP/1.1\r\n{HEAD}\r\n", 404),
    "path out of the folder, hidden": (f"GET /static/%2e%2e/app.py HTTP/1.1\r\n{HEAD}\r\n", 404),
    "other method": (f"DELETE /jobs HTTP/1.1\r\n{HEAD}\r\n", 405),
    "form asked for": (f"GET /do/upload HTTP/1.1\r\n{HEAD}\r\n", 405),
    "first asks whether it may": (
        "OPTIONS /do/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://x.example\r\n\r\n",
        401,
    ),
    "length that is none": (f"POST /do/upload HTTP/1.1\r\n{HEAD}Content-Length: many\r\n\r\n", 400),
    "two lengths": (f"POST /do/upload HTTP/1.1\r\n{HEAD}Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400),
    "length of everything": (f"POST /do/upload HTTP/1.1\r\n{HEAD}Content-Length: 99999999999999999999\r\n\r\n", 413),
    "form without an end": (f"POST /do/upload HTTP/1.1\r\n{HEAD}Content-Type: multipart/form-data\r\n\r\n", 400),
    "no request": ("\x16\x03\x01\x02\x00\x01\x00", 400),
    "head without an end": (f"GET /jobs HTTP/1.1\r\n{HEAD}X: {'x' * 70_000}", 400),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_is_refused(server: Server, name: str) -> None:
    request, expected = WRONG[name]
    status, body = sent(server, request)
    assert status in (expected, 0) if name == "head without an end" else status == expected
    assert server.token not in body
    assert "Traceback" not in body
    assert server.get("/jobs.json").status == 200


def test_many_fields_and_long_fields_are_bounded(server: Server) -> None:
    many = {f"wagon{number}": "x" for number in range(30_000)}
    assert server.do("enable", **many).status in (400, 413)
    assert server.do("upload", text="x" * 3_000_000).status in (400, 413)
    assert server.do("upload", text="def broken(:").status == 400
    assert server.do("save-dataset", name="d", files="\n".join(["x"] * 20_000)).status == 400


def test_names_as_code_are_kept_as_names(server: Server) -> None:
    """What looks like a template or a format is written out as it came."""
    for text in ("{{ 7 * 7 }}", "{% include 'base.html' %}", "%(x)s {0.__class__}"):
        answer = server.do(
            "save-dataset", name="named", files="/data/a.root", description=text, revision=revision(server)
        )
        assert answer.status == 200, answer.text
        page = server.get(answer.json()["page"])
        assert text.replace("'", "&#39;") in page.text


def revision(server: Server) -> str:
    datasets = server.get("/grid.json").json()["datasets"]
    if not datasets:
        return "0"
    address = f"{datasets[0]['owner']}/{datasets[0]['name']}"
    return str(server.get(f"/datasets/{address}.json").json()["revision"])
