"""report.html: one file without network, drawn from the job's record and the pictures next to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from branchline.base.texts import printable
from branchline.base.whole_files import write_whole
from branchline.records.diagnosis.advice import Advice
from branchline.records.report.advice_rows import advice_rows
from branchline.records.report.pictures_inline import gallery
from branchline.records.report.sections import page_content
from branchline.records.result_files.job_files import PAGE
from branchline.records.sensors.record import JobRecord

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


def load_template() -> None:
    """Compile the page's template, a tenth of a second the first time."""
    _environment().get_template(PAGE)


def page_html(job: JobRecord, out_dir: Path, advice: Sequence[Advice] = ()) -> str:
    """Return the report as HTML that is also well-formed XML; the pictures come from ``out_dir``, and what would help
    from the caller.
    """
    template = _environment().get_template(PAGE)
    return template.render(page_content(job)._asdict(), advice=advice_rows(advice), pictures=gallery(job, out_dir))


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
