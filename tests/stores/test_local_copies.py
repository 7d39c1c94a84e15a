"""The cache of what was read and staged files, over real servers: the same results, no byte from the server twice, and
nothing wrong after a kill, with two processes at once, on a full disk, or for a file that has changed.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import awkward as ak
import hist
import pytest
from tests.stores.conftest import BYTES_COUNT, Served
from tests.stores.servers import Folder, Nginx, xrootd_with_http

import branchline
from branchline import Access
from branchline._core import Store
from branchline.errors import OptionError

pytestmark = pytest.mark.slow

KINDS = ("http", "root")


def base(served: Served, kind: str) -> str:
    ports = {"http": f"http://127.0.0.1:{served.nginx.port}/", "root": f"root://127.0.0.1:{served.xrootd.port}//"}
    return ports[kind]


class Spectra:
    name = "spectra"

    def process(self, events: ak.Array) -> hist.Hist:
        return hist.Hist.new.Reg(50, 0, 1, name="pt").Double().fill(ak.flatten(events.pt))


def bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_train_reads_nothing_from_the_server(kind: str, served: Served, tmp_path: Path) -> None:
    files = [f"{base(served, kind)}{name}:events" for name in ("events.root", "small.root")]
    local = [f"{served.data}/{name}:events" for name in ("events.root", "small.root")]
    expected = branchline.run([Spectra()], local, tmp_path / "local", workers=1)
    access = Access(cache_dir=str(tmp_path / "cache"))
    totals = []
    for number in range(2):
        found = branchline.run([Spectra()], files, tmp_path / f"out{number}", access=access, workers=2)
        assert found.outputs["spectra"] == expected.outputs["spectra"]
        totals.append(found.job["totals"])
        assert found.job["storage_remarks"] == []
    first, second = totals
    assert first["bytes_read"] > 10 * second["bytes_read"]
    assert (second["bytes_read"], second["read_calls"]) == (0, 0)
    assert second["cached_bytes"] == first["bytes_read"] + first["cached_bytes"]
    assert "came from copies on this machine" in (tmp_path / "out1" / "report.html").read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_a_staged_train_reads_each_byte_once_and_leaves_nothing(kind: str, served: Served, tmp_path: Path) -> None:
    names = ("events.root", "small.root")
    files = [f"{base(served, kind)}{name}:events" for name in names]
    expected = branchline.run([Spectra()], [f"{served.data}/{name}:events" for name in names], tmp_path / "local")
    access = Access(mode="stage", stage_dir=str(tmp_path / "stage"))
    found = branchline.run([Spectra()], files, tmp_path / "out", access=access, workers=1)
    assert found.outputs["spectra"] == expected.outputs["spectra"]
    assert found.job["totals"]["bytes_read"] == sum((served.data / name).stat().st_size for name in names)
    assert [path for path in (tmp_path / "stage").rglob("*") if path.is_file()] == []


class Waits(Spectra):
    """Goes on from the last events of the first file only when the next file has been copied, too."""

    def __init__(self, folder: Path, first_file_events: int) -> None:
        self.folder = folder
        self.events_left = first_file_events
        self.most = 0

    def process(self, events: ak.Array) -> hist.Hist:
        self.events_left -= len(events)
        end_s = time.monotonic() + (20 if self.events_left == 0 else 0)
        while self.most < 2 and time.monotonic() < end_s:
            self.most = max(self.most, len(list(self.folder.rglob("*.whole"))))
            time.sleep(0.01)
        return super().process(events)


def test_the_next_file_is_staged_while_one_is_worked_on(served: Served, tmp_path: Path) -> None:
    files = [f"{base(served, 'http')}{name}:events" for name in ("events.root", "small.root")]
    wagon = Waits(tmp_path / "stage", branchline.open(f"{served.data}/events.root:events").num_entries)
    access = Access(mode="stage", stage_dir=str(tmp_path / "stage"))
    branchline.run([wagon], files, tmp_path / "out", access=access, workers=0)
    assert wagon.most == 2


def test_a_file_that_has_changed_at_the_server_is_read_anew(served: Served, own_folder: Folder, tmp_path: Path) -> None:
    data = own_folder.below("data")
    server = Nginx(own_folder.below("nginx"), data, served.certificates)
    access = Access(cache_dir=str(tmp_path))
    try:
        server.start()
        for content in (b"first" * 1000, b"other" * 1000, b"longer" * 1000):
            (data / "f.bin").write_bytes(content)
            # The entity tag of nginx is made of the size and of the second of the last change.
            changed_s = len(content) + ord(content[:1])
            os.utime(data / "f.bin", (changed_s, changed_s))
            for moved in (len(content), 0):
                store = Store(f"http://127.0.0.1:{server.port}/f.bin", access)
                read = store.read([(0, len(content))])
                assert (read.contents, read.bytes_read) == ([content], moved)
    finally:
        server.kill()


def test_a_file_behind_xrootd_s_http_is_kept_until_it_changes(
    served: Served, own_folder: Folder, tmp_path: Path
) -> None:
    """Its answers to GET have no version. WebDAV gives one, and only readers that keep copies request it."""
    data = own_folder.below("data")
    server, port = xrootd_with_http(own_folder.below("xrootd"), data, served.shim)
    access = Access(cache_dir=str(tmp_path))
    try:
        server.start()
        for seconds, content in ((1_000_000, b"first" * 1000), (2_000_000, b"other" * 1000)):
            (data / "f.bin").write_bytes(content)
            os.utime(data / "f.bin", (seconds, seconds))
            for moved in (len(content), 0):
                store = Store(f"http://127.0.0.1:{port}/f.bin", access)
                read = store.read([(0, len(content))])
                assert (read.contents, read.bytes_read) == ([content], moved)
    finally:
        server.kill()


def test_a_server_that_tells_no_versions_is_not_cached_and_that_is_said(served: Served, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{served.nginx.port}/no-versions/small.root"
    access = Access(cache_dir=str(tmp_path / "cache"))
    for number in range(2):
        found = branchline.run([Spectra()], [f"{url}:events"], tmp_path / f"{number}", access=access, workers=1)
        assert found.job["totals"]["cached_bytes"] == 0
        [remark] = found.job["storage_remarks"]
        assert "not cached: its server sends nothing" in remark["text"]
        assert remark["files"] == 1


# Reads the file at this URL in pieces for ever, comparing with the local one, and prints a line after each round.
READER = """
import random, sys
from branchline import Access
from branchline._core import Store
url, local, folder, how, seed = sys.argv[1:]
content = open(local, "rb").read()
numbers = random.Random(int(seed))
access = Access(mode="stage", stage_dir=folder) if how == "stage" else Access(cache_dir=folder, cache_size="2 MB")
while True:
    store = Store(url, access)
    for _ in range(20):
        ranges = [(numbers.randrange(len(content) - 200_000), numbers.randrange(200_000)) for _ in range(8)]
        found = store.read(ranges).contents
        assert found == [content[at:at + size] for at, size in ranges], "wrong bytes"
        assert not store.remarks, store.remarks
    del store
    print("round", flush=True)
