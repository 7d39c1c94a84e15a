"""The base of all pages: a template with values, rendered as HTML for browsers, and the values as JSON for scripts."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from starlette.exceptions import HTTPException
from starlette.requests import Request

from branchline.control.people import Person
from branchline.control.reports.readings import Period
from branchline.control.room import ControlRoom
from branchline.control.web.server_settings import TOKEN_FILE

#: Names of the periods that users can choose on pages, with their lengths in days. 0 means unbounded.
PERIODS = {"day": 1, "week": 7, "month": 30, "year": 365, "all": 0}


@dataclass(frozen=True)
class Page:
    """A template with its values.

    ``values`` is a dataclass that the template gets as ``page`` and scripts get as JSON. ``extra`` has additional
    values for the template.
    """

    template: str
    title: str
    values: object
    extra: Mapping[str, object] = field(default_factory=dict)


class Ask:
    """A request for a page: the user, the control room, and the parameters in the URL."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.room: ControlRoom = request.app.state.room
        self.person: Person = request.state.person

    def path(self, name: str) -> str:
        """Return a parameter from the path."""
        return str(self.request.path_params[name])

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter from the query string."""
        return self.request.query_params.get(name, default)

    def number(self, name: str, default: int = 0) -> int:
        """Return a non-negative integer from the query string. Raises HTTPException for any other value."""
        text = self.text(name)
        if not text:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise HTTPException(400, f"{name} must be a number, got {text!r:.40}")
        return int(text)

    def path_number(self, name: str) -> int:
        """Return a non-negative integer from the path. Raises HTTPException (404) for any other value."""
        text = self.path(name)
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise HTTPException(404, f"nothing has the number {text!r:.40}")
        return int(text)

    @property
    def address(self) -> str:
        """URL of this server, as in the request."""
        return str(self.request.base_url).rstrip("/")

    @property
    def token_file(self) -> str:
        """Path of the file with a single user's token, quoted for a shell; empty in a shared control room."""
        return "" if self.request.app.state.is_shared else shlex.quote(str(self.room.folder / TOKEN_FILE))

    def command(self, page: str) -> str:
        """Return a shell command that prints a page's values as JSON."""
        path, mark, query = page.partition("?")
        token = f"$(cat {self.token_file})" if self.token_file else "$TOKEN"
        url = shlex.quote(f"{self.address}{path}.json{mark}{query}")
        return f'curl -H "Authorization: Bearer {token}" {url}'

    @property
    def period(self) -> str:
        """The period's name in the query string; a week by default. Raises HTTPException for an unknown period."""
        name = self.text("period", "week")
        if name not in PERIODS:
            raise HTTPException(400, f"unknown period {name!r:.40}; choose one of {', '.join(PERIODS)}")
        return name

    def since(self) -> Period:
        """Return the period in the query string as a time range that ends now."""
        days = PERIODS[self.period]
        if not days:
            return Period()
        return Period(since=(datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="seconds"))


#: Type of a page function.
Make = Callable[[Ask], Page]
