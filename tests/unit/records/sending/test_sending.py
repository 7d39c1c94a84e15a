"""Sending over real sockets: what each answer means, and that every wait has an end."""

from __future__ import annotations

import http.server
import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.unit.records.sending.taking_server import Reply, TakingServer, closed_port

from branchline.records.sending import client
from branchline.records.sending.address import ReportTarget
from branchline.records.sending.client import Fate, Outcome, Sender
from branchline.records.sending.message import JobIdentity, ReportBatch, encoded


@pytest.fixture
def body(identity: JobIdentity) -> bytes:
    return encoded(ReportBatch(identity))


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "REPORT_ANSWER_S", 2.0)


@contextmanager
def listening(answer: bytes, pause_s: float = 0.0) -> Iterator[str]:
    """A server that answers every connection with these bytes, one after the other with a pause."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = threading.Event()

        def serve() -> None:
            while not ended.is_set():
                try:
                    found, _ = listener.accept()
                except OSError:
                    return
                with found:
                    try:
                        for number in range(len(answer)):
                            found.sendall(answer[number : number + 1])
                            ended.wait(pause_s)
                        ended.wait(60)
                    except OSError:
                        pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def sent(target: ReportTarget, body: bytes) -> Outcome:
    with closing(Sender(target)) as sender:
        return sender.send(body)


def test_a_report_is_taken_and_one_that_is_known_too(server: TakingServer, body: bytes) -> None:
    sender = Sender(ReportTarget(server.url + "/lab", "abc"))
    assert [sender.send(body).fate for _ in range(2)] == [Fate.TAKEN, Fate.TAKEN]
    sender.close()
    assert len(server.batches) == 1
    assert server.authorizations == ["Bearer abc"] * 2
    assert server.paths == ["/lab/api/v1/reports"] * 2


@pytest.mark.parametrize(
    ("status", "fate"),
    [
        (400, Fate.REFUSED),
        (413, Fate.REFUSED),
        (401, Fate.LATER),
        (403, Fate.LATER),
        (404, Fate.LATER),
        (418, Fate.LATER),
        (429, Fate.LATER),
        (503, Fate.LATER),
        (500, Fate.FAILED),
        (502, Fate.FAILED),
        (301, Fate.LATER),
        (307, Fate.LATER),
    ],
)
def test_what_an_answer_means(status: int, fate: Fate, body: bytes) -> None:
    with TakingServer(lambda *_: Reply(status)) as server:
        outcome = sent(ReportTarget(server.url), body)
    assert outcome.fate is fate
    assert outcome.why


def test_the_sentence_of_a_refusal_is_shown_as_text(body: bytes) -> None:
    sentence = json.dumps({"error": "\x1b[31mnot \x07a batch" + "x" * 1000}).encode()
    with TakingServer(lambda *_: Reply(400, sentence)) as server:
        why = sent(ReportTarget(server.url), body).why
    assert why.startswith("[31mnot a batchxxx")
    assert len(why) == 200


@pytest.mark.parametrize("answer", [b"<html>log in</html>", b"[]", b'{"taken": 1}', b"[" * 100_000])
def test_a_page_that_answers_for_the_server_takes_nothing(body: bytes, answer: bytes) -> None:
    with TakingServer(lambda *_: Reply(200, answer)) as server:
        assert sent(ReportTarget(server.url), body).fate is Fate.LATER


def test_a_redirect_is_not_followed_with_the_token(server: TakingServer, body: bytes) -> None:
    with TakingServer(lambda *_: Reply(307, headers={"Location": server.url + server.path})) as first:
        outcome = sent(ReportTarget(first.url, "secret"), body)
    assert outcome.fate is Fate.LATER
    assert server.requests == 0


def test_pauses_grow_are_bounded_and_are_those_that_the_server_asks_for(body: bytes) -> None:
    replies = [Reply(500)] * 6 + [
        Reply(429, headers={"Retry-After": "200"}),
        Reply(429, headers={"Retry-After": "99999"}),
        Reply(429, headers={"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}),
    ]
    with TakingServer(lambda number, _: replies[number] if number < len(replies) else None) as server:
        sender = Sender(ReportTarget(server.url))
        found = []
        for _ in range(len(replies) + 1):
            sender.send(body)
            found.append(sender.pause_s)
        sender.close()
    assert found == [5, 10, 20, 40, 60, 60, 200, 300, 60, 0]


def test_a_server_that_is_not_there_is_named_as_such(body: bytes) -> None:
    with closed_port() as (_, url):
        outcome = sent(ReportTarget(url), body)
    assert (outcome.fate, outcome.why) == (Fate.LATER, "Connection refused")


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1000, b"HTTP/1.1 200 OK\r\n\r\n" + b"z" * 1000]
)
def test_a_server_that_is_silent_or_drips_ends_at_the_deadline(answer: bytes, body: bytes) -> None:
    with listening(answer, pause_s=0.1) as url:
        begin_s = time.monotonic()
        outcome = sent(ReportTarget(url), body)
        assert time.monotonic() - begin_s < 30
    assert (outcome.fate, outcome.why) == (Fate.LATER, "it did not answer in time")


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH_9\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500])
def test_what_does_not_speak_http_is_an_outcome_too(answer: bytes, body: bytes) -> None:
    with listening(answer) as url:
        assert sent(ReportTarget(url), body).fate is Fate.LATER


def test_an_answer_without_end_is_not_read_to_its_end(body: bytes) -> None:
    with TakingServer(lambda *_: Reply(200, b" " * 3_000_000)) as server:
        assert sent(ReportTarget(server.url), body).fate is Fate.LATER


def test_a_connection_that_the_server_closed_is_opened_again(server: TakingServer, body: bytes) -> None:
    sender = Sender(ReportTarget(server.url))
    assert sender.send(body).fate is Fate.TAKEN
    server.close_connections()
    assert sender.send(body).fate is Fate.TAKEN
    assert server.connections == 2
    sender.close()


def test_a_report_goes_again_if_the_server_closes_the_connection_while_it_is_sent(body: bytes) -> None:
    with TakingServer(lambda number, _: Reply(is_closing=True) if number == 1 else None) as server:
        sender = Sender(ReportTarget(server.url))
        assert [sender.send(body).fate for _ in range(2)] == [Fate.TAKEN] * 2
        assert (server.requests, server.connections) == (3, 2)
        sender.close()


def test_several_reports_go_over_one_connection(server: TakingServer, body: bytes) -> None:
    with closing(Sender(ReportTarget(server.url))) as sender:
        assert [sender.send(body).fate for _ in range(3)] == [Fate.TAKEN] * 3
    assert server.connections == 1


def test_no_wait_is_longer_than_the_end_that_was_set(body: bytes) -> None:
    with TakingServer(lambda *_: Reply(200, wait_s=60)) as server:
        sender = Sender(ReportTarget(server.url))
        begin_s = time.monotonic()
        sender.end_by(begin_s + 0.2)
        assert sender.send(body).fate is Fate.LATER
        assert time.monotonic() - begin_s < 30
        sender.close()


def test_a_wait_ends_when_its_end_comes_nearer(body: bytes) -> None:
    with TakingServer(lambda *_: Reply(200, wait_s=60)) as server:
        sender = Sender(ReportTarget(server.url))
        begin_s = time.monotonic()
        threading.Timer(0.2, lambda: sender.end_by(time.monotonic())).start()
        assert sender.send(body).fate is Fate.LATER
        assert time.monotonic() - begin_s < 20
        sender.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of this machine that signs itself, and its key, in one file."""
    path = tmp_path_factory.mktemp("certificates") / "own.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    words += [
        "-keyout",
        str(path),
        "-out",
        f"{path}.cert",
        "-subj",
        "/CN=x",
        "-addext",
        "subjectAltName=IP:127.0.0.1,DNS:room.invalid",
    ]
    subprocess.run(words, check=True, capture_output=True)
    path.write_text(path.read_text() + Path(f"{path}.cert").read_text())
    return path


