"""The recipe of the cookbook for remote files, with real servers in place of those on the page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.cookbook import recipe, write_data
from tests.stores.servers import Folder, Nginx, Xrootd, certificates, loopback_shim
from tests.stores.servers_s3 import Moto

import branchline


@pytest.mark.long
def test_recipe_for_remote_files(own_folder: Folder, tmp_path: Path) -> None:
    data = own_folder.below("data")
    write_data(data)
    keys = own_folder.below("certificates")
    certificates(keys)
    nginx = Nginx(own_folder.below("nginx"), data, keys)
    xrootd = Xrootd(own_folder.below("xrootd"), data, loopback_shim(own_folder.path))
    moto = Moto(own_folder.below("moto"))
    text = recipe("root://")
    for example, real in (
        ("root://eos.example.org//store", f"root://127.0.0.1:{xrootd.port}/"),
        ("https://www.example.org", f"https://localhost:{nginx.tls_port}"),
        ("AWS_PROFILE=analysis ", f"AWS_ENDPOINT_URL={moto.endpoint} "),
        ("s3://bucket", f"s3://{moto.bucket}"),
        ("dimuon.py:", f"{data}/dimuon.py:"),
    ):
        assert example in text
        text = text.replace(example, real)
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "X509_CERT_DIR": str(keys / "authorities"),
    }
    for one in (data, *data.rglob("*")):
        one.chmod(0o755 if one.is_dir() else 0o644)
    try:
        for server in (nginx, xrootd, moto):
            server.start()
        moto.put_folder(data)
        words = ["bash", "-euo", "pipefail", "-c", text]
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        for server in (nginx, xrootd, moto):
            server.kill()
    for out, files in (("out-xrootd", "*"), ("out-http", "0"), ("out-s3", "0")):
        here = branchline.run(f"{data}/dimuon.py:dimuon", f"{data}/nano/{files}.root", workers=1)
        assert branchline.load(tmp_path / out)["dimuon"] == here.outputs["dimuon"]
    assert any((tmp_path / "cache").iterdir())
