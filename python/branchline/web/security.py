"""What a request must be before any page sees it: for this server, of who may, not made by a page of another site."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from branchline.limits import REQUEST_MAX_BYTES, RETRY_AFTER_S
from branchline.web.bodies import BodyRoom, bounded
from branchline.web.settings import COOKIE, ServerSettings

_READS = ("GET", "HEAD")
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
    """The outermost part of the server. It lets in a request with the token, sets the person who makes it
    (``scope["state"]["person"]``), and puts the headers of safety on every answer.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings
        self._bodies = BodyRoom()

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
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send_guarded)
            return
        scope.setdefault("state", {})["person"] = self._settings.person
        if scope["method"] in _READS:
            await self._app(scope, receive, send_guarded)
            return
        with self._bodies.held(Headers(scope=scope)) as fits:
            app = self._app if fits else _too_many()
            await app(scope, bounded(receive) if fits else receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """An answer that says why the request goes no further, or sends a browser to the address without its token."""
        headers = Headers(scope=scope)
        if _host_of(headers.get("host", "")) not in self._settings.hosts:
            return PlainTextResponse("This server is not known by that name.\n", 421)
        if _is_too_long(headers):
            return PlainTextResponse(f"A request has up to {REQUEST_MAX_BYTES} bytes.\n", 413)
        bearer = _bearer(headers)
        if bearer is not None:
            return None if self._is_token(bearer) else _unknown("This token is not known here.")
        query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
        if scope["method"] in _READS and "token" in query:
            return self._logged_in(scope, query)
        if not self._is_token(cookie_parser(headers.get("cookie", "")).get(_cookie_of(headers), "")):
            return _unknown("Open the address with the token that the server printed when it began.")
        if scope["method"] not in _READS and not _is_own_page(headers):
            return PlainTextResponse("This request was made by a page of another site.\n", 403)
        return None

    def _logged_in(self, scope: Scope, query: dict[str, str]) -> Response:
        """The token becomes a cookie, and leaves the address: addresses stand in histories and logs."""
        if not self._is_token(query.pop("token")):
            return _unknown("This token is not known here.")
        # A path that begins with two slashes would be another server.
        path = "/" + str(scope["path"]).lstrip("/")
        answer = RedirectResponse(path + (f"?{urlencode(query)}" if query else ""), 303)
        name, is_secure = _cookie_of(Headers(scope=scope)), scope["scheme"] == "https"
        answer.set_cookie(name, self._settings.token, httponly=True, samesite="lax", secure=is_secure)
        return answer

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(errors="replace"), self._settings.token.encode())


def _unknown(why: str) -> Response:
    return PlainTextResponse(f"{why}\n", 401, {"WWW-Authenticate": "Bearer"})


def _too_many() -> Response:
    return PlainTextResponse("Too much is being sent at once.\n", 429, {"Retry-After": str(RETRY_AFTER_S)})


def _bearer(headers: Headers) -> str | None:
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def _host_of(header: str) -> str:
    """The name without the port."""
    name, colon, port = header.rpartition(":")
    return (name if colon and port.isdecimal() else header).lower()


def _cookie_of(headers: Headers) -> str:
    """The name of the cookie: browsers send it to all ports of a host, and several control rooms may be open."""
    port = headers.get("host", "").rpartition(":")[2]
    return f"{COOKIE}-{port}" if port.isascii() and port.isdecimal() else COOKIE


def _is_own_page(headers: Headers) -> bool:
    """Whether a browser made the request for a page of this server. Old browsers send only the origin."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == headers.get("host")


def _is_too_long(headers: Headers) -> bool:
    length: Iterable[str] = headers.getlist("content-length")
    return any(not one.isdecimal() or int(one) > REQUEST_MAX_BYTES for one in length)
