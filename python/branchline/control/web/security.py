"""What a request must be before any page sees it: for this server, of who may, not made by a page of another site."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from urllib.parse import parse_qsl, urlencode, urlsplit

from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from branchline.base.limits import LOGIN_MAX_BYTES, REQUEST_MAX_BYTES, REQUESTS_PER_MINUTE_MAX, RETRY_AFTER_S
from branchline.control.accounts import READ, REPORT, Login
from branchline.control.web.error_answers import failure_of
from branchline.control.web.request_limits import BodyRoom, Rates, announced_bytes, bounded
from branchline.control.web.server_settings import COOKIE, OwnToken, ServerSettings
from branchline.errors import BranchlineError

_READS = ("GET", "HEAD")
LOGIN_PATH = "/login"
#: Where a browser goes to log in by a provider of OpenID Connect, and where it comes back to.
OPENID_PATH = "/login/openid"
OPENID_RETURN_PATH = "/login/openid/back"
REPORTS_PATH = "/api/v1/reports"
NEW_TOKEN_PATH = "/new-token"  # noqa: S105 - an address
#: Nothing but files of this server runs or is shown, no page is framed, no form leads elsewhere.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """The outermost part of the server. It lets in a request of somebody who is known, sets who it is
    (``scope["state"]["person"]``), and puts the headers of safety on every answer.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings
        self._bodies = BodyRoom()
        self._rates = Rates(REQUESTS_PER_MINUTE_MAX, 60.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    # A file of somebody's results has a stricter policy of its own.
                    headers.setdefault(name, value)
                if self._settings.is_secure:
                    headers.setdefault("Strict-Transport-Security", "max-age=31536000")
            await send(message)

        try:
            refusal = await self._refusal(scope)
        except BranchlineError as error:
            # Whose a token or a session is stands in the database.
            refusal = failure_of(error, "who asks").plain(scope["path"])
        if refusal is not None:
            await refusal(scope, receive, send_guarded)
            return
        if scope["method"] in _READS:
            await self._app(scope, receive, send_guarded)
            return
        with self._bodies.held(Headers(scope=scope)) as fits:
            app = self._app if fits else _too_many()
            await app(scope, bounded(receive) if fits else receive, send_guarded)

    async def _refusal(self, scope: Scope) -> Response | None:
        """An answer that says why the request goes no further, or leads a browser to where it can log in."""
        headers = Headers(scope=scope)
        if _host_of(headers.get("host", "")) not in self._settings.hosts:
            return PlainTextResponse("This server is not known by that name.\n", 421)
        if _is_too_long(headers):
            return PlainTextResponse(f"A request has up to {REQUEST_MAX_BYTES} bytes.\n", 413)
        if not _is_utf8(headers):
            return PlainTextResponse("Forms are in UTF-8.\n", 415)
        bearer = _bearer(headers)
        if bearer is not None:
            return await self._of_bearer(scope, bearer)
        if isinstance(self._settings.keys, OwnToken):
            query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
            if scope["method"] in _READS and "token" in query:
                return await self._with_cookie(scope, query)
        is_foreign = scope["method"] not in _READS and not _is_own_page(headers)
        if self._settings.is_shared and _is_open(scope):
            # Nobody who is not known may take the memory of the bodies that jobs send.
            if announced_bytes(headers) > LOGIN_MAX_BYTES and scope["method"] not in _READS:
                return PlainTextResponse(f"A login has up to {LOGIN_MAX_BYTES} bytes.\n", 413)
            return _foreign() if is_foreign else None
        cookie = cookie_parser(headers.get("cookie", "")).get(cookie_name(scope, self._settings), "")
        login = await self._settings.keys.of_cookie(cookie)
        if login is not None:
            again = partial(self._settings.keys.of_cookie, cookie)
            return _foreign() if is_foreign else self._let_in(scope, login, again)
        if not self._settings.is_shared:
            return _unknown("Open the address with the token that the server printed when it began.")
        if scope["method"] in _READS and "text/html" in headers.get("accept", ""):
            return RedirectResponse(f"/login?{urlencode({'next': _here(scope)})}", 303)
        return _unknown("Log in, or send a token.")

    async def _of_bearer(self, scope: Scope, secret: str) -> Response | None:
        login = await self._settings.keys.of_bearer(secret)
        if login is None:
            return _unknown("This token is not known here.")
        return self._let_in(scope, login, partial(self._settings.keys.of_bearer, secret))

    def _let_in(self, scope: Scope, login: Login, again: Callable[[], Awaitable[Login | None]]) -> Response | None:
        """Sets who asks, unless their key does not open this, or they ask too often. ``again`` asks anew whose it is:
        an answer may go on for hours.
        """
        is_report = scope["path"] == REPORTS_PATH and scope["method"] == "POST"
        if login.scope == REPORT and not is_report:
            return PlainTextResponse("This token is for reports of jobs alone.\n", 403)
        # The secret of a new token may open more than reading.
        if login.scope == READ and (scope["method"] not in _READS or scope["path"] == NEW_TOKEN_PATH):
            return PlainTextResponse("This token is for reading alone.\n", 403)
        if not self._rates.add(login.person.name):
            return _too_many()
        scope.setdefault("state", {}).update(person=login.person, login_again=again)
        return None

    async def _with_cookie(self, scope: Scope, query: dict[str, str]) -> Response:
        """The token becomes a cookie, and leaves the address: addresses stand in histories and logs."""
        token = query.pop("token")
        if await self._settings.keys.of_bearer(token) is None:
            return _unknown("This token is not known here.")
        # A path that begins with two slashes would be another server.
        path = "/" + str(scope["path"]).lstrip("/")
        answer = RedirectResponse(path + (f"?{urlencode(query)}" if query else ""), 303)
        set_cookie(answer, scope, self._settings, token)
        return answer


def cookie_name(scope: Scope, settings: ServerSettings) -> str:
    """The name of the cookie: browsers send it to all ports of a host, and several control rooms may be open."""
    port = Headers(scope=scope).get("host", "").rpartition(":")[2]
    name = f"{COOKIE}-{port}" if port.isascii() and port.isdecimal() else COOKIE
    # With this prefix no other host of the domain can set it.
    return f"__Host-{name}" if settings.is_secure else name


def set_cookie(answer: Response, scope: Scope, settings: ServerSettings, secret: str) -> None:
    """Has a browser keep a secret for this server."""
    is_secure = settings.is_secure or scope["scheme"] == "https"
    answer.set_cookie(cookie_name(scope, settings), secret, httponly=True, samesite="lax", secure=is_secure)


def _is_open(scope: Scope) -> bool:
    """Whether nobody needs to be known: to log in, and for what the page of that is made of."""
    path = str(scope["path"])
    return path in (LOGIN_PATH, OPENID_PATH, OPENID_RETURN_PATH) or (
        path.startswith("/static/") and scope["method"] in _READS
    )


def _here(scope: Scope) -> str:
    query = scope.get("query_string", b"").decode("latin-1")
    return str(scope["path"]) + (f"?{query}" if query else "")


def _unknown(why: str) -> Response:
    return PlainTextResponse(f"{why}\n", 401, {"WWW-Authenticate": "Bearer"})


def _foreign() -> Response:
    return PlainTextResponse("This request was made by a page of another site.\n", 403)


def _too_many() -> Response:
    return PlainTextResponse("Too much is being sent at once.\n", 429, {"Retry-After": str(RETRY_AFTER_S)})


def _bearer(headers: Headers) -> str | None:
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def _host_of(header: str) -> str:
    """The name without the port."""
    name, colon, port = header.rpartition(":")
    return (name if colon and port.isdecimal() else header).lower()


def _is_own_page(headers: Headers) -> bool:
    """Whether a browser made the request for a page of this server. Old browsers send only the origin."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == headers.get("host")


def _is_utf8(headers: Headers) -> bool:
    """Whether a form is in UTF-8, if it says what it is in. Python has codecs that run for minutes."""
    _, options = parse_options_header(headers.get("content-type", ""))
    return options.get(b"charset", b"utf-8").lower() in (b"utf-8", b"utf8")


def _is_too_long(headers: Headers) -> bool:
    length: Iterable[str] = headers.getlist("content-length")
    return any(not one.isdecimal() or int(one) > REQUEST_MAX_BYTES for one in length)