def test_a_certificate_is_checked(certificate: Path, body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with TakingServer(tls=tls) as server:
        outcome = sent(ReportTarget(server.url, "abc"), body)
        assert outcome.fate is Fate.LATER
        assert outcome.why.startswith("its certificate is not trusted: self-signed certificate")
        assert server.requests == 0
        monkeypatch.setenv("SSL_CERT_FILE", f"{certificate}.cert")
        assert sent(ReportTarget(server.url, "abc"), body).fate is Fate.TAKEN
        assert server.authorizations == ["Bearer abc"]
        other_name = ReportTarget(server.url.replace("127.0.0.1", "localhost"))
        assert "not valid for 'localhost'" in sent(other_name, body).why


@contextmanager
def proxying(to_port: int) -> Iterator[tuple[int, list[str]]]:
    """A proxy that connects every request to a port of this machine, and the heads of these requests."""
    heads: list[str] = []

    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            heads.append(f"{self.path} {self.headers['Proxy-Authorization']} {self.headers['Authorization']}")
            if "refused" in self.path:
                self.send_error(403)
                return
            with socket.create_connection(("127.0.0.1", to_port)) as there:
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=copy, args=(there, self.connection), daemon=True)
                back.start()
                copy(self.connection, there)
                back.join(5)

        def log_message(self, *_: object) -> None:
            pass

    def copy(source: socket.socket, target: socket.socket) -> None:
        try:
            while content := source.recv(65536):
                target.sendall(content)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server.server_address[1], heads
        server.shutdown()
        thread.join()


def test_a_proxy_of_the_environment_connects_and_gets_no_token(
    certificate: Path, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", f"{certificate}.cert")
    with TakingServer(tls=tls) as server, proxying(server.port) as (port, heads):
        monkeypatch.setenv("https_proxy", f"http://me:pass%20word@127.0.0.1:{port}")
        assert sent(ReportTarget("https://room.invalid", "abc"), body).fate is Fate.TAKEN
        assert heads == ["room.invalid:443 Basic bWU6cGFzcyB3b3Jk None"]
        assert server.authorizations == ["Bearer abc"]
        outcome = sent(ReportTarget("https://refused.invalid", "abc"), body)
        assert outcome.why == "the proxy refuses to connect to it (403 Forbidden)"
        monkeypatch.setenv("no_proxy", "room.invalid")
        assert "its host name cannot be resolved" in sent(ReportTarget("https://room.invalid"), body).why
        monkeypatch.setenv("no_proxy", "fd00::/8")
        unusable = sent(ReportTarget("https://room.invalid"), body)
        assert (unusable.fate, unusable.why) == (Fate.LATER, "invalid proxy URL or no_proxy entry in the environment")
        # This machine needs none.
        assert sent(ReportTarget(server.url), body).fate is Fate.TAKEN
        assert len(heads) == 2
