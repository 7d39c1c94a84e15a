"""report.html: one file without network, drawn from a job's record, with advice in words and the pictures inside it."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jinja2
from markupsafe import Markup

from branchline.base.quantities import duration
from branchline.base.texts import printable
from branchline.base.whole_files import write_whole
from branchline.records.diagnosis.advice import Advice
from branchline.records.diagnosis.figures import partial_note
from branchline.records.report.sections import page_content
from branchline.records.result_files.job_files import PAGE
from branchline.records.sensors.record import JobRecord

#: More pictures, or more bytes of them, would make a page too long to read and too large for mail servers.
INLINE_MAX = 48
INLINE_BYTES_MAX = 8_000_000
#: No text of a record is longer on the page: names and messages come from outside.
TEXT_LENGTH_MAX = 1000
#: A traceback is folded and may be longer; its end is what matters.
TRACEBACK_LENGTH_MAX = 20_000
# Spaces inside a number and before its unit, which must not break or spread.
_INSIDE_NUMBER = re.compile(r"(?<=[\d<]) (?=\d|%|[kMGTP]?B\b|ms\b|s\b|min\b|h\b)")
_THIN_SPACE = "\N{NARROW NO-BREAK SPACE}"


def write_page(out_dir: Path, job: JobRecord, advice: Sequence[Advice] = ()) -> Path:
    """Write ``report.html`` into ``out_dir``. Raises StorageError."""
    path = out_dir / PAGE
    write_whole(path, page_html(job, out_dir, advice).encode("utf-8"))
    return path


def page_html(job: JobRecord, out_dir: Path, advice: Sequence[Advice] = ()) -> str:
    """Return the report as HTML that is also well-formed XML; the pictures come from ``out_dir``, and what would help
    from the caller.
    """
    template = _environment().get_template(PAGE)
    return template.render(page_content(job)._asdict(), advice=advice_rows(advice), pictures=gallery(job, out_dir))


def load_template() -> None:
    """Compile the page's template, a tenth of a second the first time."""
    _environment().get_template(PAGE)


@cache
def _environment() -> jinja2.Environment:
    """Return the templates' environment, in which every text is escaped unless a template marks it as safe."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("branchline.records.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["tight"] = tight
    environment.filters["traceback"] = _traceback
    # Coordinates of our own, which must not be cut to a name's length.
    environment.filters["path"] = Markup
    return environment


def tight(text: str) -> str:
    """Return text whose numbers hold together with their thousands and units."""
    return _INSIDE_NUMBER.sub(_THIN_SPACE, text)


def _traceback(text: str) -> Markup:
    """Return the end of a long traceback, already escaped so that it is not cut to a name's length."""
    return Markup.escape(printable(text[-TRACEBACK_LENGTH_MAX:]))


def _clean(value: object) -> object:
    """Return a text of the record as the page may hold it: no control characters, not without end."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    if len(value) > TEXT_LENGTH_MAX:
        value = value[: TEXT_LENGTH_MAX - 3] + "..."
    return printable(value)


# --- advice -----------------------------------------------------------------------------------------------------------


class AdviceRow(NamedTuple):
    """A piece of advice: its gain and interval in per cent, the times without and with it, and its sentences."""

    gain: str
    interval: str
    times: str
    what: str
    change: str
    cost: str
    whom: str


def advice_rows(advice: Sequence[Advice]) -> list[AdviceRow]:
    """Return the rows, in the order of the advice."""
    return [
        AdviceRow(
            gain=f"{100 * one.gain.value:.0f} % less time",
            interval=f"{100 * one.gain.low:.0f} to {100 * one.gain.high:.0f} %",
            times=f"about {one.then_words()} instead of {duration(one.now_s)}",
            what=f"{one.what[:1].upper()}{one.what[1:]}.",
            change=one.change,
            cost=one.cost,
            whom=one.whom,
        )
        for one in advice
    ]


# --- pictures ---------------------------------------------------------------------------------------------------------


class Picture(NamedTuple):
    """One picture: whose histogram it shows, its file, its content as a data URI, and what it lacks."""

    wagon: str
    name: str
    file: str
    source: Markup
    partial: str


class Gallery(NamedTuple):
    """The pictures on the page, and how many more are only files next to it."""

    shown: list[Picture]
    beside_count: int


def gallery(job: JobRecord, out_dir: Path) -> Gallery:
    """Return the first pictures of the job, read from ``out_dir``."""
    drawn = [(result, result.picture) for result in job.results if result.picture]
    shown: list[Picture] = []
    room_bytes = INLINE_BYTES_MAX
    for result, picture in drawn[:INLINE_MAX]:
        try:
            content = (out_dir / picture).read_bytes()
        except OSError:
            continue
        room_bytes -= len(content)
        if room_bytes < 0:
            break
        # Base64 has no letter that means something in HTML.
        source = Markup("data:image/svg+xml;base64," + base64.b64encode(content).decode("ascii"))  # noqa: S704
        shown.append(Picture(result.wagon, result.key, picture, source, partial_note(job, result.wagon)))
    return Gallery(shown, len(drawn) - len(shown))
