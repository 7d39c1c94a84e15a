"""HDFS: a NameNode and a DataNode of Apache Hadoop, and files written through WebHDFS."""

from __future__ import annotations

import http.client
import json
import os
import urllib.parse
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from tests.storage.machine import Room, needed, run, wait_until
from tests.stores.servers import Process, answers, free_port

LIBRARIES = Path(__file__).resolve().parents[2] / "target" / "hadoop" / "lib"
SITE = """<?xml version="1.0"?>
<configuration>{}</configuration>
"""
PROPERTY = "<property><name>{}</name><value>{}</value></property>"
JAVA = ("--add-opens", "java.base/java.lang=ALL-UNNAMED", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m")
SERVERS = "org.apache.hadoop.hdfs.server"


def write_settings(folder: Path, name: str, properties: Mapping[str, object]) -> None:
    """Writes settings as Hadoop reads them."""
    lines = "".join(PROPERTY.format(*one) for one in properties.items())
    (folder / f"{name}.xml").write_text(SITE.format(lines))


class Hdfs:
    """Files of several blocks below `url`; this user may do everything, and others what the files' modes say."""

    def __init__(self, room: Room, block_bytes: int = 2**20) -> None:
        java = needed("java")
        if not (LIBRARIES / ".complete").exists():
            pytest.skip("Hadoop's libraries are missing; tests/storage/install.sh gets them with Maven")
        self.port, self._http_port, data_port = free_port(), free_port(), free_port()
        folder = room.below("conf")
        for name in ("hdfs", "datanode", "static"):
            # Without these it says that it has no web pages, and ends.
            room.below(f"conf/webapps/{name}")
        site = {
            "dfs.namenode.http-address": f"127.0.0.1:{self._http_port}",
            "dfs.namenode.rpc-bind-host": "127.0.0.1",
            "dfs.namenode.name.dir": room.below("names"),
            "dfs.datanode.address": f"127.0.0.1:{data_port}",
            "dfs.datanode.ipc.address": f"127.0.0.1:{free_port()}",
            "dfs.datanode.http.address": f"127.0.0.1:{free_port()}",
            "dfs.datanode.data.dir": room.below("blocks"),
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.namenode.safemode.extension": "0",
            "dfs.replication": "1",
            "dfs.blocksize": str(block_bytes),
            "dfs.namenode.fs-limits.min-block-size": "4096",
        }
        core = {"fs.defaultFS": f"hdfs://127.0.0.1:{self.port}", "hadoop.tmp.dir": room.below("tmp")}
        write_settings(folder, "hdfs-site", site)
        write_settings(folder, "core-site", core)
        words = [java, *JAVA, "-cp", f"{folder}:{LIBRARIES}/*"]
        name_node = f"{SERVERS}.namenode.NameNode"
        run(*words, name_node, "-format", "-force", "-nonInteractive")
        starts = {
            "namenode": ([*words, name_node], lambda: answers(self.port) and answers(self._http_port)),
            "datanode": ([*words, f"{SERVERS}.datanode.DataNode"], lambda: answers(data_port)),
        }
        self.servers = {
            name: room.start(Process(arguments, ready, room.path / f"{name}.log", start_timeout_s=60))
            for name, (arguments, ready) in starts.items()
        }
        wait_until(self._takes_files, "a DataNode at the NameNode")
        self.web_address = f"127.0.0.1:{self._http_port}"
        self.url = f"hdfs://127.0.0.1:{self.port}"

    def _takes_files(self) -> bool:
        with closing(http.client.HTTPConnection("127.0.0.1", self._http_port, timeout=10)) as connection:
            connection.request("GET", "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState")
            beans = json.loads(connection.getresponse().read())["beans"]
        return bool(beans and beans[0].get("NumLiveDataNodes"))

    def _ask(self, method: str, name: str, operation: str, content: bytes | None = None, **options: str) -> bytes:
        user = {"user.name": os.environ.get("USER") or "root"}
        query = urllib.parse.urlencode({"op": operation, **user, **options})
        host, target = f"127.0.0.1:{self._http_port}", f"/webhdfs/v1/{urllib.parse.quote(name)}?{query}"
        for body in (None, content):
            with closing(http.client.HTTPConnection(host, timeout=30)) as connection:
                connection.request(method, target, body)
                answer = connection.getresponse()
                said = answer.read()
            if answer.status != 307:
                break
            # The NameNode sends us to a DataNode, which takes the content.
            there = urllib.parse.urlsplit(answer.headers["Location"])
            host, target = there.netloc, f"{there.path}?{there.query}"
        assert answer.status in (200, 201), f"{operation} of {name}: {answer.status} {said.decode()}"
        return said

    def write(self, name: str, content: bytes) -> None:
        self._ask("PUT", name, "CREATE", content, overwrite="true")

    def make_folder(self, name: str) -> None:
        self._ask("PUT", name, "MKDIRS")

    def close(self, name: str) -> None:
        self._ask("PUT", name, "SETPERMISSION", permission="000")

    def remove(self, name: str) -> None:
        self._ask("DELETE", name, "DELETE")
