"""Pages from templates: every text is escaped, and numbers have their units."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from urllib.parse import quote, urlencode

import jinja2

from branchline.base.quantities import count, counted, duration, percent, rate, size
from branchline.base.texts import printable


def rendered(template: str, **values: object) -> str:
    """The text of a page."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("branchline.control.web", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "ago": _ago,
        "count": count,
        "counted": counted,
        "duration": duration,
        "moment": _moment,
        "path": lambda text: quote(text, safe=""),
        "share": lambda part: "" if part is None else percent(part, 1.0),
        "size": size,
        "speed": lambda reads: "" if not reads.wall_s else rate(reads.bytes_read, reads.wall_s),
        "query": lambda values: urlencode({key: value for key, value in values.items() if value}),
    }
    return environment


def _clean(value: object) -> object:
    return printable(value) if type(value) is str else value


def _moment(text: str) -> str:
    """A time as people read it, to the minute."""
    return f"{text[:10]} {text[11:16]}" if text else ""


def _ago(text: str) -> str:
    """How long ago a time was."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()
    except ValueError:
        return ""
    return "now" if seconds < 2 else f"{duration(seconds, 2)} ago"
