"""The server: reports come in, pages and their JSON go out, nobody else gets anything."""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clusters.event_files import write_events
from tests.patience import HANG_S
from tests.unit.control.batches import batch, identity, last, read
from tests.unit.control.web.server import Server

from branchline.control.web.app import ACTIONS, PAGES

#: Moments are those of an entry, which has to be named.
PLAIN_PAGES = [path for path in PAGES if "{" not in path and path != "/moments"]
HERE, FAR = "root://se.example", "root://far.org"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("room")) as server:
        yield server


def test_a_server_that_does_not_begin_is_ended_and_says_why(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    script = f"echo $$ >{started}; echo no disk >&2; echo unwell; exec sleep 600"
    with pytest.raises(AssertionError, match="unwell") as raised:
        Server(tmp_path / "room", wrapped=lambda _words: ["sh", "-c", script])
    assert raised.value.__notes__ == ["no disk\n"]
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


def test_a_reported_job_is_on_all_pages_and_in_their_json(server: Server) -> None:
    who = identity("spectra <b>bold</b>")
    assert server.report(batch(who, 0, read(f"{HERE}//a", HERE, 2000, 1.0))).json() == {"taken": True}
    assert server.report(batch(who, 0, read(f"{HERE}//a", HERE, 2000, 1.0))).json() == {"taken": False}
    assert server.report(batch(who, 1, read(f"{FAR}//b", FAR, 1000, 5.0), after_s=20.0)).json() == {"taken": True}
    assert server.report(last(who, 2)).json() == {"taken": True}
    listed = server.get("/jobs.json?user=ada").json()
    [row] = [one for one in listed["rows"] if one["identity"]["job"] == who.job]
    assert (row["status"], row["events"]) == ("finished", 400)
    page = server.get(f"/jobs/{who.job}")
    assert "spectra &lt;b&gt;bold&lt;/b&gt;" in page.text
    assert "<b>bold" not in page.text
    assert server.get(f"/jobs/{who.job}", Accept="application/json").json()["record"]["wagons"][0]["name"] == "Spectrum"
    table = server.get("/sites.json?period=all").json()["table"]
    assert set(table["elements"]) == {HERE, FAR}
    assert {one["site"] for one in table["rows"]} == {"example"}
    for distance, jobs in (("local", 1), ("remote", 1), ("", 1)):
        assert server.get(f"/jobs.json?site=example&distance={distance}").json()["total"] == jobs
    assert server.get(f"/jobs.json?element={HERE}&distance=remote").json()["total"] == 0
    assert server.get("/jobs.json?distance=near").status == 400
    hours = server.get("/elements.json?period=all").json()["hours"]
    assert {one["element"] for one in hours} == {HERE, FAR}
    costs = server.get("/costs.json?period=all").json()
    assert costs["users"][0]["name"] == "ada"
    for path in PLAIN_PAGES:
        answer = server.get(f"{path}?period=all")
        assert answer.status == 200, path
        assert answer.headers["content-type"] == "text/html; charset=utf-8"


def test_a_job_has_its_files_and_its_report(server: Server) -> None:
    who = identity("files <i>i</i>")
    reads = [read(f"{HERE}//<script>{number}", HERE, 2000, 1.0) for number in range(3)]
    server.report(batch(who, 0, *reads))
    assert server.get(f"/jobs/{who.job}/report").status == 404
    server.report(last(who, 1))
    listed = server.get(f"/jobs/{who.job}/files.json?first=1&count=1").json()["files"]
    assert (listed["total"], [one["path"] for one in listed["files"]]) == (3, [f"{HERE}//<script>1"])
    page = server.get(f"/jobs/{who.job}/files?first=1&count=1").text
    assert "3 files, 2 to 2 shown" in page
    assert "&lt;script&gt;1" in page
    report = server.get(f"/jobs/{who.job}/report")
    assert "<script" not in report.text
    assert "Spectrum" in report.text
    assert "&lt;script&gt;1" in report.text
    # It may hold what others wrote.
    assert report.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    for path in ("files", "files.json", "report"):
        assert server.get(f"/jobs/{'0' * 32}/{path}").status == 404


def test_what_is_no_report_is_refused_with_a_reason(server: Server) -> None:
    bearer = {"Authorization": f"Bearer {server.token}"}

    def post(body: bytes, **headers: str) -> tuple[int, str]:
        answer = server.ask("/api/v1/reports", "POST", body, {**bearer, **headers})
        return answer.status, answer.text

    assert post(b"{") == (400, json.dumps({"error": "Expecting property name enclosed in double quotes: "
                                                    "line 1 column 2 (char 1)"}).replace('": "', '":"'))  # fmt: skip
    assert post(b"[]")[0] == 400
    assert post(b"[" * 1_000_000)[0] == 400
    assert post(b'{"batch_version": 99}')[0] == 400
    assert post(b"x", **{"Content-Encoding": "gzip"})[0] == 400
    assert post(gzip.compress(b"{}")[:-4], **{"Content-Encoding": "gzip"})[0] == 400
    assert post(gzip.compress(b" " * (65 * 2**20)), **{"Content-Encoding": "gzip"})[0] == 413
    assert post(b"x", **{"Content-Encoding": "br"})[0] == 415
    assert post(b"x" * (8 * 2**20 + 1))[0] == 413
    assert server.get("/jobs").status == 200


def routes() -> list[tuple[str, str]]:
    """Every address of the server, with something in the place of each name."""
    filled = [path.replace("{job}", "0" * 32).replace("{number}", "1") for path in PAGES]
    filled = [path.replace("{owner}", "ada").replace("{name}", "x") for path in filled]
    found = [
        ("GET", path)
        for path in [
            "/",
            "/events",
            "/metrics",
            "/metrics/alerts.yml",
            "/trials/1/profile",
            *filled,
            *(f"{one}.json" for one in filled),
            "/static/live.js",
        ]
    ]
    return found + [("POST", path) for path in [*ACTIONS, "/api/v1/reports"]]


@pytest.mark.parametrize(("method", "path"), routes())
def test_nobody_without_the_token_gets_anything(server: Server, method: str, path: str) -> None:
    tries = [
        {},
        {"Authorization": "Bearer wrong"},
        {"Cookie": f"branchline-{server.port}=wrong"},
        {"Authorization": "Basic eDp5"},
    ]
    for headers in tries:
        answer = server.ask(path, method, b"" if method == "POST" else None, headers)
        assert answer.status == 401, headers
        assert server.token not in answer.text
    assert server.ask(f"{path}?token=wrong", method).status == 401
    good = {"Authorization": f"Bearer {server.token}", "Host": "evil.example"}
    assert server.ask(path, method, None, good).status == 421


@pytest.mark.parametrize("path", [*ACTIONS, "/api/v1/reports"])
def test_pages_of_other_sites_can_do_nothing(server: Server, path: str) -> None:
    cookie = {"Cookie": f"branchline-{server.port}={server.token}"}
    others = [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://evil.example"}, {}]
    for headers in others:
        answer = server.ask(path, "POST", b"", {**cookie, **headers})
        assert answer.status == 403, headers
    assert server.ask(path, "POST", b"", {**cookie, "Sec-Fetch-Site": "same-origin"}).status != 403


def test_the_token_becomes_a_cookie_and_leaves_the_address(server: Server) -> None:
    answer = server.ask(f"/jobs?token={server.token}&user=ada")
    assert (answer.status, answer.headers["location"]) == (303, "/jobs?user=ada")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    own = cookie.partition(";")[0]
    # A second control room on another port has another one, and does not put this one away.
    assert own == f"branchline-{server.port}={server.token}"
    assert server.ask("/jobs", headers={"Cookie": f"branchline-1=other; {own}"}).status == 200
    assert server.ask(f"//evil.example/?token={server.token}").headers["location"] == "/evil.example/"


def test_answers_have_headers_that_allow_nothing_but_this_server(server: Server) -> None:
    for answer in (server.get("/jobs"), server.get("/nothing"), server.ask("/jobs")):
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers


NASTY = [
    "<script>alert(1)</script>",
    "'; DROP TABLE jobs; --",
    "../../etc/passwd",
    "$(touch x)",
    "%00",
    "\u202e",
    "a" * 9000,
]


@pytest.mark.parametrize("text", NASTY)
def test_nasty_texts_are_only_texts(server: Server, text: str) -> None:
    from urllib.parse import quote

    part = quote(text, safe="")
    for path in (f"/jobs/{part}", f"/wagons/{part}/{part}", f"/datasets/{part}/x", f"/trials/{part}"):
        assert server.get(path, Accept="text/html").status in (404, 400), path
    for path in (f"/jobs?search={part}", f"/jobs?order={part}", f"/sites?period={part}", f"/changes?address={part}"):
        answer = server.get(path, Accept="text/html")
        assert answer.status in (200, 400)
        assert "<script>alert" not in answer.text
    for action in ("save-dataset", "add-variant", "enable", "remove-wagon", "upload"):
        fields = {"name": text, "files": text, "address": text, "wagon": text, "dataset": text, "text": text}
        answer = server.do(action, **fields)
        assert answer.status in (400, 404), (action, answer.text)
    assert server.get("/jobs.json").json()["total"] >= 0


def run_a_train(server: Server, owner: str) -> None:
    """It runs, reports, and its files come as from a stranger; nothing else of its folder comes."""
    [wagon] = server.get(f"/new-train.json?dataset={owner}/events").json()["wagons"]
    assert wagon["may_ride"]
    page = server.do("order-train", name="first", dataset=f"{owner}/events", wagon=f"{owner}/total", workers="1").json()
    end = time.monotonic() + HANG_S
    while (shown := server.get(f"{page['page']}.json").json())["train"]["state"] in ("starting", "running"):
        assert time.monotonic() < end
        time.sleep(0.2)
    assert shown["train"]["state"] == "finished", shown["train"]["why"]
    assert shown["record"]["events"] == 100
    assert server.get(shown["job"] and f"/jobs/{shown['job']}.json").json()["row"]["status"] == "finished"
    assert server.get(page["page"]).status == 200
    for name in shown["files"]:
        answer = server.get(f"{page['page']}/files/{name}")
        assert answer.status == 200, name
        assert answer.headers["content-security-policy"].startswith("sandbox")
    for name in ("../log.txt", "..%2flog.txt", "../wagons.py", "%2e%2e/wagons.py", "ledger.sqlite", "/etc/passwd", ""):
        assert server.get(f"{page['page']}/files/{name}").status == 404, name
    again = server.do("run-again", number=str(shown["train"]["number"]))
    assert (again.status, "has no missing sub-jobs" in again.text) == (409, True)


def test_a_wagon_and_a_dataset_are_registered_enabled_tried_and_compared(server: Server, tmp_path: Path) -> None:
    write_events(tmp_path, 1, 100)
    source = (
        "class Total:\n    branches = ['px']\n    def __init__(self, scale: float = 1.0):\n        self.scale = scale\n"
        "    def process(self, events):\n        return {'n': float(len(events)) * self.scale}\n"
    )
    page = server.do("upload", text=source, name="total", group="muons").json()["page"]
    owner = page.split("/")[2]
    assert page == f"/wagons/{owner}/total"
    assert server.do("save-dataset", name="events", files=str(tmp_path / "*.root")).status == 200
    enabled = server.do("enable", wagon=f"{owner}/total", dataset=f"{owner}/events", to="on")
    assert enabled.status == 200, enabled.text
    end = time.monotonic() + HANG_S
    while (cell := server.get("/grid.json").json()["cells"][0][0])["state"] in ("", "queued", "running"):
        assert time.monotonic() < end
        time.sleep(0.1)
    trial = server.get(f"/trials/{cell['trial']}.json").json()
    assert cell["state"] == "done", trial["reasons"]
    assert trial["trial"]["outcome"]["events"] == 100
    assert server.get(f"/trials/{cell['trial']}").status == 200
    run_a_train(server, owner)
    whole = server.get(f"/wagons/{owner}/total.json").json()["wagon"]
    saved = server.do("save-wagon", address=f"{owner}/total", revision=str(whole["revision"]), **{"value.scale": "2"})
    assert saved.status == 200, saved.text
    late = server.do("save-wagon", address=f"{owner}/total", revision=str(whole["revision"]), **{"value.scale": "3"})
    assert (late.status, "another user" in late.text) == (409, True)
    wrong = server.do("save-wagon", address=f"{owner}/total", revision="0", **{"value.scale": "two"})
    assert (wrong.status, "scale cannot be 'two'" in wrong.text) == (400, True)
    assert server.do("add-variant", address=f"{owner}/total", name="tight").status == 200
    compared = server.get(f"/compare.json?first={owner}/total&second={owner}/tight").json()
    assert {one["name"] for one in compared["fields"]} >= {"name", "variant_of"}
    changes = server.get("/changes.json").json()["changes"]
    assert [one["action"] for one in changes][:2] == ["created", "changed"]


def test_it_ends_at_once_while_pages_are_open(tmp_path: Path) -> None:
    for sent in (signal.SIGTERM, signal.SIGINT):
        server = Server(tmp_path)
        streams = []
        for _ in range(5):
            stream = socket.create_connection(("127.0.0.1", server.port))
            bearer = f"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.token}\r\n\r\n"
            stream.sendall(bearer.encode())
            assert stream.recv(100).startswith(b"HTTP/1.1 200")
            streams.append(stream)
        ended = server.end(sent)
        for stream in streams:
            stream.close()
        assert ended == (0, "")


def test_a_second_server_of_the_directory_is_refused(tmp_path: Path) -> None:
    with (
        Server(tmp_path) as server,
        pytest.raises(AssertionError, match=f"already served by process {server.process.pid}"),
    ):
        Server(tmp_path)


def test_what_was_reported_is_there_after_a_kill_and_the_token_too(tmp_path: Path) -> None:
    who = identity()
    with Server(tmp_path) as server:
        assert server.report(batch(who, 0)).json() == {"taken": True}
        server.end(signal.SIGKILL)
    with Server(tmp_path) as again:
        assert again.token == server.token
        assert again.report(batch(who, 0)).json() == {"taken": False}
        assert again.get(f"/jobs/{who.job}.json").json()["row"]["done"] == 1
