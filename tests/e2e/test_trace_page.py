"""The page of a trace in a real browser: it draws, zooms down to one basket and names it, in light and dark."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.e2e.browser import Browser
from tests.peers.peers import missing

from branchline.reading.layout.file_layout import inspect_file
from branchline.tracing.strace import follow
from branchline.tracing.trace import PART, RowGroup, Trace, read_trace
from branchline.tracing.trace_comparison import write_comparison
from branchline.tracing.trace_page import write_page

READ = """
import sys, uproot
with uproot.open(sys.argv[1]) as file:
    file["events"].arrays(library="np")
"""


@pytest.fixture(scope="module")
def trace(collisions: Path, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """uproot reading a file of collisions."""
    shutil.which("strace") or missing("strace")
    folder = tmp_path_factory.mktemp("trace")
    follow([sys.executable, "-c", READ, str(collisions / "collisions-001.root")]).write(folder / "t.parquet")
    return read_trace(folder / "t.parquet")


def test_a_page_zooms_down_to_one_basket_and_names_it(trace: Trace, collisions: Path, tmp_path: Path) -> None:
    write_page(trace, tmp_path / "trace.html")
    layout = inspect_file(str(collisions / "collisions-001.root"))
    smallest = int(layout.extents.size.argmin())
    offset, wanted = int(layout.extents.offset[smallest]), layout.numbers[int(layout.extents.branch[smallest])]
    with Browser(tmp_path / "profile") as browser:
        browser.open(tmp_path / "trace.html")
        assert browser.value("document.querySelectorAll('canvas').length") == 4
        assert inked(browser) > 0
        drawn = {name: browser.value(f"[...views[0].parts.{name}]") for name in ("offset", "size", "request")}
        parts = trace.rows_of(PART)
        shown = sorted(zip(*(parts[name].to_pylist() for name in ("offset", "size_bytes", "request")), strict=True))
        assert sorted(zip(drawn["offset"], drawn["size"], drawn["request"], strict=True)) == shown
        browser.value("document.querySelector('canvas.where').scrollIntoView()")
        part = f"views[0].parts.offset.findIndex((at, part) => at === {offset} && views[0].parts.branch[part] >= 0)"
        for _ in range(40):
            box = browser.value(f"views[0].box({part})")
            left, top = browser.value("(({left, top}) => [left, top])(views[0].main.getBoundingClientRect())")
            x, y = left + box[0] + box[2] / 2, top + box[1] + box[3] / 2
            if box[3] > 40:
                break
            browser.wheel(x, y, -400)
        else:
            pytest.fail(f"the basket is still {box[3]} pixels high")
        browser.move(x, y)
        browser.move(x + 1, y)
        named = browser.value("document.querySelector('.named').textContent")
        assert named.startswith(f"{wanted}, basket 0; "), named
        assert browser.value("document.querySelector('.tip b').textContent") == f"{wanted}, basket 0"
        assert browser.value("!document.querySelector('.tip').hidden")
        # The marks next to the picture differ at any zoom.
        marks = "ticks(views[0].y0, views[0].y1, 7).map((at, _, all) => place(at, all[1] - all[0]))"
        deep = "(view => { view.y0 = 21682346000; view.y1 = 21682346040; })(views[0])"
        for zoom in ("0", deep, "views[0].reset()"):
            browser.value(zoom)
            shown = browser.value(marks)
            assert len(set(shown)) == len(shown) > 2, shown
        assert browser.value("[place(2.5e6, 5e5), place(0, 1e6), place(1682345, 5)]") == [
            "2.5 MB",
            "0 B",
            "1.682345 MB",
        ]
        browser.dark()
        assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(22, 27, 32)"
        assert inked(browser) > 0
        assert browser.complaints() == []


def inked(browser: Browser) -> int:
    """How many pixels of the picture are neither empty nor of the grid."""
    return browser.value(
        "(() => {const c = views[0].main; const d = c.getContext('2d').getImageData(70, 0, c.width - 70, c.height - 22)"
        ".data; let n = 0; for (let i = 0; i < d.length; i += 4)"
        "if (d[i + 3] > 250 && Math.max(d[i], d[i + 1], d[i + 2])"
        " - Math.min(d[i], d[i + 1], d[i + 2]) > 60) n += 1; return n})()"
    )


def test_a_table_sorts_by_the_column_that_is_chosen(trace: Trace, tmp_path: Path) -> None:
    write_page(trace, tmp_path / "trace.html")
    column = (
        "[...document.querySelectorAll('table.branches tbody tr')].map((row) => Number(row.cells[3].dataset.value))"
    )
    with Browser(tmp_path / "profile") as browser:
        browser.open(tmp_path / "trace.html")
        assert len(browser.value(column)) > 5
        browser.value("document.querySelectorAll('table.branches th')[3].click()")
        assert browser.value(column) == sorted(browser.value(column), reverse=True)
        browser.value("document.querySelectorAll('table.branches th')[3].click()")
        assert browser.value(column) == sorted(browser.value(column))
        assert browser.complaints() == []


def test_names_from_files_stay_text(trace: Trace, tmp_path: Path) -> None:
    evil = '</script><img src="http://127.0.0.1:1/x" onerror="window.hurt = 1"><b>&amp;'
    table = trace.rows_of(PART)
    changed = Trace(trace.rows, replace(trace.job, command=evil, notes=(evil,)))
    columns = RowGroup(
        kind=PART,
        request=[0] * 3,
        file=table["file"].to_pylist()[:3],
        what=[evil, "basket", "page"],
        branch=[evil] * 3,
        tree=[evil] * 3,
        offset=[1, 2, 3],
        size_bytes=[1, 1, 1],
        extent_bytes=[1, 1, 1],
    )
    write_page(changed.with_rows(columns), tmp_path / "trace.html")
    with Browser(tmp_path / "profile") as browser:
        browser.open(tmp_path / "trace.html")
        assert browser.value("typeof window.hurt") == "undefined"
        assert browser.value("document.querySelectorAll('img').length") == 0
        assert evil in browser.value("document.body.textContent")
        assert browser.complaints() == []


def test_two_traces_zoom_together(trace: Trace, tmp_path: Path) -> None:
    write_comparison(trace, trace, tmp_path / "diff.html")
    with Browser(tmp_path / "profile") as browser:
        browser.open(tmp_path / "diff.html")
        assert browser.value("views.length") == 2
        assert inked(browser) > 0
        browser.value("views[1].zoom(0.25)")
        ranges = browser.value("views.map((view) => [view.x0, view.x1, view.y0, view.y1])")
        assert ranges[0] == ranges[1]
        assert browser.complaints() == []
