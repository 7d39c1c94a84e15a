"""Every figure on a report's page is that of job.json and of sensors.parquet, and shares add up."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

THIN_SPACE = "\N{NARROW NO-BREAK SPACE}"
SCALES = {"": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "B": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "B/s": 1.0}
SCALES |= {"ms": 1e-3, "s": 1.0, "%": 1.0}
#: Figures are written with three digits, or two for times below a second and ratios: half of the last one may be off.
DIGITS_3, DIGITS_2 = 0.0051, 0.051


def value_of(text: str) -> float:
    """The number in a text such as ``3 000 events``, ``71.1 MB``, ``287 ms``, in the unit's base."""
    found = re.match(r"([\d ]+(?:\.\d+)?)\s*([kMG]?B(?:/s)?|ms|s|%)?", text)
    assert found is not None, text
    return float(found.group(1).replace(" ", "")) * SCALES[found.group(2) or ""]


def words(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).replace(THIN_SPACE, " ").split())


class Page:
    """A report's page, taken apart."""

    def __init__(self, folder: Path) -> None:
        html = (folder / "report.html").read_text()
        self.root = ElementTree.fromstring(html.removeprefix("<!DOCTYPE html>"))

    def having(self, tag: str, kind: str = "") -> Iterator[ElementTree.Element]:
        return (one for one in self.root.iter(tag) if not kind or one.get("class") == kind)

    def facts(self) -> dict[str, tuple[str, str]]:
        (listed,) = self.having("ul", "facts")
        return {words(one[1]): (words(one[0]), words(one[2])) for one in listed}

    def phases(self) -> list[tuple[str, str, str]]:
        (listed,) = self.having("ul", "legend")
        return [(words(one[1]), words(one[2]), words(one[3])) for one in listed]

    def table(self, heading: str) -> list[dict[str, str]]:
        """The rows of the table whose first column has this heading; the last may be the one that adds up the rest."""
        for table in self.having("table"):
            heads = [words(one) for one in table.iter("th")]
            if heads[0] == heading:
                rows = [row for part in table if part.tag != "thead" for row in part]
                names = [words(one) for one in table[0][0]]
                return [dict(zip(names, map(words, row), strict=True)) for row in rows]
        raise AssertionError(f"there is no table of {heading}")


def check_facts(page: Page, job: dict[str, Any]) -> None:
    facts, totals = page.facts(), job["totals"]
    assert value_of(facts["wall time"][0]) == pytest.approx(job["wall_s"], rel=DIGITS_3)
    assert value_of(facts["wall time"][1]) == pytest.approx(job["cpu_s"], rel=DIGITS_2)
    assert value_of(facts["events"][0]) == job["events"]
    assert facts["events"][1] == f"in {len(job['files'])} files"
    assert value_of(facts["events/s"][0]) == pytest.approx(job["events"] / job["wall_s"], rel=DIGITS_3)
    read, wanted = facts["read from storage"][1].split(", ")
    assert value_of(read) == pytest.approx(totals["bytes_read"], rel=DIGITS_3)
    # The first baskets are decoded twice, to learn the branches and for all other events, and read once.
    decoded_part = min(1.0, totals["compressed_bytes"] / totals["bytes_read"])
    assert value_of(wanted) == pytest.approx(100 * decoded_part, abs=0.51)
    speed = value_of(facts["read from storage"][0])
    assert speed == pytest.approx(totals["bytes_read"] / job["wall_s"], rel=DIGITS_3)
    assert value_of(facts["after decompression"][1]) == pytest.approx(totals["plain_bytes"], rel=DIGITS_3)
    calls = facts["read calls per 1 000 events"]
    assert value_of(calls[0]) == pytest.approx(1000 * totals["read_calls"] / job["events"], rel=DIGITS_2)
    assert value_of(calls[1]) == totals["read_calls"]
    assert value_of(facts["peak memory"][0]) == pytest.approx(job["memory_peak_bytes"], rel=DIGITS_3)


def check_phases(page: Page, job: dict[str, Any]) -> None:
    rows = page.phases()
    shares = [0.0 if share.startswith("<") else value_of(share) for _, share, _ in rows]
    assert sum(shares) == pytest.approx(100.0, abs=1e-9)
    measured = [seconds for seconds in job["phases"].values() if seconds > 0]
    assert sorted(value_of(time) for *_, time in rows) == pytest.approx(sorted(measured), rel=DIGITS_2)
    assert sum(measured) == pytest.approx(job["wall_s"], rel=0.05)
    share, _, _ = words(next(page.having("h1"))).partition(" of the time went into")
    # If no step takes most of the time, the sentence begins with "No single step limits this job: ".
    share = share.rpartition(": ")[2]
    if share.endswith("%"):
        assert value_of(share) in [round(one) for one in shares] or value_of(share) in [round(s + 0.05) for s in shares]


