"""Renders a job's record, advice and pictures as report.html, a self-contained file."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jinja2
from markupsafe import Markup

from branchline.base import palette
from branchline.base.quantities import duration
from branchline.base.texts import printable
from branchline.base.whole_files import write_whole
from branchline.records.diagnosis.advice import Advice
from branchline.records.diagnosis.figures import partial_note
from branchline.records.report.cost_tables import WAGON_COLUMNS
from branchline.records.report.sections import page_content
from branchline.records.result_files.job_files import PAGE
from branchline.records.sensors.record import JobRecord

#: Maximum number of pictures in the page, and their maximum total size: more would make the page too long to read and
#: too large for mail servers.
INLINE_MAX = 48
INLINE_BYTES_MAX = 8_000_000
#: Maximum length of a name or message from the record on the page; such strings may come from untrusted sources.
TEXT_LENGTH_MAX = 1000
#: Maximum length of a traceback on the page: it is folded, so it may be longer than other strings. The end is kept.
TRACEBACK_LENGTH_MAX = 20_000
# Matches the spaces inside a number and before its unit, which must not break or stretch.
_INSIDE_NUMBER = re.compile(r"(?<=[\d<]) (?=\d|%|[kMGTP]?B\b|ms\b|s\b|min\b|h\b)")
_THIN_SPACE = "\N{NARROW NO-BREAK SPACE}"


def write_page(out_dir: Path, job: JobRecord, advice: Sequence[Advice] = ()) -> Path:
    """Write ``report.html`` into ``out_dir``. Raises StorageError."""
    path = out_dir / PAGE
    write_whole(path, page_html(job, out_dir, advice).encode("utf-8"))
    return path


def page_html(job: JobRecord, out_dir: Path, advice: Sequence[Advice] = ()) -> str:
    """Return the report as HTML that is also well-formed XML, with the pictures from ``out_dir`` and the given
    advice.
    """
    template = _environment().get_template(PAGE)
    content = page_content(job)._asdict() | {"wagon_columns": WAGON_COLUMNS}
    return template.render(content, advice=advice_rows(advice), pictures=gallery(job, out_dir))


def load_template() -> None:
    """Compile the page's template in advance, which takes a tenth of a second."""
    _environment().get_template(PAGE)


@cache
def _environment() -> jinja2.Environment:
    """Return the template environment, which escapes all strings that a template does not mark as safe."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("branchline.records.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["palette"] = palette
    environment.filters["tight"] = tight
    environment.filters["traceback"] = _traceback
    # Paths of curves are generated coordinates, which must not be truncated like names.
    environment.filters["path"] = Markup
    return environment


def tight(text: str) -> str:
    """Return a text with narrow no-break spaces inside numbers and before their units."""
    return _INSIDE_NUMBER.sub(_THIN_SPACE, text)


def _traceback(text: str) -> Markup:
    """Return the end of a long traceback as Markup, because `_clean` would truncate a plain string further."""
    return Markup.escape(printable(text[-TRACEBACK_LENGTH_MAX:]))


def _clean(value: object) -> object:
    """Return a string from the record without control characters and truncated; other values are returned unchanged."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    if len(value) > TEXT_LENGTH_MAX:
        value = value[: TEXT_LENGTH_MAX - 3] + "..."
    return printable(value)


# --- advice -----------------------------------------------------------------------------------------------------------


class AdviceRow(NamedTuple):
    """A piece of advice as shown on the page.

    ``gain`` and ``interval`` are in per cent; ``times`` describes the times with and without the change.
    """

    gain: str
    interval: str
    times: str
    what: str
    change: str
    cost: str
    whom: str


def advice_rows(advice: Sequence[Advice]) -> list[AdviceRow]:
    """Return a row for each piece of advice, in the given order."""
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
    """A plot of a histogram on the page.

    ``source`` is the plot as a data URI, ``partial`` a note on missing events.
    """

    wagon: str
    name: str
    file: str
    source: Markup
    partial: str


class Gallery(NamedTuple):
    """The pictures on the page, and the number of pictures that are not on the page but only in separate files."""

    shown: list[Picture]
    beside_count: int


def gallery(job: JobRecord, out_dir: Path) -> Gallery:
    """Return the pictures on the page, read from ``out_dir``."""
    drawn = [(result, result.picture) for result in job.results if result.picture]
    drawn = [one for one in drawn if (out_dir / one[1]).is_file()]
    unread_count = 0
    shown: list[Picture] = []
    room_bytes = INLINE_BYTES_MAX
    for result, picture in drawn[:INLINE_MAX]:
        try:
            content = (out_dir / picture).read_bytes()
        except OSError:
            unread_count += 1
            continue
        room_bytes -= len(content)
        if room_bytes < 0:
            break
        # Base64 contains no characters that have a special meaning in HTML.
        source = Markup("data:image/svg+xml;base64," + base64.b64encode(content).decode("ascii"))  # noqa: S704
        shown.append(Picture(result.wagon, result.key, picture, source, partial_note(job, result.wagon)))
    return Gallery(shown, len(drawn) - unread_count - len(shown))