"""


@pytest.mark.parametrize("how", ["cache", "stage"])
def test_processes_share_copies_and_may_be_killed(how: str, served: Served, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    numbers = random.Random(seed)
    fixed = (f"{base(served, 'http')}random.bin", str(served.data / "random.bin"), str(tmp_path / "copies"), how)
    kept = subprocess.Popen([sys.executable, "-c", READER, *fixed, "1"], stdout=subprocess.PIPE)
    try:
        for number in range(4):
            with subprocess.Popen([sys.executable, "-c", READER, *fixed, str(number)], stdout=subprocess.PIPE) as other:
                assert other.stdout is not None
                assert other.stdout.readline() == b"round\n"
                time.sleep(numbers.random() * 0.2)
                other.send_signal(signal.SIGKILL)
            assert other.returncode == -signal.SIGKILL
        assert kept.poll() is None
    finally:
        kept.kill()
        kept.communicate()
    found = bytes_below(tmp_path / "copies")
    assert found <= (2_000_000 + 200_000 if how == "cache" else BYTES_COUNT)
    ended = subprocess.run(
        [sys.executable, "-c", READER.replace("while True", "for _ in range(3)"), *fixed, "9"], capture_output=True
    )
    assert ended.returncode == 0, ended.stderr.decode()
    if how == "stage":
        # What the killed ones held is gone, too.
        assert [path for path in (tmp_path / "copies").rglob("*") if path.is_file()] == []


def limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))


@pytest.mark.parametrize("how", ["cache", "stage"])
def test_a_full_disk_is_said_and_reading_goes_on(how: str, served: Served, tmp_path: Path) -> None:
    script = """
import sys
from branchline import Access
from branchline._core import Store
url, folder, how = sys.argv[1:]
access = Access(mode="stage", stage_dir=folder) if how == "stage" else Access(cache_dir=folder)
store = Store(url, access)
for start in range(0, 4_000_000, 200_000):
    assert len(store.read([(start, 200_000)]).contents[0]) == 200_000
print(store.remarks)
"""
    arguments = [f"{base(served, 'http')}random.bin", str(tmp_path), how]
    ended = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, preexec_fn=limit_files
    )
    assert ended.returncode == 0, ended.stderr
    assert {"cache": "no longer cached: ", "stage": "not staged: "}[how] in ended.stdout
    assert bytes_below(tmp_path) <= 300_000


def test_a_secret_in_a_url_is_not_kept(served: Served, tmp_path: Path) -> None:
    url = f"{base(served, 'http')}small.root?x=1&authz=Bearer%20very.secret"
    size = (served.data / "small.root").stat().st_size
    for moved in (size, 0):
        assert Store(url, Access(cache_dir=tmp_path)).read([(0, size)]).bytes_read == moved
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(kept) == 1
    assert b"very.secret" not in kept[0].read_bytes()
    assert kept[0].parent.parent.stat().st_mode & 0o077 == 0


def test_folders_and_sizes_that_are_impossible_are_refused(tmp_path: Path) -> None:
    for wrong in ({"cache_dir": ""}, {"cache_dir": 3}, {"stage_dir": b"x"}, {"cache_size": "1 kB"}, {"cache_size": -1}):
        with pytest.raises(OptionError, match="invalid"):
            Access(**wrong)
    assert Access(cache_dir=tmp_path, cache_size="2 GB").as_dict()["cache_size"] == 2_000_000_000
