"""A new user: from the first page of an empty control room to a tested wagon, and to the results of a train."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uproot
from tests.pages.conftest import Keep, Open, expect
from tests.unit.control.web.server import Server
from tests.unit.reading.trees.conftest import write_sample

WAGON = """
import hist


class Spectrum:
    branches = ["energy"]

    def __init__(self, bins: int = 20):
        self.bins = bins

    def process(self, events):
        histogram = hist.Hist.new.Reg(self.bins, 0, 100, name="energy").Weight()
        return histogram.fill(events.energy.to_numpy())
"""
TRIED_MS = 120_000


# Tests name it before the viewer: pages that are still open when a server ends complain.
@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Server]:
    for number in range(3):
        write_sample(tmp_path / f"f{number}.root", uproot.ZLIB(1), (400, 600))
    (tmp_path / "spectrum.py").write_text(WAGON)
    with Server(tmp_path / "room") as server:
        yield server


def test_from_the_first_page_to_a_tested_wagon_and_its_results(
    empty: Server, viewer: Open, tmp_path: Path, picture: Keep
) -> None:
    begin = time.monotonic()
    page = viewer("/", server=empty)
    expect(page.get_by_text(f"BRANCHLINE_REPORT_TO={empty.base}")).to_be_visible()
    assert str(tmp_path / "room/token") in page.locator("#jobs").inner_text()
    picture(page, "new-user-first")
    page.get_by_role("link", name="register a wagon").click()
    page.get_by_label("Python file").set_input_files(tmp_path / "spectrum.py")
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Spectrum")
    page.get_by_role("link", name="register one").click()
    page.get_by_label("Name", exact=True).fill("sample")
    page.get_by_label("Files, one a line").fill(str(tmp_path / "f*.root"))
    page.get_by_role("button", name="Register").click()
    page.get_by_role("button", name="Enable", exact=False).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("sample")
    # It appears by itself.
    expect(page.get_by_role("link", name="done", exact=True)).to_be_visible(timeout=TRIED_MS)
    picture(page, "new-user-dataset")
    page.get_by_role("link", name="done", exact=True).click()
    expect(page.get_by_text("Forecast for the whole dataset")).to_be_visible()
    print(f"from the first page to a tested wagon, without thinking and typing: {time.monotonic() - begin:.0f} s")
    page.get_by_role("link", name="Trains").click()
    page.get_by_role("link", name="New train").click()
    page.get_by_label("Name", exact=True).fill("first")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("link", name="results.root")).to_be_visible(timeout=TRIED_MS)
    picture(page, "new-user-train")
    with page.expect_download() as download:
        page.get_by_role("link", name="results.root").click()
    with uproot.open(download.value.path()) as results:
        [name] = results.keys(cycle=False)
        assert results[name].values(flow=True).sum() == 3000
    page.get_by_role("link", name="Run it with changes").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("first")
    expect(page.get_by_label("Place:", exact=False)).to_have_value("here")
    expect(page.get_by_role("checkbox")).to_be_checked()
    page.get_by_label("Workers", exact=False).fill("1")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Train 2: first")
    expect(page.get_by_role("link", name="results.root")).to_be_visible(timeout=TRIED_MS)


@pytest.mark.long
def test_a_wagon_is_enabled_and_disabled_on_its_own_page_and_on_that_of_the_dataset(
    empty: Server, viewer: Open, tmp_path: Path
) -> None:
    empty.do("upload", text=WAGON)
    empty.do("save-dataset", name="sample", files=str(tmp_path / "f*.root"))
    owner = empty.get("/grid.json").json()["wagons"][0]["owner"]
    page = viewer(f"/wagons/{owner}/Spectrum", server=empty)
    page.get_by_role("button", name="Enable", exact=False).click()
    expect(page).to_have_url(f"{empty.base}/wagons/{owner}/Spectrum")
    page.get_by_role("link", name=f"{owner}/sample").click()
    page.get_by_role("button", name="Disable", exact=False).click()
    expect(page).to_have_url(f"{empty.base}/datasets/{owner}/sample")
    expect(page.locator("#wagons").get_by_text("off", exact=True)).to_be_visible()
    shown = [
        empty.get(f"/{one}").json()["cells"]
        for one in (f"wagons/{owner}/Spectrum.json", f"datasets/{owner}/sample.json")
    ]
    assert shown[0] == shown[1]
    assert [one["is_enabled"] for one in shown[0]] == [False]
