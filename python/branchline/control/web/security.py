"""Check every request before the application handles it: host name, size, authentication and cross-site requests."""

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
from branchline.control.web.request_limits import BodyRoom, RateLimit, announced_bytes, bounded
from branchline.control.web.server_settings import COOKIE, OwnToken, ServerSettings
from branchline.errors import BranchlineError

_READS = ("GET", "HEAD")
LOGIN_PATH = "/login"
#: Paths at which an OpenID Connect login starts, and to which the provider redirects the browser at the end.
OPENID_PATH = "/login/openid"
OPENID_RETURN_PATH = "/login/openid/back"
REPORTS_PATH = "/api/v1/reports"
NEW_TOKEN_PATH = "/new-token"  # noqa: S105 - a path
#: Security headers of responses. Pages can load and run only files of this server, cannot be framed, and cannot send
#: forms to other servers.
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
    """The outermost middleware: authenticates requests, and adds security headers to every response.

    In the application, ``scope["state"]["person"]`` is the user who sent the authenticated request.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings
        self._bodies = BodyRoom()
        self._rates = RateLimit(REQUESTS_PER_MINUTE_MAX, 60.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    # Responses with users' result files already have a stricter policy.
                    headers.setdefault(name, value)
                if self._settings.is_secure:
                    headers.setdefault("Strict-Transport-Security", "max-age=31536000")
            await send(message)

        try:
            refusal = await self._refusal(scope)
        except BranchlineError as error:
            # Authentication reads the database, and a database error can occur.
            refusal = failure_of(error, "authentication").plain(scope["path"])
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
        """Return an error response or a redirect to the login page; None if the request is allowed."""
        headers = Headers(scope=scope)
        if _host_of(headers.get("host", "")) not in self._settings.hosts:
            return PlainTextResponse("This server is not known by that name.\n", 421)
        if _is_too_long(headers):
            return PlainTextResponse(f"A request must not exceed {REQUEST_MAX_BYTES} bytes.\n", 413)
        if not _is_utf8(headers):
            return PlainTextResponse("Forms must be in UTF-8.\n", 415)
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return await self._of_bearer(scope, token.strip())
        if isinstance(self._settings.keys, OwnToken):
            query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
            if scope["method"] in _READS and "token" in query:
                return await self._with_cookie(scope, query)
        is_foreign = scope["method"] not in _READS and not _is_own_page(headers)
        if self._settings.is_shared and _is_open(scope):
            # Unauthenticated clients must not use up the memory that is needed for job reports.
            if announced_bytes(headers) > LOGIN_MAX_BYTES and scope["method"] not in _READS:
                return PlainTextResponse(f"A login must not exceed {LOGIN_MAX_BYTES} bytes.\n", 413)
            return _foreign() if is_foreign else None
        cookie = cookie_parser(headers.get("cookie", "")).get(cookie_name(scope, self._settings), "")
        login = await self._settings.keys.of_cookie(cookie)
        if login is not None:
            again = partial(self._settings.keys.of_cookie, cookie)
            return _foreign() if is_foreign else self._let_in(scope, login, again)
        if not self._settings.is_shared:
            return _unknown("Open the URL with the token that the server printed when it started.")
        if scope["method"] in _READS and "text/html" in headers.get("accept", ""):
            return RedirectResponse(f"/login?{urlencode({'next': _here(scope)})}", 303)
        return _unknown("Log in, or send a token.")

    async def _of_bearer(self, scope: Scope, secret: str) -> Response | None:
        login = await self._settings.keys.of_bearer(secret)
        if login is None:
            return _unknown("This token is invalid or expired.")
        return self._let_in(scope, login, partial(self._settings.keys.of_bearer, secret))

    def _let_in(self, scope: Scope, login: Login, again: Callable[[], Awaitable[Login | None]]) -> Response | None:
        """Set the user of a request. Return an error response if the login's scope or the rate limit forbids it.

        ``again`` revalidates the login later, because a response, such as an event stream, may last for hours.
        """
        is_report = scope["path"] == REPORTS_PATH and scope["method"] == "POST"
        if login.scope == REPORT and not is_report:
            return PlainTextResponse("This token is only valid for reports of jobs.\n", 403)
        # This page shows the secret of a new token, which may have a larger scope.
        if login.scope == READ and (scope["method"] not in _READS or scope["path"] == NEW_TOKEN_PATH):
            return PlainTextResponse("This token is only valid for reading.\n", 403)
        if not self._rates.add(login.person.name):
            return _too_many()
        scope.setdefault("state", {}).update(person=login.person, login_again=again)
        return None

    async def _with_cookie(self, scope: Scope, query: dict[str, str]) -> Response:
        """Move the token from the URL to a cookie, because URLs end up in browser histories and logs."""
        token = query.pop("token")
        if await self._settings.keys.of_bearer(token) is None:
            return _unknown("This token is invalid or expired.")
        # A redirect to a path with two leading slashes would lead to another server.
        path = "/" + str(scope["path"]).lstrip("/")
        answer = RedirectResponse(path + (f"?{urlencode(query)}" if query else ""), 303)
        set_cookie(answer, scope, self._settings, token)
        return answer


def cookie_name(scope: Scope, settings: ServerSettings) -> str:
    """Return the name of the session cookie.

    The name contains the port: browsers send cookies to all ports of a host, and other control rooms may use other
    ports.
    """
    port = Headers(scope=scope).get("host", "").rpartition(":")[2]
    name = f"{COOKIE}-{port}" if port.isascii() and port.isdecimal() else COOKIE
    # Browsers do not allow other hosts in the domain to set a cookie with the prefix __Host-.
    return f"__Host-{name}" if settings.is_secure else name


def set_cookie(answer: Response, scope: Scope, settings: ServerSettings, secret: str) -> None:
    """Set the session cookie of a response."""
    is_secure = settings.is_secure or scope["scheme"] == "https"
    answer.set_cookie(cookie_name(scope, settings), secret, httponly=True, samesite="lax", secure=is_secure)


def _is_open(scope: Scope) -> bool:
    """Whether a request needs no authentication, because it is for the login or a static file."""
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


def _host_of(header: str) -> str:
    """Return the value of a Host header without the port, in lower case."""
    name, colon, port = header.rpartition(":")
    return (name if colon and port.isdecimal() else header).lower()


def _is_own_page(headers: Headers) -> bool:
    """Whether a browser sent the request from a page of this server.

    Checks the Sec-Fetch-Site header, or the Origin header of old browsers.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == headers.get("host")


def _is_utf8(headers: Headers) -> bool:
    """Whether a form has the charset UTF-8 or no charset. Decoding with some other Python codecs can take minutes."""
    _, options = parse_options_header(headers.get("content-type", ""))
    return options.get(b"charset", b"utf-8").lower() in (b"utf-8", b"utf8")


def _is_too_long(headers: Headers) -> bool:
    length: Iterable[str] = headers.getlist("content-length")
    return any(not one.isdecimal() or int(one) > REQUEST_MAX_BYTES for one in length)
