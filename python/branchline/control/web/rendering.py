"""Render pages from templates. All strings are escaped and isolated from the surrounding text direction."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from functools import cache
from urllib.parse import quote, urlencode

import jinja2
from jinja2.ext import Extension
from markupsafe import Markup

from branchline.base.quantities import count, counted, duration, megabytes, percent, rate, size
from branchline.base.texts import printable
from branchline.control.trains.train import PLACES

#: Elements that cannot contain a ``bdi`` element.
_TEXT_ONLY = ("title", "option", "textarea", "script", "style", "svg")
_TOKEN = re.compile(r"\{\{-?(?P<value>.*?)-?\}\}|\{%.*?%\}|\{#.*?#\}|<(?P<end>/?)(?P<element>[a-zA-Z]\w*)|>", re.DOTALL)
_RIGHT_TO_LEFT = {"R", "AL", "AN"}


def rendered(template: str, **values: object) -> str:
    """Render a template with the given values."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("branchline.control.web", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_clean,
        extensions=[Isolation],
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["places"] = PLACES
    environment.filters |= {
        "ago": _ago,
        "count": count,
        "counted": counted,
        "duration": duration,
        "isolated": _isolated,
        "megabytes": megabytes,
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


class Isolation(Extension):
    """Adds the filter ``isolated`` to every ``{{ ... }}`` in a template where HTML allows an element.

    Right-to-left letters in a name then do not reorder the text next to the name.
    """

    def preprocess(self, source: str, _name: str | None, _filename: str | None = None) -> str:
        """Return a template's source with the filters added."""
        is_in_tag = False
        inside: str | None = None

        def replaced(token: re.Match[str]) -> str:
            nonlocal is_in_tag, inside
            if token["value"] is not None:
                is_text = not is_in_tag and inside is None
                return (
                    token[0].replace(token["value"], f" ({token['value'].strip()})|isolated ") if is_text else token[0]
                )
            if token["element"]:
                is_in_tag = True
                if token["element"].lower() in _TEXT_ONLY:
                    inside = None if token["end"] else token["element"].lower()
            elif token[0] == ">":
                is_in_tag = False
            return token[0]

        return _TOKEN.sub(replaced, source)


def _isolated(value: object) -> object:
    """Wrap a string with right-to-left letters in a ``bdi`` element. Returns other values unchanged."""
    if type(value) is not str or value.isascii():
        return value
    if not any(unicodedata.bidirectional(one) in _RIGHT_TO_LEFT for one in value):
        return value
    return Markup("<bdi>{}</bdi>").format(printable(value))


def _moment(text: str) -> str:
    """Format an ISO 8601 time as date and time, without seconds."""
    return f"{text[:10]} {text[11:16]}" if text else ""


def _ago(text: str) -> str:
    """Format the time since an ISO 8601 time, such as ``5 min ago``."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()
    except ValueError:
        return ""
    return "now" if seconds < 2 else f"{duration(seconds, 2)} ago"
