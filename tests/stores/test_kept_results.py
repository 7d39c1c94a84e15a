"""Results of files at servers are kept only under the version of the file that was read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from tests.stores.conftest import Served
from tests.unit.trains.wagons.conftest import run_in_chunks

from branchline.reading.datasets.identity import is_other_version, version_of

OLD_NS = 1_700_000_000_000_000_000


def write(path: Path, seed: int, written_ns: int) -> None:
    with uproot.recreate(path, compression=None) as file:
        file.mktree("events", {"x": "int64"}).extend({"x": np.random.default_rng(seed).integers(0, 99, 50)})
    os.utime(path, ns=(written_ns, written_ns))
    path.chmod(0o644)


WAGON = """
import numpy as np


def total(events):
    return int(np.sum(np.asarray(events.x)))
"""


def urls(served: Served) -> dict[str, str]:
    return {
        "root": f"root://127.0.0.1:{served.xrootd.port}//",
        "redirector": f"root://127.0.0.1:{served.cluster.redirector.port}//",
        "http": f"http://127.0.0.1:{served.nginx.port}/",
        "http of XRootD": f"http://127.0.0.1:{served.xrootd_http_port}/",
    }


@pytest.fixture
def own_folder(served: Served, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder at the servers that is removed after the test: other tests list all of them."""
    folder = served.data / f"kept-{abs(hash(request.node.name))}"
    folder.mkdir()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("form", ["file", "folder"])
@pytest.mark.parametrize("kind", ["root", "redirector", "http", "http of XRootD"])
def test_a_file_that_was_replaced_when_it_was_read_is_not_kept(
    served: Served, own_folder: Path, tmp_path: Path, kind: str, form: str
) -> None:
    """It comes back with its old time before the next run."""
    folder, name = own_folder, own_folder.name
    path, first, second = folder / "f.root", tmp_path / "one" / "f.root", tmp_path / "two" / "f.root"
    for one in (first, second):
        one.parent.mkdir()
    write(first, 1, OLD_NS)
    write(second, 2, OLD_NS + 5_000_000_000)
    assert first.stat().st_size == second.stat().st_size
    shutil.copy2(first, path)
    (tmp_path / "wagons.py").write_text(WAGON)
    total = f"{tmp_path / 'wagons.py'}:total"
    where = f"{urls(served)[kind]}{name}/" + ("f.root" if form == "file" else "")
    if form == "folder" and kind.startswith("http"):
        pytest.skip("these servers list no folders")
    settings: dict[str, Any] = {"ledger": tmp_path / "ledger", "tree": "events", "workers": 1}
    right = run_in_chunks(total, str(first), tree="events").outputs["total"]
    replaced = run_in_chunks(total, where, begin=lambda *_: shutil.copy2(second, path), **settings)
    assert replaced.outputs["total"] != right
    assert any("f.root" in one for one in replaced.record.reuse_notes), replaced.record.reuse_notes
    shutil.copy2(first, path)
    again = run_in_chunks(total, where, **settings)
    assert again.outputs["total"] == right
    assert again.record.subjobs_reused == 0
    taken = run_in_chunks(total, where, **settings)
    assert taken.outputs["total"] == right
    assert taken.record.subjobs_reused == 1


@pytest.mark.parametrize("is_sized", [True, False])
def test_a_checksum_of_a_fileset_is_the_version_of_a_file(
    served: Served, own_folder: Path, tmp_path: Path, is_sized: bool
) -> None:
    """The server tells none."""
    path = own_folder / "f.root"
    write(path, 1, OLD_NS)
    (tmp_path / "wagons.py").write_text(WAGON)
    total = f"{tmp_path / 'wagons.py'}:total"
    url = f"http://127.0.0.1:{served.nginx.port}/no-versions/{own_folder.name}/f.root"
    right = run_in_chunks(total, str(path), tree="events").outputs["total"]
    reused = []
    for version in (None, None, "adler32:1", "adler32:00000001", "adler32:2"):
        described = {"object_path": "events"} | ({"version": version} if version else {})
        described |= {"size_bytes": path.stat().st_size} if is_sized else {}
        result = run_in_chunks(total, {"mine": {"files": {url: described}}}, ledger=tmp_path / "ledger", workers=1)
        assert result.outputs["total"] == right
        reused.append(result.record.subjobs_reused)
    assert reused == [0, 0, 0, 1, 0]


@pytest.mark.parametrize("where", ["root", "http", "no versions"])
def test_a_version_in_a_fileset_replaces_size_and_time(
    served: Served, own_folder: Path, tmp_path: Path, where: str
) -> None:
    bases = {**urls(served), "no versions": f"http://127.0.0.1:{served.nginx.port}/no-versions/"}
    write(own_folder / "f.root", 1, OLD_NS)
    (tmp_path / "wagons.py").write_text(WAGON)

    def reused(version: str | None) -> tuple[int, list[str]]:
        file = {"object_path": "events", "version": version}
        fileset = {"data": {"files": {f"{bases[where]}{own_folder.name}/f.root": file}}}
        wagon = f"{tmp_path / 'wagons.py'}:total"
        result = run_in_chunks(wagon, fileset, ledger=tmp_path / "ledger", workers=1)  # type: ignore[arg-type]
        return result.record.subjobs_reused, result.record.reuse_notes

    assert reused("adler32:1b2c3d")[0] == 0
    assert reused("adler32:001B2C3D") == (1, [])
    os.utime(own_folder / "f.root", ns=(OLD_NS + 10**10, OLD_NS + 10**10))
    assert reused("adler32:1b2c3d") == (1, [])
    assert reused("adler32:1b2c3e")[0] == 0
    found, notes = reused(None)
    assert found == 0
    assert [one for one in notes if "neither a modification time nor an ETag" in one] or where != "no versions"


@pytest.mark.parametrize(
    ("one", "other", "differs"),
    [
        ('"abc"', '"abd"', True),
        ('"abc"', "Thu, 01 Jan 2026 00:00:00 GMT", False),
        ("Thu, 01 Jan 2026 00:00:00 GMT", "2026-01-01T00:00:00Z", False),
        ("Thu, 01 Jan 2026 00:00:00 GMT", "2026-01-01T00:00:01Z", True),
        ("written 5 s", "written 6 s", True),
        ("", '"abc"', False),
        ("a version of a library", "another", False),
    ],
)
def test_versions_are_compared_where_they_are_of_one_form(one: str, other: str, differs: bool) -> None:
    assert is_other_version(one, other) is differs
    assert is_other_version(other, one) is differs
    assert not is_other_version(one, one)


def test_the_version_of_a_file_has_the_form_of_listings() -> None:
    assert version_of("root://host//a", 10, "10 77 1700000000") == "written 1700000000 s"
    assert version_of("root://host//a", 10, "10 1700000000") == "written 1700000000 s"
    assert version_of("https://host/a", 10, '10 "etag"') == '"etag"'
    assert version_of("https://host/a", 10, None) == ""
