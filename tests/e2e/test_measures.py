"""Measures of a control room, switched on while a train runs: it reads elsewhere, and results are the same."""

from __future__ import annotations

import gzip
import http.server
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from tests.branchline_command import run_branchline
from tests.clusters.slurm import Slurm
from tests.e2e.conftest import Branchline, Running
from tests.e2e.control_room import TOKEN, Room
from tests.sampled import long_but

from branchline.trains.submitted.handle import SubmittedTrain

# More than one stream takes, so that many sub-jobs are still to be drawn when the measure comes.
FILES = 40
# Goes on with a file only when somebody says so. A result depends on files that the source names in one piece.
STEPPING = """
import time
from pathlib import Path

class Steps:
    branches = ["px"]

    def process(self, events):
        name = Path(events.metadata["filename"]).name
        Path({folder!r}, name + ".mark").touch()
        while not any(Path({folder!r}, one + ".txt").exists() for one in ("go", "go-" + name)) and "f00" not in name:
            time.sleep(0.02)
        return {{"events": len(events), "sum": float(abs(events.px).to_numpy().sum())}}
"""


class Element(http.server.ThreadingHTTPServer):
    """A storage element: serves a folder over HTTP, notes which files were asked for, and fails sometimes."""

    # Their connections are closed before the test ends.
    daemon_threads = False

    def __init__(self, folder: Path, *, fails_every: int = 0) -> None:
        self.folder, self.fails_every = folder, fails_every
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    server: Element

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        name = Path(self.path).name
        self.server.asked.append(name)
        if self.server.fails_every and len(self.server.asked) % self.server.fails_every == 0:
            self._send(503, b"", {}, with_body=True)
            return
        content = (self.server.folder / name).read_bytes()
        wanted = self.headers.get("Range")
        if wanted is None:
            self._send(200, content, {}, with_body=with_body)
            return
        first, last = wanted.removeprefix("bytes=").split(",")[0].split("-")
        begin = int(first) if first else len(content) - int(last)
        end = min(len(content), int(last) + 1) if first and last else len(content)
        ranges = {"Content-Range": f"bytes {begin}-{end - 1}/{len(content)}"}
        self._send(206, content[begin:end], ranges, with_body=with_body)

    def _send(self, status: int, body: bytes, headers: dict[str, str], *, with_body: bool) -> None:
        self.send_response(status)
        self.close_connection = True
        for name, value in {
            "Connection": "close",
            "Accept-Ranges": "bytes",
            "Content-Length": str(len(body)),
            **headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)


@contextmanager
def element(folder: Path, *, fails_every: int = 0) -> Iterator[Element]:
    server = Element(folder, fails_every=fails_every)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("BRANCHLINE_REPORT_TOKEN", TOKEN)
    # The failing element is at the worker's own site: without a measure it is read first.
    monkeypatch.setenv("DIRACSITE", "here")


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    farm = Slurm()
    try:
        farm.start()
        for name, value in farm.environment.items():
            monkeypatch.setenv(name, value)
        yield farm
    finally:
        farm.close()


@pytest.fixture
def folder(originals: Path, tmp_path: Path) -> Path:
    """Many files, which are links to few."""
    folder = tmp_path / "files"
    folder.mkdir()
    files = sorted(originals.iterdir())
    for number in range(FILES):
        os.link(files[number % len(files)], folder / f"f{number:02}.root")
    return folder


@pytest.fixture
def failing(folder: Path) -> Iterator[Element]:
    with element(folder, fails_every=9) as server:
        yield server


@pytest.fixture
def other(folder: Path) -> Iterator[Element]:
    with element(folder) as server:
        yield server


def fileset(tmp_path: Path, failing: Element, other: Element, files: int = FILES) -> Path:
    """Two replicas of each file but the last, which is at the failing element alone."""
    names = [f"f{number:02}.root" for number in range(files)]
    replicas = [[f"{one.url}/{name}" for one in (failing, other)] for name in names[:-1]]
    listed = [*replicas, f"{failing.url}/{names[-1]}"]
    path = tmp_path / "fileset.json"
    path.write_text(json.dumps({"data": {"files": listed, "sites": {failing.url: "here", other.url: "there"}}}))
    return path


