"""Metrics as OpenTelemetry takes them: by its own messages, at a collector that answers, refuses, or is silent."""

from __future__ import annotations

import socket
import threading
import urllib.error
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.peers.peers import imported
from tests.unit.control.batches import batch, identity, last, read
from tests.unit.records.sending.taking_server import until

from branchline.control.metrics import troubles_of
from branchline.control.room import ControlRoom
from branchline.control.web.otlp import OtlpExporter, Resource, endpoint_of, headers_in
from branchline.errors import OptionError

HERE = "root://se.example"
RESOURCE = Resource({"service.name": "branchline", "host.name": "node1"})


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ControlRoom]:
    room = ControlRoom(tmp_path / "room")
    who = identity()
    room.take(batch(who, 0, read(f"{HERE}//f", HERE, 5_000_000_000_000, 2.5)))
    room.take(last(who, 1))
    yield room
    room.close()


class Collector(HTTPServer):
    """One that keeps what is sent to it. To the first requests it answers the bytes of ``odd``, and closes."""

    def __init__(self, status: int, odd: Sequence[bytes] = ()) -> None:
        self.status = status
        self.odd = list(odd)
        self.taken: list[tuple[str, dict[str, str], bytes]] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.odd:
            self.wfile.write(self.server.odd.pop(0))
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.taken.append((self.path, headers, body))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def collecting(status: int = 200, odd: Sequence[bytes] = ()) -> Iterator[Collector]:
    with Collector(status, odd) as collector:
        thread = threading.Thread(target=collector.serve_forever, daemon=True)
        thread.start()
        try:
            yield collector
        finally:
            collector.shutdown()
            thread.join()


def test_the_messages_of_opentelemetry_read_what_is_sent(room: ControlRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: Any = imported("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
    json_format: Any = imported("google.protobuf.json_format")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s%20ecret")
    with collecting() as collector:
        OtlpExporter(room, collector.url, RESOURCE).send()
    [(path, headers, body)] = collector.taken
    assert (path, headers["content-type"], headers["api-key"]) == ("/v1/metrics", "application/json", "s ecret")
    # Nothing that these messages do not know.
    request = json_format.Parse(body, messages.ExportMetricsServiceRequest())
    [resource] = request.resource_metrics
    assert {one.key: one.value.string_value for one in resource.resource.attributes} == RESOURCE.attributes
    metrics = {one.name: one for one in resource.scope_metrics[0].metrics}
    read_bytes = metrics["branchline_read_bytes"]
    [point] = read_bytes.sum.data_points
    assert (point.as_int, read_bytes.unit) == (5_000_000_000_000, "By")
    assert (read_bytes.sum.is_monotonic, read_bytes.sum.aggregation_temporality) == (True, 2)
    assert point.start_time_unix_nano <= point.time_unix_nano
    assert {one.key: one.value.string_value for one in point.attributes}["storage_element"] == HERE
    assert metrics["branchline_read_worker_seconds"].sum.data_points[0].as_double == 2.5
    states = {one.attributes[0].value.string_value: one.as_int for one in metrics["branchline_jobs"].gauge.data_points}
    assert states == {"finished": 1, "running": 0, "silent": 0}


def test_a_collector_that_refuses_is_told_once(room: ControlRoom, capsys: pytest.CaptureFixture[str]) -> None:
    with collecting(503) as collector:
        exporter = OtlpExporter(room, collector.url, RESOURCE)
        for _ in range(2):
            with pytest.raises(urllib.error.HTTPError) as raised:
                exporter.send()
            exporter._say(raised.value)
    assert "503" in exporter.trouble
    assert capsys.readouterr().err.count("metrics are not taken at") == 1


def test_one_that_is_silent_is_not_waited_for(room: ControlRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.control.web.otlp.OTLP_WAIT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        exporter = OtlpExporter(room, f"http://127.0.0.1:{silent.getsockname()[1]}", RESOURCE)
        with pytest.raises(OSError, match="timed out"):
            exporter.send()


def test_it_sends_in_the_background(room: ControlRoom) -> None:
    with collecting() as collector:
        exporter = OtlpExporter(room, collector.url, RESOURCE)
        exporter.start()
        until(lambda: collector.taken)
        exporter.stop()
        assert collector.taken
    assert exporter.trouble == ""


def test_a_port_that_does_not_speak_http_is_said_and_does_not_end_the_metrics(
    room: ControlRoom, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Settings and a good-bye of HTTP/2, as of a port for gRPC; then more than any header may have.
    grpc = bytes.fromhex("000000040000000000 000008070000000000 00000000 00000001")
    odd = [grpc, b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200]
    monkeypatch.setattr("branchline.control.web.otlp.OTLP_INTERVAL_S", 0.05)
    with collecting(odd=odd) as collector:
        exporter = OtlpExporter(room, collector.url, RESOURCE)
        exporter.start()
        try:
            until(lambda: collector.taken)
        finally:
            exporter.stop()
        exporter._thread.join()
    assert exporter.trouble == ""
    said = capsys.readouterr().err
    assert "does not speak HTTP (BadStatusLine); it does at port 4318" in said
    assert "does not speak HTTP (HTTPException)" in said


def test_metrics_that_are_not_taken_are_a_trouble_of_the_room(
    room: ControlRoom, capsys: pytest.CaptureFixture[str]
) -> None:
    with collecting(503) as collector:
        exporter = OtlpExporter(room, collector.url, RESOURCE)
        exporter.start()
        until(lambda: exporter.trouble)
        exporter.stop()
    [why] = [one.why for one in troubles_of(room) if one.part == "metrics"]
    assert "503" in why
    assert why in capsys.readouterr().err


def test_addresses_and_headers_that_cannot_be_are_refused() -> None:
    assert endpoint_of("http://c:4318/") == "http://c:4318/v1/metrics"
    assert endpoint_of("https://c/otlp/v1/metrics") == "https://c/otlp/v1/metrics"
    for wrong in ("c:4318", "ftp://c", "http://", "http://me:secret@c", "http://c?key=1", "file:///etc/passwd"):
        with pytest.raises(OptionError, match="no address of a collector"):
            endpoint_of(wrong)
    assert headers_in("") == {}
    assert headers_in("a=1, b-c=x%2Cy") == {"a": "1", "b-c": "x,y"}
    for wrong in ("a", "a b=1", "\n=1", "a=x%0Ab", "a=%C3%A4"):
        with pytest.raises(OptionError):
            headers_in(wrong)
