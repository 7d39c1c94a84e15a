"""Ceph in memory: a monitor and an object server, with CephFS mounted through FUSE, or RGW, which speaks S3."""

from __future__ import annotations

import hmac
import http.client
import uuid
from base64 import b64encode
from contextlib import closing
from email.utils import formatdate
from pathlib import Path

from tests.storage.machine import Room, needed, needs_fuse, run
from tests.stores.servers import Process, answers, free_port

# Without keys; `crc`, because RGW would else insist on encryption, which needs them, and hang for 300 s.
CONFIG = """
[global]
fsid = {fsid}
mon_host = [v2:127.0.0.1:{port},v1:127.0.0.1:{old_port}]
mon_initial_members = a
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_mon_client_mode = crc
public_network = 127.0.0.0/8
cluster_network = 127.0.0.0/8
public_addr = 127.0.0.1
ms_bind_ipv6 = false
osd_pool_default_size = 1
osd_pool_default_min_size = 1
mon_allow_pool_size_one = true
osd_pool_default_pg_num = 4
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_max_pg_per_osd = 1000
mon_data_avail_warn = 2
mon_data_avail_crit = 1
osd_objectstore = memstore
memstore_device_bytes = 2147483648
rgw_frontends = beast endpoint=127.0.0.1:{rgw_port}
log_file = {folder}/log.$name
admin_socket = {folder}/$name.asok
pid_file = {folder}/$name.pid
run_dir = {folder}
crash_dir = {folder}/crash
keyring = {folder}/keyring
[mon.a]
mon_data = {folder}/mon
[osd.0]
osd_data = {folder}/osd
[mds.a]
mds_data = {folder}/mds
[client.rgw.r]
rgw_data = {folder}/rgw
"""


class Ceph:
    """A monitor and an object server whose objects are in memory."""

    def __init__(self, room: Room) -> None:
        self._room = room
        for program in ("ceph", "ceph-mon", "ceph-osd", "ceph-authtool", "monmaptool"):
            needed(program)
        folder = self._folder = room.path
        port, old_port, self.rgw_port = free_port(), free_port(), free_port()
        fsid = str(uuid.uuid4())
        self.config = folder / "ceph.conf"
        places = {"fsid": fsid, "folder": folder, "port": port, "old_port": old_port, "rgw_port": self.rgw_port}
        self.config.write_text(CONFIG.format(**places))
        for name in ("mon", "osd", "mds", "rgw", "crash"):
            room.below(name)
        keys, map_ = folder / "mon.keyring", folder / "monmap"
        run("ceph-authtool", "--create-keyring", keys, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        addresses = f"[v2:127.0.0.1:{port},v1:127.0.0.1:{old_port}]"
        run("monmaptool", "--create", "--clobber", "--addv", "a", addresses, "--fsid", fsid, map_)
        run("ceph-mon", "--mkfs", "-i", "a", "--monmap", map_, "--keyring", keys, "-c", self.config)
        self._start("ceph-mon", "-i", "a", ready=lambda: answers(port))
        osd = str(uuid.uuid4())
        self.ceph("osd", "new", osd)
        run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd, "-c", self.config)
        self._start("ceph-osd", "-i", "0", ready=lambda: " 1 up" in self.ceph("osd", "stat"))

    def ceph(self, *words: object) -> str:
        return run("ceph", "-c", self.config, "--connect-timeout", "30", *words)

    def _start(self, program: str, *arguments: object, ready: object) -> None:
        words = [needed(program), *map(str, arguments), "-c", str(self.config), "-f"]
        log = self._folder / f"{program}-output.log"
        self._room.start(Process(words, ready, log, start_timeout_s=60))

    def mount(self) -> Path:
        """CephFS, whose files are cut into three stripes of 1 MiB each."""
        needs_fuse()
        needed("ceph-fuse")
        for pool in ("cephfs-metadata", "cephfs-data"):
            self.ceph("osd", "pool", "create", pool, 4)
        self.ceph("fs", "new", "tests", "cephfs-metadata", "cephfs-data")
        self._start("ceph-mds", "-i", "a", ready=lambda: "up:active" in self.ceph("mds", "stat"))
        place = self._room.below("mount")
        self._room.mount(["ceph-fuse", "-f", "-c", self.config, "--id", "admin", place], place)
        layout = "stripe_unit=1048576 stripe_count=3 object_size=4194304"
        run(needed("setfattr"), "-n", "ceph.dir.layout", "-v", layout, place)
        return place

    def gateway(self) -> Gateway:
        """RGW with a bucket, its owner and another user."""
        needed("radosgw-admin")
        run("ceph-authtool", "--create-keyring", self._folder / "keyring", "--gen-key", "-n", "client.rgw.r")
        self._start("radosgw", "-n", "client.rgw.r", ready=lambda: answers(self.rgw_port))
        for user in ("owner", "reader"):
            keys = (f"--access-key={user}", f"--secret-key=secret-of-{user}")
            run("radosgw-admin", "-c", self.config, "user", "create", f"--uid={user}", f"--display-name={user}", *keys)
        return Gateway(self.rgw_port)


class Gateway:
    """A bucket at RGW, which checks signatures, as moto does not. Files are the owner's, and read by another user."""

    bucket = "tests"

    def __init__(self, port: int) -> None:
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "reader",
            "AWS_SECRET_ACCESS_KEY": "secret-of-reader",
            "AWS_REGION": "us-east-1",
        }
        self._port = port
        # For a missing object, RGW answers 404 to those who may list the bucket, and 403 to others.
        self._ask("PUT", f"/{self.bucket}", acl="public-read")

    def _ask(self, method: str, target: str, content: bytes = b"", acl: str = "private") -> None:
        """Signed by the second version of Amazon's rules, which is the shorter one."""
        date = formatdate(usegmt=True)
        signed = f"{method}\n\n\n{date}\nx-amz-acl:{acl}\n{target}"
        sum_ = b64encode(hmac.digest(b"secret-of-owner", signed.encode(), "sha1")).decode()
        headers = {"Date": date, "x-amz-acl": acl, "Authorization": f"AWS owner:{sum_}"}
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=280)) as connection:
            connection.request(method, target, content, headers)
            answer = connection.getresponse()
            assert answer.status < 300, f"{method} {target}: {answer.status} {answer.read().decode()}"
            answer.read()

    def put(self, key: str, content: bytes, is_open: bool = True) -> None:
        self._ask("PUT", f"/{self.bucket}/{key}", content, "public-read" if is_open else "private")

    def remove(self, key: str) -> None:
        self._ask("DELETE", f"/{self.bucket}/{key}")