def check_wagons(page: Page, job: dict[str, Any]) -> None:
    rows = page.table("Wagon")
    assert sum(value_of(row["Share"]) for row in rows) == pytest.approx(100.0, abs=1e-9)
    wagons = {wagon["name"]: wagon for wagon in job["wagons"]}
    assert {row["Wagon"] for row in rows} == set(wagons)
    for row in rows:
        wagon = wagons[row["Wagon"]]
        assert value_of(row["Time"]) == pytest.approx(wagon["seconds"], rel=DIGITS_2)
        assert value_of(row["Events"]) == wagon["events"]
        assert value_of(row["Chunks"]) == wagon["chunks"]
        assert value_of(row["Output"]) == pytest.approx(wagon["output_bytes"], rel=DIGITS_3)
        busy = 100 * wagon["cpu_s"] / wagon["seconds"]
        assert value_of(row["CPU busy"]) == pytest.approx(busy, abs=0.51)
        assert busy < 105


def check_branches(page: Page, job: dict[str, Any]) -> None:
    rows = page.table("Branch")
    shares = [0.0 if row["Share"].startswith("<") else value_of(row["Share"]) for row in rows]
    assert sum(shares) == pytest.approx(100.0, abs=1e-9)
    for name, field in (("Baskets", "baskets"), ("Compressed", "compressed_bytes"), ("Plain", "plain_bytes")):
        assert sum(value_of(row[name]) for row in rows) == pytest.approx(job["totals"][field], rel=DIGITS_3)
    of_branches = sum(branch["decompress_s"] for branch in job["branches"])
    assert sum(value_of(row["Decompress"]) for row in rows) == pytest.approx(of_branches, rel=DIGITS_2)


def check_files(page: Page, job: dict[str, Any]) -> None:
    rows = page.table("File")
    assert sum(value_of(row["Events"]) for row in rows) == job["events"]
    assert sum(value_of(row["Read"]) for row in rows) == pytest.approx(job["totals"]["bytes_read"], rel=DIGITS_3)
    for name, field in (("Time", "wall_s"), ("Fetch", "fetch_s"), ("Decompress", "decompress_s")):
        of_files = sum(file[field] for file in job["files"])
        assert sum(value_of(row[name]) for row in rows) == pytest.approx(of_files, rel=DIGITS_2)


def check_sensors(folder: Path, job: dict[str, Any]) -> None:
    rows = {(row["scope"], row["name"], row["sensor"]): row["value"] for row in rows_in(folder)}
    for name in ("wall_s", "cpu_s", "events", "memory_peak_bytes"):
        assert rows["job", "", name] == job[name]
    for phase, seconds in job["phases"].items():
        assert rows["job", "", f"{phase}_phase_s"] == seconds
    for name, value in job["totals"].items():
        assert rows["job", "", name] == value
        assert sum(v for (scope, _, n), v in rows.items() if (scope, n) == ("file", name)) == pytest.approx(value)
    for wagon in job["wagons"]:
        assert rows["wagon", wagon["name"], "seconds"] == wagon["seconds"]
    for branch in job["branches"]:
        assert rows["branch", branch["name"], "plain_bytes"] == branch["plain_bytes"]


def rows_in(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder / "sensors.parquet").to_pylist()
    return rows


def check_report(folder: Path) -> None:
    """All of it, for the report in one folder."""
    page, job = Page(folder), json.loads((folder / "job.json").read_text())
    check_facts(page, job)
    check_phases(page, job)
    check_wagons(page, job)
    check_branches(page, job)
    check_files(page, job)
    check_sensors(folder, job)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_page_the_record_and_the_sensors_tell_the_same(
    branchline: Any, wagons: Path, data: Path, tmp_path: Path, workers: int
) -> None:
    ended = branchline("run", wagons, data, "-o", "out", "--workers", workers)
    assert ended.returncode == 0, ended.stderr
    check_report(tmp_path / "out")
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    heading = words(next(Page(tmp_path / "out").having("h1")))
    printed = ended.stdout.splitlines()
    assert printed[1] == heading, "the terminal and the page say the same"
    facts = Page(tmp_path / "out").facts()
    speed, read = facts["events/s"][0], facts["read from storage"][0]
    assert (
        printed[0] == f"finished: 360 000 events in {facts['wall time'][0]}, {speed} events/s, {read} read from storage"
    )
    assert job["events"] == 360_000
