"""The pages of jobs and storages, as people use them: with the mouse, the keyboard, a telephone, on paper."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.pages.conftest import NARROW, WIDE, Keep, Open, Page, expect
from tests.sampled import long_but
from tests.unit.control.batches import batch, identity, last, read
from tests.unit.control.web.server import Server

PAGES = (
    "/jobs",
    "/sites",
    "/elements",
    "/costs",
    "/findings",
    "/me",
    "/grid",
    "/changes",
    "/new-wagon",
    "/new-dataset",
    "/compare",
    "/trains",
    "/new-train",
    "/plans",
    "/new-plan",
)


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def rows(page: Page, name: str) -> list[str]:
    """What each row of the list of jobs says whose job has this name."""
    return [" ".join(one.split()) for one in page.get_by_role("row").filter(has_text=name).all_inner_texts()]


@pytest.mark.long
def test_the_list_is_searched_and_leads_to_a_job(viewer: Open, picture: Keep) -> None:
    page = viewer("/jobs")
    expect(page.get_by_role("heading", name="Jobs", level=1)).to_be_visible()
    page.get_by_label("State").select_option("failed")
    page.get_by_label("User", exact=True).fill("lise")
    page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile("status=failed.*user=lise|user=lise.*status=failed"))
    found = page.get_by_role("row").all_inner_texts()[1:]
    assert found
    assert all("failed" in one and "lise" in one for one in found)
    page.get_by_role("row").nth(1).get_by_role("link").click()
    expect(page.get_by_text("Jets: KeyError: no branch 'Jet_pt'")).to_be_visible()
    expect(page.get_by_role("img", name="Events, events/s over time since the start of the job")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("Jets failed .* wagons.py:31"))).to_be_visible()
    picture(page, "job")


def test_a_cell_of_the_table_of_sites_leads_to_its_jobs(viewer: Open, server: Server, picture: Keep) -> None:
    page = viewer("/sites?period=all")
    picture(page, "sites")
    table = server.get("/sites.json?period=all").json()["table"]
    row = next(one for one in table["rows"] if one["site"] == "gsi.example")
    cells = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="gsi.example")).get_by_role("cell")
    shown = [one.split() for one in cells.all_inner_texts()]
    assert shown[0] == [str(row["jobs"])]
    assert shown[2] == [str(row["every"]["files"])]
    assert shown[4][0] == str(row["local"]["files"])
    assert shown[6][0] == str(row["remote"]["files"])
    local, remote = (row[name]["bytes_read"] / row[name]["wall_s"] / 1e6 for name in ("local", "remote"))
    assert [float(shown[5][0]), float(shown[7][0])] == pytest.approx([local, remote], abs=0.06)
    first = table["elements"][0]
    cells.nth(8).get_by_role("link").click()
    expect(page.get_by_label("Site")).to_have_value("gsi.example")
    expect(page.get_by_label("Storage element")).to_have_value(first)
    jobs = server.get(f"/jobs.json?site=gsi.example&element={first}").json()["total"]
    assert jobs == row["elements"][first]["jobs"]
    expect(page.get_by_text(f"{jobs} jobs")).to_be_visible()


def test_two_viewers_see_a_job_begin_go_on_and_end_without_loading_again(viewer: Open, server: Server) -> None:
    first, second = viewer("/jobs?user=hedwig"), viewer("/jobs?user=hedwig", NARROW)
    for page in (first, second):
        expect(page.get_by_text("No job that fits has reported")).to_be_visible()
        expect(page.get_by_role("status")).to_have_text("live")
        page.evaluate("window.mark = 'not loaded again'")
    who = replace(identity("charm", "hedwig"), started=now().isoformat())
    server.report(batch(who, 0))
    for page in (first, second):
        expect(page.get_by_role("link", name="charm")).to_be_visible()
    first.get_by_role("link", name="charm").focus()
    server.report(batch(who, 1, after_s=20.0))
    for page in (first, second):
        expect(page.get_by_text("2/4")).to_be_visible()
    server.report(last(who, 2))
    for page in (first, second):
        expect(page.locator("tr", has_text="charm").get_by_text("finished")).to_be_visible()
        assert page.evaluate("window.mark") == "not loaded again"
    # The link that had the focus still has it.
    assert first.evaluate("document.activeElement.textContent") == "charm"


def test_new_rows_leave_what_the_reader_does_in_peace(viewer: Open, server: Server) -> None:
    """A row above that comes takes neither the focus, nor what is typed, nor the place to which a table was moved."""
    page = viewer("/jobs", 700)
    expect(page.get_by_role("status")).to_have_text("live")
    link = page.get_by_role("link", name="spectra-00")
    link.focus()
    table = page.locator(".scroll")
    table.evaluate("one => one.scrollLeft = 150")
    page.get_by_label("Site").fill("half of a na")
    link.focus()
    table.evaluate("one => one.scrollLeft = 150")
    for number in range(3):
        name = f"above-{number}"
        server.report(batch(replace(identity(name), started=now().isoformat()), 0))
        expect(page.get_by_role("link", name=name)).to_be_visible()
        assert page.evaluate("document.activeElement.textContent") == "spectra-00"
        assert table.evaluate("one => one.scrollLeft") == 150
    expect(page.get_by_label("Site")).to_have_value("half of a na")


@pytest.mark.long
def test_a_page_comes_back_when_the_server_does(viewer: Open, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("away")
    who = replace(identity("survivor"), started=now().isoformat())
    with Server(folder) as before:
        before.report(batch(who, 0))
        page = viewer("/jobs", server=before, may_complain=True)
        expect(page.get_by_text("1/4")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("not connected")
    with Server(folder, before.port) as after:
        after.report(batch(who, 1, after_s=20.0))
        expect(page.get_by_text("2/4")).to_be_visible()
        expect(page.get_by_role("status")).to_have_text("live")


def test_all_is_reached_with_the_keyboard(viewer: Open) -> None:
    page = viewer("/jobs")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Name, command or user")).to_be_focused()
    page.keyboard.type("jets-22")
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 job", exact=True)).to_be_visible()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "jets-22":
            break
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="jets-22", level=1)).to_be_visible()


@pytest.mark.parametrize(
    ("width", "scheme"),
    long_but(itertools.product([NARROW, WIDE], ["light", "dark"]), [(NARROW, "dark")]),
)
def test_pages_fit_and_can_be_read(viewer: Open, server: Server, picture: Keep, width: int, scheme: str) -> None:
    """No page is wider than the window, each field has a label, and text stands out from what is behind it."""
    job = server.get("/jobs.json?status=failed").json()["rows"][0]["identity"]["job"]
    page = viewer("/jobs", width, color_scheme=scheme)
    for path in (*PAGES, f"/jobs/{job}"):
        page.goto(server.base + path)
        picture(page, f"{path.strip('/').partition('/')[0]}{len(path) // 30}-{width}-{scheme}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.get_by_role("heading", level=1).count() == 1, path
        fields = page.locator("input:not([type=hidden]), select, textarea")
        assert fields.evaluate_all("all => all.filter(one => !one.labels.length).map(one => one.outerHTML)") == [], path
        assert page.evaluate(FAINT) == [], path


# Texts whose contrast to the background is below 4.5, the bound of WCAG's level AA.
FAINT = """() => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const rgb = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = ([r, g, b]) => [r, g, b].map((one) => one / 255)
        .map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
        .reduce((sum, one, index) => sum + one * [0.2126, 0.7152, 0.0722][index], 0);
    const behind = (one) => {
        for (; one; one = one.parentElement) {
            const colour = rgb(getComputedStyle(one).backgroundColor);
            if (colour[3] === 255) return colour;
        }
        return [255, 255, 255];
    };
    const faint = [];
    for (const one of document.querySelectorAll("body *:not(svg *):not(.skip):not(.key *)")) {
        const text = [...one.childNodes].filter((node) => node.nodeType === 3 && node.data.trim());
        if (!text.length || !one.checkVisibility()) continue;
        const [a, b] = [light(rgb(getComputedStyle(one).color)), light(behind(one))];
        if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5) faint.push(one.outerHTML.slice(0, 200));
    }
    return faint;
}"""


def test_reading_needs_no_script(viewer: Open, server: Server) -> None:
    page = viewer("/sites", java_script_enabled=False)
    page.get_by_role("link", name="month").click()
    expect(page.get_by_role("rowheader", name="gsi.example")).to_be_visible()
    page.get_by_role("link", name="Storage over time").click()
    expect(page.get_by_role("img", name="Data read, GB/h over time (UTC)")).to_be_visible()
    page.get_by_role("link", name="Jobs", exact=True).click()
    page.get_by_label("Name, command or user").fill("jets-01")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="jets-01").click()
    expect(page.get_by_role("heading", name="jets-01")).to_be_visible()
    assert server.token not in page.content()


def test_on_paper_there_is_what_was_read_and_no_form(viewer: Open, picture: Keep) -> None:
    page = viewer("/sites")
    page.emulate_media(media="print")
    expect(page.get_by_role("navigation", name="Places")).to_be_hidden()
    expect(page.get_by_role("rowheader", name="all sites")).to_be_visible()
    page.goto(page.url.replace("/sites", "/jobs"))
    expect(page.get_by_role("button", name="Show")).to_be_hidden()
    picture(page, "jobs-print")


@pytest.mark.long
def test_names_of_jobs_are_only_texts(viewer: Open, server: Server) -> None:
    nasty = "<img src=x onerror=document.title='taken'><script>document.title='taken'</script>'; DROP TABLE jobs; --"
    who = replace(identity(nasty, "mallory"), command=nasty, started=now().isoformat(), site=nasty)
    server.report(batch(who, 0, read(f"root://x//{nasty}", f"root://{nasty}", 1000, 1.0, nasty)))
    for path in ("/jobs?user=mallory", f"/jobs/{who.job}", "/sites", "/elements"):
        page = viewer(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.title() != "taken"
        assert page.locator("img[src=x]").count() == 0
        assert "onerror=document" in page.inner_text("main"), path
    assert rows(viewer("/jobs?user=mallory"), "DROP TABLE")


def test_costs_show_what_moving_jobs_into_trains_would_gain(viewer: Open, server: Server, picture: Keep) -> None:
    for month in (1, 2, 4):
        for wagons, cpu_s in ((["Spectra"], 10.0), (["A", "B", "C"], 50.0)):
            who = replace(identity("old", "irene"), started=f"2026-0{month}-10T10:00:00+00:00", wagons=wagons)
            assert server.report(last(who, 0, cpu_s=cpu_s)).json() == {"taken": True}
    for width, scheme in ((NARROW, "dark"), (WIDE, "light")):
        page = viewer("/costs?period=all", width, color_scheme=scheme)
        chart = page.get_by_role("img", name="CPU efficiency of user jobs and trains")
        expect(chart).to_be_visible()
        expect(page.get_by_text("If half of the user jobs ran in trains of 3.0 wagons")).to_be_visible()
        expect(page.get_by_text(re.compile("user jobs, 3 jobs, mean 17 %"))).to_be_visible()
        for title in ("Wall time of jobs", "Throughput of jobs"):
            expect(page.get_by_role("img", name=title)).to_be_visible()
        # Three months with user jobs, and a gap of one month.
        assert page.locator("svg.chart path[fill=none]").first.get_attribute("d").count("M") == 2
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # The text keeps its size at any width, and can be read in dark mode.
        assert chart.locator("text").first.evaluate("one => getComputedStyle(one).fontSize") == "12px"
        picture(page, f"costs-{width}-{scheme}")
