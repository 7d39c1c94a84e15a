"""An XRootD server that wants X.509, as grids have it: its certificates, and those of a user."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.stores.servers import Folder, Xrootd, hand_over, program

GSI = """
xrootd.seclib libXrdSec.so
sec.protocol gsi -certdir:{folder}/authorities -cert:{folder}/host.pem -key:{folder}/host.key -crl:0 -gmapopt:10
sec.protbind * only gsi
"""
# XRootD's client takes keys of RSA alone.
NEW_KEY = ("-newkey", "rsa:2048", "-nodes")
USAGE = "keyUsage=critical,digitalSignature,keyEncipherment\n"
EXTENSIONS = {
    "host": "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n",
    "user": f"basicConstraints=CA:FALSE\n{USAGE}",
    "proxy": f"proxyCertInfo=critical,language:id-ppl-inheritAll\n{USAGE}",
}
# Without these XRootD's client tries for minutes what will not be.
SHORT_WAITS = {
    "XRD_CONNECTIONWINDOW": "2",
    "XRD_CONNECTIONRETRY": "1",
    "XRD_STREAMERRORWINDOW": "3",
    "XRD_REQUESTTIMEOUT": "10",
    "XRD_TIMEOUTRESOLUTION": "1",
}


class Grid:
    """An authority, a host that it vouches for, and a user with a proxy (RFC 3820)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authorities = folder / "authorities"
        self.proxy = folder / "x509up"
        authority = ("-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/O=Tests/CN=Authority")
        self._openssl("req", "-x509", *NEW_KEY, *authority)
        self._sign("host", "/O=Tests/CN=localhost", by="ca")
        self._sign("user", "/O=Tests/CN=A user", by="ca")
        self._sign("proxy", "/O=Tests/CN=A user/CN=12345", by="user")
        parts = ("proxy.pem", "proxy.key", "user.pem")
        self.proxy.write_text("".join((folder / part).read_text() for part in parts))
        for one in (self.proxy, folder / "host.key"):
            one.chmod(0o600)
        self.authorities.mkdir()
        shutil.copy(folder / "ca.pem", self.authorities)
        self._openssl("rehash", "authorities")
        hand_over(folder / "host.key")

    def _openssl(self, *arguments: str) -> None:
        subprocess.run([program("openssl"), *arguments], cwd=self.folder, check=True, capture_output=True)

    def _sign(self, name: str, subject: str, by: str) -> None:
        (self.folder / f"{name}.txt").write_text(EXTENSIONS[name])
        self._openssl("req", *NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
        signer = ("-CA", f"{by}.pem", "-CAkey", f"{by}.key", "-CAcreateserial", "-days", "2")
        self._openssl("x509", "-req", "-in", f"{name}.csr", *signer, "-extfile", f"{name}.txt", "-out", f"{name}.pem")

    @property
    def environment(self) -> dict[str, str]:
        """What leads the user's programs to the proxy."""
        return {**SHORT_WAITS, "X509_CERT_DIR": str(self.authorities), "X509_USER_PROXY": str(self.proxy)}


class GsiXrootd(Xrootd):
    """A server that lets in nobody without a proxy."""

    def __init__(self, folder: Folder, data: Path, shim: Path) -> None:
        self.grid = Grid(folder.below("grid"))
        super().__init__(folder.below("xrootd"), data, shim, GSI.format(folder=self.grid.folder))