def stepping(tmp_path: Path) -> Path:
    path = tmp_path / "steps.py"
    path.write_text(STEPPING.format(folder=str(tmp_path)))
    return path


def do(room: Room, action: str, **fields: object) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json"}
    request = Request(f"{room.url}/do/{action}", urlencode(fields).encode(), headers)
    with urlopen(request, timeout=280) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def shown(room: Room, path: str) -> Any:
    request = Request(f"{room.url}{path}.json", headers={"Authorization": f"Bearer {TOKEN}"})
    with urlopen(request, timeout=280) as answer:
        return json.load(answer)


def step(running: Running, room: Room, tmp_path: Path, number: int) -> None:
    """Lets one file go, and waits until the server has answered a report of it."""
    running.wait_for(number + 1, "*.mark", tmp_path)
    before = len(room.received())
    (tmp_path / f"go-f{number:02}.root.txt").touch()
    room.wait_for(lambda batches: len(batches) > before)


def results(out: Path) -> bytes:
    return (out / "results" / "Steps.json").read_bytes()


def test_a_measure_in_mid_train_moves_later_sub_jobs_to_the_other_replica(
    branchline: Branchline,
    start_branchline: Callable[..., Running],
    failing: Element,
    other: Element,
    tmp_path: Path,
    room: Room,
) -> None:
    data, wagons = fileset(tmp_path, failing, other), stepping(tmp_path)
    run = ("run", wagons, data, "-j", 1, "-o")
    running = start_branchline(*run, "out", "--report-to", room.url)
    running.wait_for(2, "*.mark", tmp_path)
    assert failing.asked
    page = do(room, "switch-on-measure", kind="avoid-element", storage_element=failing.url, hours=1, why="it fails")
    number = int(page["page"].rpartition("/")[2])
    # The second report is sent after the answer to the first one was read.
    for file in (1, 2, 3):
        step(running, room, tmp_path, file)
    before = len(failing.asked)
    (tmp_path / "go.txt").touch()
    ended = running.ended()
    assert ended.returncode == 0, ended.stderr
    later = set(failing.asked[before:])
    last = f"f{FILES - 1:02}.root"
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    [measure] = job["measures"]
    assert (measure["number"], measure["kind"], measure["without_other"]) == (number, "avoid-element", 1)
    # What one stream had drawn before is read as it was to be.
    assert FILES - 20 <= measure["files"] < FILES - 1
    # The last file has no other replica.
    assert last in later
    moved = {f"f{one:02}.root" for one in range(FILES - 10, FILES - 1)}
    assert not moved & later
    assert moved <= set(other.asked)
    assert {one["replica"] for one in job["files"] if Path(one["path"]).name in moved} == {
        f"{other.url}/{name}" for name in moved
    }
    assert f"Measure {number}, avoid {failing.url}" in (tmp_path / "out" / "report.html").read_text()
    effect = shown(room, f"/measures/{number}")
    assert effect["state"] == "in force"
    assert effect["effect"]["since"]["others"]["files"] >= len(moved)

    do(room, "undo-measure", number=number)
    assert shown(room, f"/measures/{number}")["state"] == "undone"
    again = branchline(*run, "again", "--report-to", room.url)
    assert again.returncode == 0, again.stderr
    assert json.loads((tmp_path / "again" / "job.json").read_text())["measures"] == []
    assert results(tmp_path / "again") == results(tmp_path / "out")
    changes = [one for one in shown(room, "/changes")["changes"] if one["subject"] == "measure"]
    assert [one["action"] for one in changes] == ["changed", "created"]


