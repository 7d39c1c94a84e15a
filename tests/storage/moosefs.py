"""MooseFS: a metadata server, two chunk servers that each have every chunk, and a mount."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from tests.storage.machine import Room, needed, needs_fuse, needs_root, run, wait_until
from tests.stores.servers import Process, free_port

MASTER = """
WORKING_USER = root
WORKING_GROUP = root
NICE_LEVEL = 0
DATA_PATH = {folder}
EXPORTS_FILENAME = {folder}/mfsexports.cfg
TOPOLOGY_FILENAME = {folder}/mfstopology.cfg
MATOML_LISTEN_HOST = {host}
MATOML_LISTEN_PORT = {metalogger_port}
MATOCS_LISTEN_HOST = {host}
MATOCS_LISTEN_PORT = {chunk_port}
MATOCL_LISTEN_HOST = {host}
MATOCL_LISTEN_PORT = {port}
"""
CHUNK_SERVER = """
WORKING_USER = root
WORKING_GROUP = root
NICE_LEVEL = 0
DATA_PATH = {folder}
HDD_CONF_FILENAME = {folder}/mfshdd.cfg
HDD_LEAVE_SPACE_DEFAULT = 64MiB
BIND_HOST = {host}
MASTER_HOST = {host}
MASTER_PORT = {chunk_port}
MASTER_RECONNECTION_DELAY = 1
CSSERV_LISTEN_HOST = {host}
CSSERV_LISTEN_PORT = {port}
"""


class MooseFs:
    """The mount, and the chunk servers that can be killed."""

    def __init__(self, room: Room) -> None:
        needs_fuse()
        needs_root("add an address, which chunk servers need in addition to the loopback's")
        programs = [needed(name) for name in ("mfsmaster", "mfschunkserver", "mfsmount", "mfssetgoal")]
        host = f"10.254.{secrets.randbelow(200) + 1}.{secrets.randbelow(200) + 1}"
        run("ip", "address", "add", f"{host}/32", "dev", "lo")
        room.at_the_end(lambda: run("ip", "address", "del", f"{host}/32", "dev", "lo"))
        chunk_port, port = free_port(), free_port()
        master = room.below("master")
        ports = {"metalogger_port": free_port(), "chunk_port": chunk_port, "port": port}
        (master / "mfsmaster.cfg").write_text(MASTER.format(folder=master, host=host, **ports))
        (master / "mfsexports.cfg").write_text("* / rw,alldirs,maproot=0:0\n")
        (master / "mfstopology.cfg").write_text("")
        (master / "metadata.mfs").write_bytes(b"MFSM NEW")
        listens = lambda port: lambda: f"{host}:{port}" in run("ss", "-ltnH")  # noqa: E731
        arguments = [programs[0], "-f", "-c", str(master / "mfsmaster.cfg"), "start"]
        room.start(Process(arguments, listens(port), room.path / "master.log"))
        self.chunk_servers = []
        for name in ("one", "two"):
            folder, own_port = room.below(name), free_port()
            config = CHUNK_SERVER.format(folder=folder, host=host, chunk_port=chunk_port, port=own_port)
            (folder / "mfschunkserver.cfg").write_text(config)
            (folder / "mfshdd.cfg").write_text(f"{room.below(f'{name}/chunks')}\n")
            arguments = [programs[1], "-f", "-c", str(folder / "mfschunkserver.cfg"), "start"]
            server = Process(arguments, listens(own_port), room.path / f"{name}.log")
            self.chunk_servers.append(room.start(server))
        self.path: Path = room.below("mount")
        # Otherwise reads of a file whose chunk server is gone are tried for minutes.
        options = f"mfsmaster={host},mfsport={port},mfsnice=0,mfsattrcacheto=0,mfsioretries=5"
        room.mount([programs[2], "-f", "-o", options, self.path], self.path)
        self._goal = programs[3]
        self._has_room(host, port)
        run(self._goal, "2", self.path)

    def _has_room(self, host: str, port: int) -> None:
        """Waits for both chunk servers: a write without one waits for good."""
        wait_until(lambda: os.statvfs(self.path).f_blocks > 0, f"space at {host}:{port}")

    def is_at_both(self, path: Path) -> bool:
        """Whether each chunk of the file is at both servers."""
        said = run(needed("mfsfileinfo"), path)
        return said.count("copy 2:") > 0 and said.count("copy 1:") == said.count("copy 2:")
