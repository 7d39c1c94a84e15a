"""Replicas with different checksums are different files, also where all that was read of both is the same."""

from __future__ import annotations

import hashlib
import random
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from tests.patience import HANG_S
from tests.stores.conftest import Served
from tests.stores.scripted_xrootd import QUERY, xrootd_script
from tests.stores.servers import HTTP, Folder, Xrootd, free_port, hand_over, program
from tests.stores.servers_s3 import Moto, set_s3

from branchline._core import Store, take_troubles
from branchline.errors import BranchlineError

CONTENT = random.Random(11).randbytes(300_000)
# The same where it is read before and after the first server goes, and another behind that.
OTHER = CONTENT[:-10] + b"0123456789"
CHECKSUM = "xrootd.chksum adler32\n"
MD5 = "xrootd.chksum md5\n"


@contextmanager
def two_servers(
    folder: Folder, shim: Path, other: bytes, more: str = CHECKSUM
) -> Iterator[tuple[list[Xrootd], list[int]]]:
    servers, ports = [], []
    with ExitStack() as stack:
        for name, content in (("one", CONTENT), ("two", other)):
            data = folder.below(f"{name}-data")
            (data / "f.bin").write_bytes(content)
            data.chmod(0o755)
            hand_over(data, data / "f.bin")  # where servers keep checksums that they have made
            ports.append(free_port())
            servers.append(Xrootd(folder.below(name), data, shim, more + HTTP.format(port=ports[-1])))
            stack.callback(servers[-1].kill)
            servers[-1].start()
            if more:
                make_checksum(servers[-1], more.split()[1])
        yield servers, ports


def read_until_its_checksum_is_known(store: Store) -> None:
    """Reads the first bytes. A thread of the store requests the checksum meanwhile, and ends with the answer."""
    before = names_of_threads()
    assert store.read([(0, 1000)]).contents == [CONTENT[:1000]]
    own = Path("/proc/thread-self/comm").read_text()
    end_s = time.monotonic() + HANG_S
    # A thread has the name of the one that started it before it has its own.
    while [
        name
        for number, name in names_of_threads().items()
        if number not in before and (name == own or "branchline-checksum".startswith(name.strip()))
    ]:
        assert time.monotonic() < end_s, "the checksum does not come"
        time.sleep(0.01)


def names_of_threads() -> dict[str, str]:
    """Of this process, by their numbers."""
    names = {}
    for thread in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            names[thread.name] = (thread / "comm").read_text()
    return names


def make_checksum(server: Xrootd, kind: str) -> None:
    """The first time it reads all of the file for it."""
    query = [program("xrdfs"), f"127.0.0.1:{server.port}", "query", "checksum", "/f.bin"]
    assert kind.encode() in subprocess.run(query, capture_output=True, check=True, timeout=280).stdout


def urls(kind: str, servers: list[Xrootd], ports: list[int]) -> str:
    each = {
        "root": [f"root://127.0.0.1:{one.port}//f.bin" for one in servers],
        "http": [f"http://127.0.0.1:{port}/f.bin" for port in ports],
    }
    kinds = kind.split("-")
    return " | ".join(each[kinds[index % len(kinds)]][index] for index in range(2))


@pytest.mark.parametrize("kind", ["root", "http", "root-http"])
def test_a_replica_with_another_checksum_is_not_mixed_in(kind: str, served: Served, own_folder: Folder) -> None:
    with two_servers(own_folder, served.shim, OTHER) as (servers, ports):
        take_troubles()
        store = Store(urls(kind, servers, ports))
        read_until_its_checksum_is_known(store)
        servers[0].kill()
        with pytest.raises(
            BranchlineError, match="differs from the file that was opened first: its checksum is adler32:"
        ):
            store.read([(5000, 1000)])
        assert sum(one.replicas_refused for one in take_troubles()) == 1


@pytest.mark.parametrize("more", [CHECKSUM, ""])
def test_a_replica_with_the_same_checksum_or_none_goes_on(more: str, served: Served, own_folder: Folder) -> None:
    with two_servers(own_folder, served.shim, CONTENT, more) as (servers, ports):
        for kind in ("root", "http"):
            store = Store(urls(kind, servers, ports))
            read_until_its_checksum_is_known(store)
            servers[0].kill()
            assert store.read([(5000, 1000)]).contents == [CONTENT[5000:6000]]
            servers[0].start()


