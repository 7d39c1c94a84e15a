"""A shared control room with a certificate of its own, on all addresses of the machine."""

from __future__ import annotations

import http.client
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from tests.stores.servers import program
from tests.unit.control.web.test_shared import PASSWORD, people


def test_browsers_get_https_and_a_name_that_they_can_open(tmp_path: Path) -> None:
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    words = [
        program("openssl"),
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    subprocess.run(
        [*words, "-keyout", str(key), "-out", str(certificate)], capture_output=True, timeout=280, check=True
    )
    people(tmp_path / "room", "add", "ada", "--role", "administrator", "--password-stdin", password=PASSWORD)
    command = [sys.executable, "-m", "branchline", "serve", str(tmp_path / "room"), "--shared", "--host", "0.0.0.0"]
    command += ["--port", "0", "--certificate", str(certificate), "--key", str(key)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = urlsplit(server.stdout.readline().split()[1])
        assert (address.scheme, address.hostname) == ("https", socket.getfqdn().lower())
        context = ssl.create_default_context(cafile=str(certificate))
        context.check_hostname = False
        connection = http.client.HTTPSConnection("127.0.0.1", int(address.port or 0), timeout=280, context=context)
        own = {"Host": address.netloc, "Origin": f"https://{address.netloc}"}
        form = {**own, "Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/login", urlencode({"name": "ada", "password": PASSWORD}), form)
        answer = connection.getresponse()
        answer.read()
        cookie = answer.getheader("set-cookie") or ""
        assert (answer.status, answer.getheader("location")) == (303, "/")
        assert cookie.startswith("__Host-branchline")
        assert "secure" in cookie.lower()
        assert "max-age=" in (answer.getheader("strict-transport-security") or "")
        connection.request("GET", "/jobs.json", headers={**own, "Cookie": cookie.partition(";")[0]})
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=280)
    assert (server.returncode, said) == (0, "")
