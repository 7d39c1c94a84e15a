"""`branchline locate` finds the servers that XRootD's own client finds, and its list is read."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.patience import HANG_S
from tests.stores.conftest import Served
from tests.stores.servers import free_port, program

from branchline import Dataset
from branchline.errors import MissingFileError, StorageError
from branchline.reading.bridge.xrootd_files import _check_connection
from branchline.reading.datasets.replicas import located


def addresses_of_xrdfs(redirector: str, path: str) -> set[str]:
    """What `xrdfs locate` prints, as ports: servers name themselves by addresses of their own."""
    found = subprocess.run(
        [program("xrdfs"), redirector, "locate", "-h", path], capture_output=True, text=True, check=True
    )
    return {line.split()[0].rpartition(":")[2] for line in found.stdout.splitlines() if line.strip()}


def test_the_servers_of_a_file_are_those_of_xrdfs(served: Served, tmp_path: Path) -> None:
    redirector = f"127.0.0.1:{served.cluster.redirector.port}"
    url = f"root://{redirector}//small.root"
    # A redirector answers with the servers that have replied to it so far.
    deadline_s = time.monotonic() + HANG_S
    while len(addresses_of_xrdfs(redirector, "/small.root")) < 2 and time.monotonic() < deadline_s:
        time.sleep(0.2)
    found = located(url)
    assert len(found) == 2
    assert {one.split("//")[1].rpartition(":")[2] for one in found} == addresses_of_xrdfs(redirector, "/small.root")
    command = [sys.executable, "-m", "branchline", "locate", f"{url}:events"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    path = tmp_path / "files.json"
    path.write_text(printed)
    (file,) = Dataset.of(path)
    assert (file.locations, file.tree) == ((url, *found), "events")
    assert len(json.loads(printed)["dataset"]["files"]) == 1


def test_a_lone_server_and_a_local_file_are_their_own_places(served: Served) -> None:
    (lone,) = located(f"root://127.0.0.1:{served.xrootd.port}//small.root")
    assert lone.endswith(f":{served.xrootd.port}//small.root")
    assert located(str(served.data / "small.root")) == []


def test_an_address_of_ipv6_is_connected_to_as_the_client_writes_it() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        _check_connection("[::1]", server.getsockname()[1])


def test_a_file_that_no_server_has_is_an_error(served: Served) -> None:
    with pytest.raises(MissingFileError, match="no server has this file"):
        located(f"root://127.0.0.1:{served.cluster.redirector.port}//no-such-file.root")


def test_a_server_that_is_not_there_is_an_error_at_the_first_try() -> None:
    with pytest.raises(StorageError, match=r"cannot be located: no connection to 127\.0\.0\.1:") as caught:
        located(f"root://127.0.0.1:{free_port()}//small.root")
    assert caught.value.retry


@pytest.mark.parametrize("files", [1, 2])
def test_ctrl_c_ends_the_wait_for_a_server_that_is_silent(files: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        urls = [f"root://127.0.0.1:{server.getsockname()[1]}//f{number}.root" for number in range(files)]
        command = [sys.executable, "-m", "branchline", "locate", *urls]
        waiting = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        # Our own connections try whether one is possible, and close; that of the client sends its handshake.
        connections = []
        while not connections or not connections[-1].recv(20):
            connections.append(server.accept()[0])
        waiting.send_signal(signal.SIGINT)
        _, told = waiting.communicate(timeout=HANG_S)
        for one in connections:
            one.close()
    assert (waiting.returncode, told) == (130, "branchline: interrupted\n")


def test_ctrl_c_waits_for_no_thread_that_waits_for_a_server() -> None:
    code = (
        "import time\n"
        "from branchline.reading.datasets.server_files import in_threads\n"
        "in_threads(lambda number: print(f'{number}\\n', end='', flush=True) or time.sleep(600), [1, 2])\n"
    )
    waiting = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    assert waiting.stdout is not None
    assert sorted(waiting.stdout.readline() for _ in range(2)) == ["1\n", "2\n"]
    waiting.send_signal(signal.SIGINT)
    assert waiting.communicate(timeout=280)[1].endswith("KeyboardInterrupt\n")
