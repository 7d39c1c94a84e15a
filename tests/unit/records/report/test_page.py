"""The report's page: whole, safe, small and without network, whatever the record holds."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.unit.records.report.from_json import of_json

from branchline.reading.datasets.data_file import DataFile
from branchline.records.diagnosis.diagnosis import diagnosis as diagnosis_of_record
from branchline.records.report import report_page
from branchline.records.report.bars import stack
from branchline.records.report.report_page import page_html as page_html_of_record
from branchline.trains.running.missing import Missing, SetAside, SubJobFailure
from branchline.trains.subjobs.shares import Share

diagnosis = of_json(diagnosis_of_record)
page_html = of_json(page_html_of_record)

Maker = Callable[..., dict[str, Any]]

#: What would run or load something if a name could break out of its place in the page.
HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7 * 7 }}{% raw %}&amp;</style>]]>\x00\x1b\ud800"


def _elements(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(html.removeprefix("<!DOCTYPE html>"))


def _text(html: str) -> str:
    """Return the page's text as a reader sees it, thin spaces as spaces."""
    text = " ".join("".join(_elements(html).itertext()).split())
    return text.replace("\N{NARROW NO-BREAK SPACE}", " ")


def _spoiled(value: Any) -> Any:
    """Return a record in which every text is hostile."""
    if isinstance(value, dict):
        return {key: item if key == "status" else _spoiled(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_spoiled(item) for item in value]
    return HOSTILE + value if isinstance(value, str) else value


def test_the_page_opens_with_the_sentence_and_the_status(job: dict[str, Any], tmp_path: Path) -> None:
    html = page_html(job, tmp_path)
    heading = "".join(next(_elements(html).iter("h1")).itertext()).replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert heading == diagnosis(job)
    assert _text(html).index("Finished.") < _text(html).index("Where the time went")


def test_the_phases_of_the_bar_fill_it(job: dict[str, Any], tmp_path: Path) -> None:
    html = page_html(job, tmp_path)
    bar = html[html.index('class="stack tall"') :].partition("</div>")[0]
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%", bar)]
    assert len(widths) == 10
    assert sum(widths) == pytest.approx(100, abs=0.1)
    assert "Together 12.4 s, 100 % of the wall time of 12.4 s." in _text(html)


def test_a_phase_that_the_page_does_not_know_is_shown_by_its_name(job: dict[str, Any], tmp_path: Path) -> None:
    job["phases"]["skim"] = 0.9
    assert "skim" in _text(page_html(job, tmp_path))


def test_every_section_is_there(job: dict[str, Any], tmp_path: Path) -> None:
    text = _text(page_html(job, tmp_path))
    for heading in (
        "The job over time",
        "Wagons",
        "Branches by cost",
        "Files by time",
        "Storage elements",
        "Conditions",
    ):
        assert heading in text
    assert "0.80 read calls per 1 000 events" in text
    assert "branchline run wagons.py" in text
    assert "particle_mass (1)" in text


def test_a_partial_job_says_what_is_missing(job: dict[str, Any], tmp_path: Path) -> None:
    job.update(status="partial", events=52_500)
    error = {
        "type": "ValueError",
        "message": "no jets",
        "path": "/data/a.root",
        "entry_start": 1000,
        "entry_stop": 2000,
        "line": "wagons.py, line 12",
    }
    job["wagons"][1].update(error={**error, "traceback": "Traceback: deep inside"}, status="stopped", events=8500)
    job["skipped"] = [
        {"path": "/data/bad.root", "entries_lost": 2500, "error": "/data/bad.root: it ends after 12 bytes"},
        {"path": "/data/gone.root", "entries_lost": None, "error": "there is no such file"},
    ]
    html = page_html(job, tmp_path)
    text = _text(html)
    assert "This result is partial." in text
    assert "52 500 of 60 000 events were processed (88 %)" in text
    assert text.index("This result is partial.") < text.index(diagnosis(job)), "the page leads with it"
    assert (
        "stopped at entries 1 000 to 2 000 of /data/a.root, after 8 500 events in 24 chunks: "
        "ValueError: no jets (wagons.py, line 12)"
    ) in text
    assert "2 of 24 files: 2 500 events lost, and an unknown number lost in 1 file" in text
    assert "/data/bad.root: 2 500 events lost. it ends after 12 bytes" in text
    (folded,) = _elements(html).iter("details")
    assert "deep inside" in "".join(folded.itertext())


def test_a_missing_sub_job_stands_at_one_place(job: dict[str, Any], tmp_path: Path) -> None:
    share = Share((DataFile("/data/a.root", tree="t", entry_start=0, entry_stop=70),))
    missing = Missing([share], {0: SetAside(SubJobFailure("its process was killed"))}, allow_missing=0.0)
    error = missing.error()
    assert error is not None
    made = [vars(error.fault()), *map(asdict, missing.further_faults())]
    job.update(status="partial", errors=made, missing=[asdict(one) for one in missing.records])
    job["skipped"] = [asdict(one) for one in missing.skipped()] + [{"path": "/data/b.root", "error": "it is cut"}]
    text = _text(page_html(job, tmp_path))
    assert text.count("its process was killed") == 1
    assert "it is cut" in text


def test_a_wagon_that_stopped_before_its_first_chunk_has_a_reason(job: dict[str, Any], tmp_path: Path) -> None:
    job["status"] = "partial"
    error = {"type": "NoSuchBranchError", "message": "no jets", "path": None, "entry_start": None, "entry_stop": None}
    job["wagons"][0].update(error={**error, "line": "", "traceback": ""}, status="stopped", events=0, chunks=0)
    assert "stopped after 0 events in 0 chunks: NoSuchBranchError: no jets" in _text(page_html(job, tmp_path))


def test_what_is_partial_is_marked_where_it_stands(job: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    row = {"kind": "histogram", "key": "pt", "format": "UHI JSON", "files": [], "root": [], "note": None}
    job["results"] = []
    for wagon in job["wagons"]:
        picture = f"pictures/{wagon['name']}.svg"
        (tmp_path / picture).write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
        job["results"].append({**row, "wagon": wagon["name"], "picture": picture})
    job["wagons"][1].update(status="partial", events=8500)
    html = page_html(job, tmp_path)
    marks = [
        "".join(mark.itertext()).replace("\N{NARROW NO-BREAK SPACE}", " ") for mark in _elements(html).iter("mark")
    ]
    beside_picture, beside_result = "partial: 8 500 of 60 000 events", "partial: 8 500 of 60 000 events"
    assert marks == ["partial", beside_picture, beside_result]


def test_a_job_that_never_ended_says_so(job: dict[str, Any], tmp_path: Path) -> None:
    job["status"] = "running"
    assert "This job has not finished." in _text(page_html(job, tmp_path))


def test_shares_add_up_to_all_of_it(job: dict[str, Any], tmp_path: Path) -> None:
    job["phases"] = {name: seconds * 1.0137 for name, seconds in job["phases"].items()}
    legend = page_html(job, tmp_path).partition('class="legend"')[2].partition("</ul>")[0]
    shares = [float(share) for share in re.findall(r"<b>([\d.]+)\N{NARROW NO-BREAK SPACE}%</b>", legend)]
    assert len(shares) == 10
    assert sum(shares) == pytest.approx(100, abs=1e-9)


def test_what_was_read_beside_the_wanted_branches_is_explained(job: dict[str, Any], tmp_path: Path) -> None:
    assert "of it wanted" in _text(page_html(job, tmp_path))
    assert "read whole" not in _text(page_html(job, tmp_path))
    job["totals"]["compressed_bytes"] = 30_000_000
    text = _text(page_html(job, tmp_path))
    assert "76.8 MB, 39 % of it wanted" in text
    assert "Of the 76.8 MB read, 30.0 MB are baskets of the 21 branches that were needed" in text


def test_the_page_suits_dark_screens_and_prints_light(job: dict[str, Any], tmp_path: Path) -> None:
    html = page_html(job, tmp_path)
    assert '<meta name="color-scheme" content="light dark"/>' in html
    assert "@media screen and (prefers-color-scheme: dark)" in html


def test_a_failed_job_has_a_page(tmp_path: Path) -> None:
    job = {"status": "failed", "errors": [{"type": "MissingFileError", "message": "/a.root: there is no such file"}]}
    text = _text(page_html(job, tmp_path))
    assert "This job failed." in text
    assert "Nothing was processed: /a.root: there is no such file." in text
    assert _text(page_html({}, tmp_path)).startswith("This job failed. Nothing was processed")


def test_nothing_in_a_record_can_become_part_of_the_page(job: dict[str, Any], tmp_path: Path) -> None:
    job.update(status="partial", skipped=[{"path": "p", "entries_lost": None, "error": "e"}])
    job["errors"] = [{"type": "t", "message": "m", "path": "p", "traceback": "tb"}]
    error = {"type": "t", "message": "m", "path": "p", "entry_start": 0, "entry_stop": 1, "traceback": "tb"}
    job["wagons"][0]["error"] = error
    job["results"] = [{"wagon": "w", "key": "k", "kind": "data", "format": "JSON", "files": ["f"], "root": ["r"],
                       "picture": None, "note": "n"}]  # fmt: skip
    job["misses"] = {HOSTILE: 1}
    job["versions"] = {HOSTILE: "1"}
    job["phases"][HOSTILE] = 0.1
    html = page_html(_spoiled(job), tmp_path)
    html.encode("utf-8")
    tags = {element.tag for element in _elements(html).iter()}
    assert not tags & {"script", "img", "iframe", "object", "embed", "link", "base", "form"}
    names = {name for element in _elements(html).iter() for name in element.attrib}
    assert not [name for name in names if name.startswith("on") or name in ("src", "href")]
    assert "<script" not in html
    assert "alert(2)&gt;{{ 7 * 7 }}{% raw %}" in html
    assert html.count("&lt;script&gt;alert(1)") > 50
    assert html.count("</style>") == 1


def test_the_page_loads_nothing(job: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    picture = '<svg xmlns="http://www.w3.org/2000/svg"/>'
    (tmp_path / "pictures" / "pt.svg").write_text(picture)
    row = {"wagon": "w", "key": "pt", "kind": "histogram", "format": "UHI JSON", "files": [], "root": [], "note": None}
    job["results"] = [row | {"picture": "pictures/pt.svg"}, row | {"picture": "pictures/gone.svg"}]
    html = page_html(job, tmp_path)
    sources = re.findall(r"""(?:src|href|srcset|action|data|poster)=["']([^"']*)""", html)
    assert sources == ["data:image/svg+xml;base64," + base64.b64encode(picture.encode()).decode()]
    assert "@import" not in html
    assert "url(" not in html
    assert "more are in the folder" not in _text(html), "a picture that is missing is not in the folder"


def test_the_pictures_that_are_not_on_the_page_are_counted(
    job: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_page, "INLINE_MAX", 1)
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "pt.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    row = {"wagon": "w", "key": "pt", "kind": "histogram", "format": "UHI JSON", "files": [], "root": [], "note": None}
    job["results"] = [row | {"picture": f"pictures/{name}.svg"} for name in ("gone", "pt", "pt", "gone", "pt")]
    html = page_html(job, tmp_path)
    assert html.count("data:image/svg+xml") == 1
    assert "2 more are in the folder pictures/" in _text(html)


@pytest.mark.long
def test_the_page_of_a_very_large_job_stays_small(job_with: Maker, tmp_path: Path) -> None:
    job = job_with(files_count=100_000, branches_count=1500)
    job["timeline"] = [
        {"t_s": 0.0001 * index, "events": index, "bytes_read": 50 * index, "plain_bytes": 90 * index}
        for index in range(1, 100_001)
    ]
    job["skipped"] = [{"path": f"/data/{index}.root", "entries_lost": 1, "error": "x" * 5000} for index in range(5000)]
    job["wagons"] = [dict(job["wagons"][0], name=f"wagon {index}") for index in range(500)]
    job["worker_phases"] = [dict(job["worker_phases"][0], worker=index) for index in range(2000)]
    html = page_html(job, tmp_path)
    assert len(html) < 150_000
    text = _text(html)
    assert "99 988 other files" in text
    assert "1 484 other branches" in text
    assert "4 960 more files, listed in job.json" in text
    assert "460 more are in job.json" in text


def test_what_the_page_of_a_thousand_nodes_leaves_out_is_said(job: dict[str, Any], tmp_path: Path) -> None:
    job["activity"] = [
        {"host": f"node{index:04}", "stage": 0, "begin_s": 0.0, "end_s": 1.0 + index} for index in range(1000)
    ]
    job["workers_lost"] = [
        {
            "worker": index,
            "host": f"node{index:04}",
            "pid": 7,
            "seconds": 60.0,
            "how": "asleep",
            "doing": "f",
            "subjobs": [],
        }
        for index in range(200)
    ]
    job["failures"] = [
        {
            "message": f"way {index}",
            "subjobs": [2 * index, 2 * index + 1],
            "files": ["a.root"],
            "example": "",
            "log": "",
        }
        for index in range(14)
    ]
    job["missing"] = [
        {"index": index, "cause": "out of memory", "attempts": 2, "files": [], "doing": ""} for index in range(50)
    ]
    text = _text(page_html(job, tmp_path))
    assert "960 more are in job.json" in text
    assert "and 189 more entries, listed in job.json" in text
    assert "8 sub-jobs failed in 4 other ways, listed in job.json." in text
    assert "and 10 more sub-jobs, listed in job.json" in text


def test_bytes_from_local_copies_count_as_read(job: dict[str, Any], tmp_path: Path) -> None:
    job["totals"] |= {"bytes_read": 10_000_000, "cached_bytes": 90_000_000, "compressed_bytes": 50_000_000}
    text = _text(page_html(job, tmp_path))
    assert "50 % of it wanted" in text
    assert "Of the 100 MB read, 50.0 MB are baskets" in text


def test_long_texts_are_cut(job: dict[str, Any], tmp_path: Path) -> None:
    job["branches"][0]["name"] = "x" * 10_000_000
    assert len(page_html(job, tmp_path)) < 100_000


def test_slices_of_no_length_are_left_out() -> None:
    slices = stack([("a", 1.0, "#000000"), ("b", 0.0, "#000000"), ("c", 3.0, "#ffffff")], 4.0)
    assert [(part.label, part.start, part.width) for part in slices] == [("a", 0, 25), ("c", 25, 75)]
    assert slices[1].is_light
    assert not slices[0].is_light
