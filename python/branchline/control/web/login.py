"""Login and logout in a shared control room, and new tokens, whose secrets are shown once.

After a login, the browser is redirected to the page that was requested before, if this page is on this server.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from branchline.base.limits import LOGIN_TRIES_MAX, LOGIN_TRIES_S, LOGINS_AT_ONCE, RETRY_AFTER_S, SECRET_SHOWN_S
from branchline.control.people import Person
from branchline.control.room import ControlRoom
from branchline.control.web.actions import Form
from branchline.control.web.rendering import rendered
from branchline.control.web.request_limits import RateLimit
from branchline.control.web.security import LOGIN_PATH, NEW_TOKEN_PATH, OPENID_PATH, cookie_name, set_cookie
from branchline.control.web.server_settings import ServerSettings
from branchline.errors import OptionError

MAKE_TOKEN = "/do/make-token"  # noqa: S105 - a path
_TOO_MANY = "There were too many wrong passwords. Try again in a quarter of an hour."


@dataclass
class Logins:
    """Handles password logins.

    Limits concurrent checks, and the number of wrong passwords by user name and IP address.
    """

    settings: ServerSettings
    wrong: RateLimit = field(default_factory=lambda: RateLimit(LOGIN_TRIES_MAX, LOGIN_TRIES_S))
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LOGINS_AT_ONCE))

    def routes(self) -> list[Route]:
        """Return the routes for logins and tokens. A single-user control room has no such routes."""
        if not self.settings.is_shared:
            return []
        return [
            Route(LOGIN_PATH, self.page),
            Route(LOGIN_PATH, self.log_in, methods=["POST"]),
            Route("/do/change-password", self.change_password, methods=["POST"]),
            Route("/logout", self.log_out, methods=["POST"]),
            Route(MAKE_TOKEN, make_token, methods=["POST"]),
            Route(NEW_TOKEN_PATH, new_token),
        ]

    async def page(self, request: Request) -> Response:
        """Return the login page."""
        return login_page(self.settings, request.query_params.get("next", "/"))

    async def log_in(self, request: Request) -> Response:
        """Check a password, start a session and redirect to the requested page."""
        async with request.form(max_files=0, max_fields=5, max_part_size=10_000) as form:
            name, password, wanted = (str(form.get(one, "")) for one in ("name", "password", "next"))
        host = request.client.host if request.client else ""
        # Count names and IP addresses separately: one address must not try many names, and many addresses must not
        # try one name.
        keys = (f"name {name}", f"address {host}")
        if self._is_over(keys):
            return self._too_many(wanted)
        room: ControlRoom = request.app.state.room
        async with self.turns:
            # Check the limits again, because logins that waited at the same time may have failed.
            if self._is_over(keys):
                return self._too_many(wanted)
            secret = await run_in_threadpool(room.accounts.log_in, name, password)
            if secret is None:
                for one in keys:
                    self.wrong.add(one)
        if secret is None:
            return login_page(self.settings, wanted, "Wrong name or password.", 401)
        self.wrong.forget(keys[0])
        redirect = RedirectResponse(own_path(wanted), 303)
        set_cookie(redirect, request.scope, self.settings, secret)
        return redirect

    async def change_password(self, request: Request) -> Response:
        """Change the user's own password, which ends all sessions of the user.

        Wrong passwords count like failed logins, so that a stolen session or token cannot be used to guess the
        password.
        """
        async with request.form(max_files=0, max_fields=5, max_part_size=10_000) as data:
            form = Form(data)
            old, new, again = (form.whole(one) for one in ("old", "password", "again"))
        room: ControlRoom = request.app.state.room
        name = request.state.person.name
        key = f"name {name}"
        if new != again:
            raise OptionError("the new passwords do not match")
        async with self.turns:
            if self.wrong.is_over(key):
                raise HTTPException(429, _TOO_MANY)
            if not await run_in_threadpool(room.accounts.has_password, name, old):
                self.wrong.add(key)
                raise OptionError("the current password is wrong", hint="an administrator can set a new one")
            await run_in_threadpool(room.accounts.set_password, name, new, name)
        request.app.state.ticks.renew()
        return RedirectResponse(LOGIN_PATH, 303)

    def _is_over(self, keys: tuple[str, str]) -> bool:
        return any(self.wrong.is_over(one) for one in keys)

    def _too_many(self, wanted: str) -> Response:
        answer = login_page(self.settings, wanted, _TOO_MANY, 429)
        answer.headers["Retry-After"] = str(RETRY_AFTER_S)
        return answer

    async def log_out(self, request: Request) -> Response:
        """End the user's session and redirect to the login page."""
        name = cookie_name(request.scope, self.settings)
        secret = cookie_parser(request.headers.get("cookie", "")).get(name, "")
        room: ControlRoom = request.app.state.room
        await run_in_threadpool(room.accounts.log_out, secret)
        answer = RedirectResponse(LOGIN_PATH, 303)
        answer.delete_cookie(name, secure=self.settings.is_secure, httponly=True, samesite="lax")
        return answer


def login_page(settings: ServerSettings, wanted: str = "/", trouble: str = "", status: int = 200) -> HTMLResponse:
    """Return the login page, with the error ``trouble`` of the last attempt.

    ``wanted`` is the path of the page to show after the login.
    """
    path = own_path(wanted)
    openid = settings.openid
    provider = None if openid is None else openid.shown_name
    address = f"{OPENID_PATH}?{urlencode({'next': path})}"
    return HTMLResponse(
        rendered("login.html", wanted=path, trouble=trouble, provider=provider, address=address), status
    )


def own_path(wanted: str) -> str:
    """Return ``wanted`` if it is a path on this server; "/" for other URLs and for the login page."""
    is_own = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    return quote(wanted, safe="/?=&%:.,-_~+@!$'()*;") if is_own and not wanted.startswith(LOGIN_PATH) else "/"


@dataclass
class NewSecrets:
    """Secrets of new tokens, by user. Each secret can be shown once and within a short time."""

    _made: dict[str, tuple[float, str]] = field(default_factory=dict)

    def keep(self, person: str, secret: str) -> None:
        """Store a secret until the user has seen it."""
        self._made[person] = (time.monotonic(), secret)

    def taken(self, person: str) -> str | None:
        """Remove and return a user's secret; None if there is no secret, or if the secret is too old."""
        made_s, secret = self._made.pop(person, (0.0, ""))
        return secret if secret and time.monotonic() - made_s < SECRET_SHOWN_S else None


async def make_token(request: Request) -> Response:
    """Create a token for the user and redirect to the page that shows the token's secret."""
    async with request.form(max_files=0, max_fields=5, max_part_size=10_000) as data:
        form = Form(data)
        name, scope, days = form.text("name"), form.text("scope"), form.number("days")
    room: ControlRoom = request.app.state.room
    person: Person = request.state.person
    secret = await run_in_threadpool(room.accounts.make_token, person, name, scope, days)
    request.app.state.ticks.renew()
    if "application/json" in request.headers.get("accept", ""):
        return JSONResponse({"secret": secret})
    request.app.state.secrets.keep(person.name, secret)
    return RedirectResponse(NEW_TOKEN_PATH, 303)


async def new_token(request: Request) -> Response:
    """Return the page with the secret of a new token. The secret can be shown only once."""
    secret = request.app.state.secrets.taken(request.state.person.name)
    if secret is None:
        raise HTTPException(404, "the secret of a token is shown only once, when it is created; create another token")
    return HTMLResponse(rendered("new_token.html", secret=secret))
