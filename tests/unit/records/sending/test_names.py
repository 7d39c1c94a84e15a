"""Names of control rooms are looked up by the system's resolver, which a job waits for no longer than for an answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.records.sending.taking_server import TakingServer

from branchline.records.sending.address import ReportTarget
from branchline.records.sending.client import Fate, Sender
from branchline.records.sending.message import JobIdentity, ReportBatch, encoded

#: In a network of its own, whose only server of names takes questions and says nothing.
PROGRAM = """
import fcntl, json, socket, struct, threading, time
from branchline.records.sending.client import Sender
from branchline.records.sending.address import ReportTarget

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    fcntl.ioctl(one, 0x8914, struct.pack("16sH14x", b"lo", 0x1))  # SIOCSIFFLAGS, IFF_UP
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 53))
sender = Sender(ReportTarget("http://nowhere.example"))
found = []
for _ in range(3):
    sender.end_by(time.monotonic() + 0.3)
    outcome = sender.send(b"{}")
    found.append([outcome.fate.value, outcome.why])
names = [one.name for one in threading.enumerate() if "request" in one.name]
asked = bool(silent.recv(512))
print(json.dumps({"found": found, "threads": len(names), "asked": asked}))
"""


def test_a_silent_server_of_names_is_waited_for_no_longer_than_for_an_answer(tmp_path: Path) -> None:
    unshare = ["unshare", "--map-root-user", "--mount", "--net"]
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no network of one's own can be made here")
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    script = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
    command = [*unshare, "sh", "-c", script, str(tmp_path / "resolv.conf"), sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["asked"], "the question went elsewhere"
    # The system itself would say after seconds that it failed for now.
    assert said["found"] == [["later", "no connection to nowhere.example was made in time"]] * 3
    assert said["threads"] == 1


def test_a_name_is_looked_up_and_one_that_is_none_is_said(identity: JobIdentity) -> None:
    body = encoded(ReportBatch(identity))
    with TakingServer() as server:
        port = server.url.rpartition(":")[2]
        sender = Sender(ReportTarget(f"http://localhost:{port}"))
        assert sender.send(body).fate is Fate.TAKEN
        sender.close()
    for name in ("nobody.invalid", "x" * 70):
        outcome = Sender(ReportTarget(f"http://{name}")).send(body)
        assert outcome.fate is Fate.LATER
        assert outcome.why
