"""A real Rucio server with SQLite, and two XRootD servers with HTTPS as its storage elements."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import uproot
from tests.stores.servers import HTTP, Folder, Process, Xrootd, certificates, free_port, loopback_shim, xrootd_with_tls

SCOPE = "user.tester"
#: Names of datasets: five files each, of which one is in both; both as a container; a file that is on tape only.
FIRST, SECOND, BOTH, ON_TAPE = "data.A", "/DY/Run3-v1/NANOAODSIM", "collisions", "data.tape"
EVENTS = 50
GERMANY, SWITZERLAND, TAPE = "DE-KIT_DISK", "CERN_DISK", "CERN_TAPE"

ALEMBIC = """
[alembic]
script_location = {migrations}
sqlalchemy.url = {database}
[loggers]
keys = root
[logger_root]
level = WARN
handlers = console
[handlers]
keys = console
[handler_console]
class = StreamHandler
args = (sys.stderr,)
formatter = plain
[formatters]
keys = plain
[formatter_plain]
"""
SERVER = """
[common]
logdir = {folder}
loglevel = WARNING
mailtemplatedir = {folder}
[database]
default = {database}
echo = false
[alembic]
cfg = {folder}/alembic.ini
[bootstrap]
userpass_identity = ddmlab
userpass_pwd = secret
[policy]
permission = generic
schema = generic
lfn2pfn_algorithm_default = hash
"""
CLIENT = """
[client]
rucio_host = {url}
auth_host = {url}
auth_type = userpass
username = ddmlab
password = {password}
account = root
auth_token_file_path = {token}
"""
BOOTSTRAP = """
from rucio.db.sqla.util import build_database, create_base_vo, create_root_account
build_database()
create_base_vo()
create_root_account()
"""
MIGRATIONS = "import rucio.db.sqla, os; print(os.path.join(rucio.db.sqla.__path__[0], 'migrate_repo'))"


def client_configuration(folder: Path, url: str, password: str = "secret") -> Path:
    """The configuration of a client, in a folder of its own since the client keeps its token there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rucio.cfg"
    path.write_text(CLIENT.format(url=url, password=password, token=folder / "token"))
    return path


