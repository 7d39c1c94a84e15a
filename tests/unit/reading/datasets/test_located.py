"""The machines of files of HDFS, as servers tell them that may say anything; and how lists name them."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from branchline.errors import DatasetError
from branchline.reading.bridge.bridged_file import BridgeError
from branchline.reading.bridge.hdfs_files import HeldBytes, locate_by_hdfs
from branchline.reading.datasets.dataset import Dataset

WAIT_S = 20.0


@contextmanager
def answering(status: int, content: bytes) -> Iterator[list[str]]:
    """A server that says this to every request; gives the paths that were asked for, behind its address."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asked.append(f"127.0.0.1:{server.server_port}")
        try:
            yield asked
        finally:
            server.shutdown()


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("HADOOP_USER_NAME", "ada&op=DELETE")
    return tmp_path


def write_settings(folder: Path, web_address: str) -> None:
    one = "<property><name>{}</name><value>{}</value></property>"
    lines = [one.format("fs.defaultFS", "hdfs://nn:8020"), one.format("dfs.namenode.http-address", web_address)]
    (folder / "core-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")


def blocks(*held: tuple[int, list[str]]) -> bytes:
    found = [{"length": length, "hosts": hosts} for length, hosts in held]
    return json.dumps({"BlockLocations": {"BlockLocation": found}}).encode()


def test_machines_are_named_by_how_much_they_hold(settings: Path) -> None:
    with answering(200, blocks((100, ["n2", "n1"]), (100, ["n3", "n1"]), (5, ["n3"]))) as asked:
        write_settings(settings, asked[0])
        found = locate_by_hdfs("hdfs://nn:8020/a b%20?.root", WAIT_S)
    assert found == [HeldBytes("n1", 200), HeldBytes("n3", 105), HeldBytes("n2", 100)]
    assert asked[1:] == ["/webhdfs/v1/a%20b%2520%3F.root?op=GETFILEBLOCKLOCATIONS&user.name=ada%26op%3DDELETE"]


@pytest.mark.parametrize(
    ("status", "content", "kind"),
    [
        (200, b"<html>", "failed"),
        (200, b'{"BlockLocations": 3}', "failed"),
        (200, b'{"BlockLocations": {"BlockLocation": [{"hosts": 3, "length": "x"}]}}', "failed"),
        (500, b'["nothing"]', "failed"),
        (401, b"<html>", "permission"),
        (400, b'{"RemoteException": {"exception": "IllegalArgumentException", "message": "no op\\n at"}}', "refused"),
        (403, b'{"RemoteException": {"exception": "StandbyException", "message": "standby"}}', "unreachable"),
    ],
)
def test_what_is_no_list_of_blocks_is_refused(settings: Path, status: int, content: bytes, kind: str) -> None:
    with answering(status, content) as asked:
        write_settings(settings, asked[0])
        with pytest.raises(BridgeError) as raised:
            locate_by_hdfs("hdfs://nn:8020/a.root", WAIT_S)
    assert raised.value.kind == kind
    assert "\n" not in str(raised.value)


def test_a_list_without_end_is_not_read(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.reading.bridge.hdfs_files.HDFS_BLOCKS_MAX_BYTES", 1000)
    with answering(200, b" " * 100_000) as asked:
        write_settings(settings, asked[0])
        with pytest.raises(BridgeError, match="exceeds 1000 bytes"):
            locate_by_hdfs("hdfs://nn:8020/a.root", WAIT_S)


def test_a_server_that_is_silent_is_not_waited_for(settings: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        write_settings(settings, f"127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(BridgeError) as raised:
            locate_by_hdfs("hdfs://nn:8020/a.root", 0.3)
    assert raised.value.kind == "timeout"


def test_without_settings_the_usual_port_is_asked(settings: Path) -> None:
    # Servers of other tests take any port, at another address of this machine.
    with pytest.raises(BridgeError, match=r"does not respond at 127\.9\.8\.7:9870"):
        locate_by_hdfs("hdfs://127.9.8.7:8020/a.root", WAIT_S)


def test_a_list_names_the_machines_of_files(tmp_path: Path) -> None:
    listed = {"files": ["hdfs://nn/a.root:t", "hdfs://nn/b.root"], "hosts": {"hdfs://nn/a.root": ["n1", "n2"]}}
    path = tmp_path / "files.json"
    path.write_text(json.dumps({"mine": listed}))
    assert [(one.tree, one.hosts) for one in Dataset.of(path)] == [("t", ("n1", "n2")), (None, ())]
    for wrong in (["n1"], {"hdfs://nn/a.root": "n1"}, {"hdfs://nn/a.root": [""]}):
        path.write_text(json.dumps({"mine": listed | {"hosts": wrong}}))
        with pytest.raises(DatasetError, match="hosts of files"):
            Dataset.of(path)
