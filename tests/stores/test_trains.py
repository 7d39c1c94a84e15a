"""A train over files at servers gives what it gives over the same files on the local disk."""

from __future__ import annotations

import json
from pathlib import Path

import awkward as ak
import hist
import pytest
from tests.stores.conftest import Served

import branchline
from branchline.errors import MissingFileError


class Spectra:
    name = "spectra"

    def process(self, events: ak.Array) -> hist.Hist:
        return hist.Hist.new.Reg(50, 0, 1, name="pt").Double().fill(ak.flatten(events.pt))


def places(served: Served) -> dict[str, str]:
    return {
        "root": f"root://127.0.0.1:{served.cluster.redirector.port}/",
        "http": f"http://127.0.0.1:{served.nginx.port}",
    }


@pytest.mark.parametrize("kind", ["root", "http"])
def test_results_are_the_same(kind: str, served: Served, tmp_path: Path) -> None:
    base = places(served)[kind]
    names = ("events.root", "small.root")
    expected = branchline.run(
        [Spectra()], [f"{served.data}/{name}:events" for name in names], tmp_path / "local", workers=1
    )
    found = branchline.run([Spectra()], [f"{base}/{name}:events" for name in names], tmp_path / kind, workers=2)
    assert found.outputs["spectra"] == expected.outputs["spectra"]
    job = json.loads((tmp_path / kind / "job.json").read_text())
    assert [one["name"] for one in job["storage_elements"]] == [base.rstrip("/")]
    (link,) = [one for one in job["links"] if one["name"].startswith(base.rstrip("/"))]
    assert link["round_trip_s"] > 0
    # Too few bytes came to measure the bandwidth.
    assert link["bytes_per_second"] == 0
    assert link["choices"] >= 1
    assert "round trip" in (tmp_path / kind / "report.html").read_text()


def test_many_files_of_unknown_size_give_the_same_for_any_number_of_workers(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchline.reading.datasets.server_files.SIZES_QUERIED_S", 0.0)
    files = [f"{places(served)['http']}/small.root?{number}" for number in range(128)]
    one, three = (
        branchline.run([Spectra()], files, tmp_path / str(workers), tree="events", workers=workers)
        for workers in (1, 3)
    )
    assert one.exit_code == three.exit_code == 0
    assert one.outputs["spectra"] == three.outputs["spectra"]
    assert one.job["events"] == 128_000
    # About two files to each; where a sub-job begins follows from the names of the files.
    assert one.job["subjobs"] == three.job["subjobs"]
    assert 55 <= one.job["subjobs"] <= 75


@pytest.mark.parametrize("kind", ["root", "http"])
def test_a_file_that_is_not_there_is_skipped_if_that_was_asked_for(kind: str, served: Served, tmp_path: Path) -> None:
    base = places(served)[kind]
    files = [f"{base}/small.root:events", f"{base}/absent.root:events"]
    with pytest.raises(MissingFileError, match=r"1 of 2 files of the dataset are missing: .*absent\.root"):
        branchline.run([Spectra()], files, tmp_path / "strict", workers=1)
    with pytest.warns(UserWarning, match=r"skipped .*absent\.root"):
        result = branchline.run([Spectra()], files, tmp_path / "lax", skip_bad_files=True, workers=1)
    assert result.outputs["spectra"].sum() > 0


def test_a_secret_in_a_url_is_written_nowhere(served: Served, tmp_path: Path) -> None:
    url = f"{places(served)['http']}/small.root?x=1&authz=Bearer%20very.secret"
    result = branchline.run([Spectra()], [url], tmp_path / "out", workers=1, tree="events")
    assert result.outputs["spectra"].sum() > 0
    assert json.loads((tmp_path / "out" / "job.json").read_text())["dataset"][0]["entries"] == 1000
    assert not [one for one in (tmp_path / "out").rglob("*") if one.is_file() and b"very.secret" in one.read_bytes()]