def _output(command: Sequence[object], environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        [*map(str, command)], env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


class Rucio:
    """The server, its storage elements, and its client in this process."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{free_port()}"
        self.configuration = client_configuration(self.folder.below("client"), self.url)
        self.environment = {"RUCIO_CONFIG": str(self.configuration)}
        shim = loopback_shim(self.folder.path)
        self._certificates = self.folder.below("certificates")
        certificates(self._certificates)
        self.german, self.german_https = self._element("german", shim)
        self.swiss, self.swiss_https = self._element("swiss", shim)
        self.server = self._server()
        #: The sum of x over the events of each file.
        self.sums: dict[str, int] = {}

    def _element(self, name: str, shim: Path) -> tuple[Xrootd, int]:
        https = free_port()
        folder, data = self.folder.below(name), self.folder.below(f"{name}-data")
        return xrootd_with_tls(folder, data, shim, self._certificates, more=HTTP.format(port=https)), https

    def _server(self) -> Process:
        programs = Path(os.environ["BRANCHLINE_RUCIO_SERVER"]) / "bin"
        folder = self.folder.below("rucio")
        database = f"sqlite:///{folder}/rucio.db"
        migrations = _output([programs / "python", "-c", MIGRATIONS])
        (folder / "alembic.ini").write_text(ALEMBIC.format(migrations=migrations, database=database))
        (folder / "server.cfg").write_text(SERVER.format(folder=folder, database=database))
        environment = {"RUCIO_CONFIG": str(folder / "server.cfg"), "HOME": str(folder)}
        _output([programs / "python", "-c", BOOTSTRAP], environment)
        # SQLite has a single writer.
        words = ["-w", "1", "--threads", "4", "-b", self.url.removeprefix("http://")]
        application = "rucio.web.rest.flaskapi.v1.main:application"
        return Process(
            [str(programs / "gunicorn"), *words, application], self._answers, folder / "gunicorn.log", environment
        )

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/ping", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def start(self) -> None:
        for one in (self.german, self.swiss, self.server):
            one.start()
        os.environ.update(self.environment, X509_CERT_DIR=str(self._certificates / "authorities"))
        self._fill()

    def kill(self) -> None:
        for one in (self.server, self.german, self.swiss):
            one.kill()

    @property
    def client(self) -> Any:
        from rucio.client import Client

        program = sys.argv[0]
        try:
            return Client()
        finally:
            sys.argv[0] = program

    def _fill(self) -> None:
        client = self.client
        for rse, element, https, prefix, site in (
            (GERMANY, self.german, self.german_https, "rucio", "FZK-LCG2"),
            (SWITZERLAND, self.swiss, self.swiss_https, "rucio", "CERN-PROD"),
            (TAPE, self.swiss, self.swiss_https, "tape", "CERN-PROD"),
        ):
            client.add_rse(rse, deterministic=True, rse_type="TAPE" if rse == TAPE else "DISK")
            for scheme, port, priority in (("root", element.port, 1), ("davs", https, 2)):
                domains = {name: {"read": priority, "write": priority, "delete": priority} for name in ("lan", "wan")}
                kind = "xrootd" if scheme == "root" else "gfal"
                client.add_protocol(
                    rse,
                    {
                        "scheme": scheme,
                        "hostname": "localhost",
                        "port": port,
                        "prefix": f"//{prefix}/" if scheme == "root" else f"/{prefix}/",
                        "domains": domains,
                        "impl": f"rucio.rse.protocols.{kind}.Default",
                    },
                )
            client.add_rse_attribute(rse, "site", site)
        client.add_scope("root", SCOPE)
        files = [self._make(f"f{number}.root", number) for number in range(10)]
        for rse in (GERMANY, SWITZERLAND):
            client.add_replicas(rse, files[:9])
        client.add_replicas(TAPE, [files[0], files[9]])
        self._store(client, [one["name"] for one in files])
        for name, some in ((FIRST, files[:5]), (SECOND, files[4:9]), (ON_TAPE, [files[0], files[9]])):
            keys = ("scope", "name", "bytes", "adler32")
            client.add_dataset(SCOPE, name, files=[{key: one[key] for key in keys} for one in some])
        client.add_container(SCOPE, BOTH)
        client.attach_dids(SCOPE, BOTH, [{"scope": SCOPE, "name": name} for name in (FIRST, SECOND)])

    def _make(self, name: str, seed: int) -> dict[str, object]:
        """Write a file, and return its description for Rucio."""
        path = self.folder.below("originals") / name
        numbers = np.random.default_rng(seed).integers(0, 1000, EVENTS)
        with uproot.recreate(path) as file:
            file.mktree("events", {"x": "int64"}).extend({"x": numbers})
        self.sums[name] = int(numbers.sum())
        content = path.read_bytes()
        checksum = f"{zlib.adler32(content):08x}"
        return {"scope": SCOPE, "name": name, "bytes": len(content), "adler32": checksum}

    def _store(self, client: Any, names: Sequence[str]) -> None:
        """Copy the files to where Rucio has their replicas."""
        dids = [{"scope": SCOPE, "name": name} for name in names]
        for record in client.list_replicas(dids, schemes=["root"]):
            for url in record["pfns"]:
                port, _, path = url.removeprefix("root://localhost:").partition("/")
                name = "german" if int(port) == self.german.port else "swiss"
                target = self.folder.below(f"{name}-data") / path.lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.folder.path / "originals" / record["name"], target)
        for name in ("german", "swiss"):
            for one in self.folder.below(f"{name}-data").rglob("*"):
                one.chmod(0o755 if one.is_dir() else 0o644)

    def register(self, name: str, count: int) -> None:
        """Register a dataset of files that are stored nowhere."""
        client = self.client
        files = [
            {"scope": SCOPE, "name": f"{name}.{number}", "bytes": 1000 + number, "adler32": f"{number:08x}"}
            for number in range(count)
        ]
        client.add_dataset(SCOPE, name)
        for start in range(0, count, 200):
            some = files[start : start + 200]
            for rse in (GERMANY, SWITZERLAND):
                client.add_replicas(rse, some)
            client.attach_dids(SCOPE, name, some)