def put_in_parts(moto: Moto, key: str, content: bytes) -> None:
    """Then its entity tag is no checksum of it."""
    target = f"/{moto.bucket}/{key}"
    begun = moto.request("POST", f"{target}?uploads").decode()
    upload = begun.partition("<UploadId>")[2].partition("</UploadId>")[0]
    moto.request("PUT", f"{target}?partNumber=1&uploadId={upload}", content)
    part = f"<Part><PartNumber>1</PartNumber><ETag>{hashlib.md5(content).hexdigest()}</ETag></Part>"
    done = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>"
    moto.request("POST", f"{target}?uploadId={upload}", done.encode())


def read_and_lose_the_first(moto: Moto, locations: str, key: str) -> list[bytes]:
    store = Store(locations)
    read_until_its_checksum_is_known(store)
    moto.request("DELETE", f"/{moto.bucket}/{key}")
    return store.read([(5000, 1000)]).contents


def test_objects_of_s3_have_checksums(moto: Moto, monkeypatch: pytest.MonkeyPatch) -> None:
    set_s3(monkeypatch, moto)
    both = "s3://data/sums/one.bin | s3://data/sums/two.bin"
    for put in (moto.put, partial(put_in_parts, moto)):
        put("sums/one.bin", CONTENT)
        put("sums/two.bin", CONTENT)
        assert read_and_lose_the_first(moto, both, "sums/one.bin") == [CONTENT[5000:6000]]
    moto.put("sums/one.bin", CONTENT)
    moto.put("sums/two.bin", OTHER)
    with pytest.raises(BranchlineError, match="differs from the file that was opened first: its checksum is md5:"):
        read_and_lose_the_first(moto, both, "sums/one.bin")
    # The server gives a sum that was stored with the object where the entity tag is none.
    for content, is_same in ((CONTENT, True), (OTHER, False)):
        for name, one in (("one", CONTENT), ("two", content)):
            sum_ = b64encode(hashlib.sha256(one).digest()).decode()
            encrypted = {"x_amz_server_side_encryption": "aws:kms"}
            headers = {"x_amz_checksum_sha256": sum_, "x_amz_sdk_checksum_algorithm": "SHA256"}
            moto.request("PUT", f"/data/sums/{name}.bin", one, **headers, **encrypted)
        if is_same:
            assert read_and_lose_the_first(moto, both, "sums/one.bin") == [CONTENT[5000:6000]]
        else:
            with pytest.raises(BranchlineError, match="its checksum is sha256:"):
                read_and_lose_the_first(moto, both, "sums/one.bin")


@pytest.mark.parametrize("kind", ["root", "http"])
def test_an_object_of_s3_is_compared_with_a_file_of_another_place(
    kind: str, moto: Moto, served: Served, own_folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_s3(monkeypatch, moto)
    key = f"sums/{kind}.bin"
    moto.put(key, CONTENT)
    with two_servers(own_folder, served.shim, OTHER, MD5) as (servers, ports):
        same, other = urls(kind, servers, ports).split(" | ")
        for second in (same, other):
            moto.put(key, CONTENT)
            if second is same:
                assert read_and_lose_the_first(moto, f"s3://data/{key} | {second}", key) == [CONTENT[5000:6000]]
            else:
                with pytest.raises(BranchlineError, match="its checksum is md5:"):
                    read_and_lose_the_first(moto, f"s3://data/{key} | {second}", key)


def test_opening_asks_for_no_checksum_and_neither_does_a_file_that_is_alone() -> None:
    asked: list[int] = []

    def hook(_number: int, _stream: bytes, code: int, arguments: bytes, _payload: bytes) -> bytes | None:
        asked.extend([arguments[1]] if code == QUERY else [])
        return None

    with xrootd_script(CONTENT, hook) as (url, _, _):
        alone = Store(url)
        assert alone.read([(0, 10)]).contents == [CONTENT[:10]]
        several = Store(f"{url} | {url}?again")
        assert 3 not in asked
        assert several.read([(0, 10)]).contents == [CONTENT[:10]]
        end_s = time.monotonic() + HANG_S
        while 3 not in asked and time.monotonic() < end_s:
            time.sleep(0.01)
    assert asked.count(3) == 1
