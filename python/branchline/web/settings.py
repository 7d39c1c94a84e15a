"""How a control room is served: to whom, and by what they are known."""

from __future__ import annotations

from dataclasses import dataclass

from branchline.control.people import Person

#: The cookie that a browser keeps; the port follows.
COOKIE = "branchline"


@dataclass(frozen=True)
class ServerSettings:
    """``token`` opens all pages for ``person``, who is alone. ``hosts`` are the names by which browsers may call the
    server: any other name in a request is that of a page elsewhere, which has its address point here.
    """

    token: str
    person: Person
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
