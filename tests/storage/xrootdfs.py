"""XRootD's files mounted through FUSE."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.storage.machine import Room, needed, needs_fuse
from tests.stores.servers import Xrootd, loopback_shim

# The client tries for minutes to reach a server that is gone.
IMPATIENT = {
    "XRD_CONNECTIONWINDOW": "2",
    "XRD_CONNECTIONRETRY": "1",
    "XRD_STREAMERRORWINDOW": "3",
    "XRD_REQUESTTIMEOUT": "10",
    "XRD_TIMEOUTRESOLUTION": "1",
}


# This one waits for longer than any test.
PATIENT = {"XRD_REQUESTTIMEOUT": "1800", "XRD_STREAMTIMEOUT": "1800"}


def mounted(room: Room) -> Path:
    """An empty mount of an XRootD server's files."""
    return mounted_from(room, IMPATIENT)[0]


def mounted_from(room: Room, patience: dict[str, str]) -> tuple[Path, Xrootd]:
    """The same, and the server."""
    needs_fuse()
    program = needed("xrootdfs")
    needed("xrootd")
    data = room.below("data")
    shutil.chown(data, "nobody")
    server = Xrootd(room.below("xrootd"), data, loopback_shim(room.path))
    room.start(server)
    place = room.below("mount")
    # Attributes are kept for 10 s otherwise, and a file that has changed meanwhile seems to be the same.
    options = f"rdr=root://127.0.0.1:{server.port}//,uid=nobody,fsname=xrootdfs,attr_timeout=0,entry_timeout=0"
    room.mount([program, place, "-f", "-o", options], place, patience)
    return place, server
