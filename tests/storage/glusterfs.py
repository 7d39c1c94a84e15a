"""GlusterFS: a volume of three bricks of which any one may fail (disperse 2+1), mounted through FUSE."""

from __future__ import annotations

import os
import re
import signal
import socket
from pathlib import Path

import pytest
from tests.storage.machine import Room, needed, needs_fuse, run, wait_until
from tests.stores.servers import Process, answers, free_port, loopback_shim

VOLFILE = """
volume management
    type mgmt/glusterd
    option working-directory {folder}
    option run-directory {folder}/run
    option glusterd-sockfile {folder}/glusterd.socket
    option transport-type socket
    option transport.socket.bind-address 127.0.0.1
    option transport.socket.listen-port {port}
    option ping-timeout 0
    option event-threads 1
    option base-port {base_port}
end-volume
"""
VOLUME = "tests"


class GlusterFs:
    """The mount, and the bricks that can be killed."""

    def __init__(self, room: Room) -> None:
        needs_fuse()
        daemon, client, self._gluster = (needed(name) for name in ("glusterd", "glusterfs", "gluster"))
        folder = room.below("glusterd")
        # Bricks ask for their volume at this port, whatever glusterd listens on.
        port = 24007
        if answers(port):
            pytest.skip(f"something listens on port {port} already, which GlusterFS needs")
        room.below("glusterd/run")
        (folder / "glusterd.vol").write_text(VOLFILE.format(folder=folder, port=port, base_port=free_port()))
        self._socket = folder / "glusterd.socket"
        shim = {"LD_PRELOAD": str(loopback_shim(room.path))}
        logs = ["-l", str(room.path / "glusterd.log"), "-p", str(folder / "glusterd.pid")]
        arguments = [daemon, "-N", "-f", str(folder / "glusterd.vol"), *logs]
        room.start(Process(arguments, lambda: answers(port) and self._socket.exists(), room.path / "out.log", shim))
        bricks = [room.below(f"brick{number}") for number in (1, 2, 3)]
        places = [f"{socket.gethostname()}:{one}" for one in bricks]
        self._ask("volume", "create", VOLUME, "disperse", 3, "redundancy", 1, *places, "force")
        self._ask("volume", "start", VOLUME)
        room.at_the_end(lambda: self._ask("volume", "stop", VOLUME, "force"))
        self.path: Path = room.below("mount")
        server = ["--volfile-server", "127.0.0.1", "--volfile-server-port", port, "--volfile-id", VOLUME]
        caches = ["--attribute-timeout", 0, "--entry-timeout", 0]
        room.mount([client, "-N", *server, *caches, "-l", room.path / "client.log", self.path], self.path, shim)
        wait_until(lambda: len(self.brick_pids()) == 3, "the start of all bricks")

    def _ask(self, *words: object) -> str:
        return run(self._gluster, "--mode=script", f"--glusterd-sock={self._socket}", *words)

    def brick_pids(self) -> list[int]:
        pids = re.findall(r"Pid\s*:\s*(\d+)", self._ask("volume", "status", VOLUME, "detail"))
        return [int(pid) for pid in pids]

    def kill_a_brick(self) -> None:
        self._kill(self.brick_pids()[0])

    def start_all_bricks(self) -> None:
        self._ask("volume", "start", VOLUME, "force")
        wait_until(lambda: len(self.brick_pids()) == 3, "the start of all bricks")

    @staticmethod
    def _kill(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
