"""What a page is: a template with values, for people as HTML and for scripts as JSON."""

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

#: Periods that pages offer, in days; 0 is all that is known.
PERIODS = {"day": 1, "week": 7, "month": 30, "year": 365, "all": 0}


@dataclass(frozen=True)
class Page:
    """``values`` is a dataclass: the template gets it as ``page``, scripts get it as JSON. ``extra`` is for the
    template alone.
    """

    template: str
    title: str
    values: object
    extra: Mapping[str, object] = field(default_factory=dict)


class Ask:
    """A request of a page: who asks, of which room, and the values in its address."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.room: ControlRoom = request.app.state.room
        self.person: Person = request.state.person

    def path(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def text(self, name: str, default: str = "") -> str:
        """A value after the question mark."""
        return self.request.query_params.get(name, default)

    def number(self, name: str, default: int = 0) -> int:
        """A number after the question mark. Raises HTTPException for anything else."""
        text = self.text(name)
        if not text:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise HTTPException(400, f"{name} is no number")
        return int(text)

    def path_number(self, name: str) -> int:
        """A number in the path. Raises HTTPException: there is nothing under anything else."""
        text = self.path(name)
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise HTTPException(404, f"There is nothing with the number {text!r:.40}.")
        return int(text)

    @property
    def address(self) -> str:
        """Where this server is for who asks."""
        return str(self.request.base_url).rstrip("/")

    @property
    def token_file(self) -> str:
        """The file with the token of who is alone, for a shell; empty where everybody has tokens of their own."""
        return "" if self.request.app.state.is_shared else shlex.quote(str(self.room.folder / TOKEN_FILE))

    def command(self, page: str) -> str:
        """The command that shows the values of a page of this server in a terminal."""
        path, mark, query = page.partition("?")
        token = f"$(cat {self.token_file})" if self.token_file else "$TOKEN"
        url = shlex.quote(f"{self.address}{path}.json{mark}{query}")
        return f'curl -H "Authorization: Bearer {token}" {url}'

    @property
    def period(self) -> str:
        """The period that the page is about, a week unless the address says another one."""
        name = self.text("period", "week")
        if name not in PERIODS:
            raise HTTPException(400, f"periods are {', '.join(PERIODS)}")
        return name

    def since(self) -> Period:
        """The period up to now."""
        days = PERIODS[self.period]
        if not days:
            return Period()
        return Period(since=(datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="seconds"))


#: A page as a function.
Make = Callable[[Ask], Page]