@pytest.mark.long
@pytest.mark.parametrize("word", long_but(["obey", "refuse"], ["obey"]))
def test_files_are_staged_where_a_measure_asks_for_it_unless_the_job_refuses(
    start_branchline: Callable[..., Running],
    failing: Element,
    other: Element,
    tmp_path: Path,
    room: Room,
    word: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BRANCHLINE_MEASURES", word)
    do(room, "switch-on-measure", kind="stage-element", storage_element=failing.url)
    data, wagons = fileset(tmp_path, failing, other, 30), stepping(tmp_path)
    running = start_branchline("run", wagons, data, "-j", 1, "-o", "out", "--report-to", room.url)
    for file in (1, 2):
        step(running, room, tmp_path, file)
    (tmp_path / "go.txt").touch()
    ended = running.ended()
    assert ended.returncode == 0, ended.stderr
    [measure] = json.loads((tmp_path / "out" / "job.json").read_text())["measures"]
    if word == "obey":
        assert measure["files"] > 0
        assert measure["refused"] == ""
    else:
        assert (measure["files"], measure["refused"]) == (0, "BRANCHLINE_MEASURES is refuse")


@pytest.mark.long
def test_each_task_of_a_submitted_train_hears_of_measures_by_itself(
    slurm: Slurm, failing: Element, other: Element, tmp_path: Path, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    monkeypatch.delenv("BRANCHLINE_REPORT_TOKEN")
    monkeypatch.setenv("BRANCHLINE_REPORT_TOKEN_FILE", str(token))
    do(room, "switch-on-measure", kind="avoid-element", storage_element=failing.url)
    run = ["run", stepping(tmp_path), fileset(tmp_path, failing, other), "-o", "out", "--on", "slurm", "--tasks", "1"]
    submitted = run_branchline(tmp_path, [*(str(one) for one in run), "--report-to", room.url])
    assert submitted.returncode == 0, submitted.stderr
    # The first report of a task comes before it reads, and its second one after the answer to the first one.
    room.wait_for(lambda batches: sum(one.source not in ("submission", "job") for one in batches) >= 2)
    (tmp_path / "go.txt").touch()
    status = SubmittedTrain(tmp_path / "out").wait(200)
    assert status.ended == "finished", status
    [measure] = json.loads((tmp_path / "out" / "job.json").read_text())["measures"]
    assert measure["files"] > 0
    assert measure["first"] <= measure["last"]


def test_what_is_wrong_is_refused_with_a_reason(room: Room) -> None:
    wrong = [
        {"kind": "reboot"},
        {"kind": "avoid-element"},
        {"kind": "avoid-element", "storage_element": "x" * 1000},
        {"kind": "avoid-element", "storage_element": "a\nb"},
        {"kind": "avoid-element", "storage_element": "http://a", "hours": 10_000},
        {"kind": "send-again"},
        {"kind": "send-again", "job": "'; DROP TABLE jobs"},
    ]
    for fields in wrong:
        with pytest.raises(HTTPError) as refused:
            do(room, "switch-on-measure", **fields)
        refused.value.close()
        assert refused.value.code == 400, fields
    assert shown(room, "/measures")["measures"] == []


HOSTILE = [
    b'{"taken": true, "measures": 7}',
    b'{"taken": true, "measures": {"job": "JOB", "in_force": "all", "measures_version": 1}}',
    b'{"taken": true, "measures": {"job": "JOB", "in_force": [{"number": 1}], "measures_version": 1}}',
    b'{"taken": true, "measures": {"job": "JOB", "in_force": [{"number": 1, "kind": "delete-everything",'
    b' "storage_element": "/", "seconds_left": 9}], "measures_version": 1}}',
    b'{"taken": true, "measures": {"job": "JOB", "in_force": [' + b"1," * 20_000 + b'1], "measures_version": 9}}',
    b'{"taken": true, "x": "' + b"y" * 10_000_000 + b'"}',
    b"[" * 60_000,
]


@pytest.mark.parametrize("answer", long_but(HOSTILE, [HOSTILE[3], HOSTILE[5]]), ids=range(len(HOSTILE)))
def test_a_hostile_answer_does_a_job_no_harm(
    branchline: Branchline, plain_wagons: Path, data: Path, tmp_path: Path, answer: bytes
) -> None:
    class Hostile(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_POST(self) -> None:
            report = json.loads(gzip.decompress(self.rfile.read(int(self.headers["Content-Length"]))))
            body = answer.replace(b"JOB", report["identity"]["job"].encode())
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                self.close_connection = True

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile) as server:
        server.daemon_threads = False
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        ended = branchline("run", plain_wagons, data, "-o", "out", "-j", 1, "--report-to", address)
        server.shutdown()
        thread.join()
    assert ended.returncode == 0, ended.stderr
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    assert (job["status"], job["measures"]) == ("finished", [])
