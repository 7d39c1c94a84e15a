"""Routes that redirect a browser to the OpenID Connect provider and back (OpenID Connect Core 1.0, section 3.1)."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import sys
import time
from dataclasses import dataclass, field

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OctKey
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request, cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from branchline.base.limits import LOGIN_TRIES_S, OPENID_AT_ONCE, OPENID_LOGIN_S, OPENID_TRIES_MAX, RETRY_AFTER_S
from branchline.base.texts import print_line
from branchline.control.room import ControlRoom
from branchline.control.room_errors import DatabaseError, RefusedError
from branchline.control.web.login import login_page, own_path
from branchline.control.web.openid.provider import Flow, Provider
from branchline.control.web.openid.tokens import ProviderError, RejectedError
from branchline.control.web.openid_settings import OpenIdSettings
from branchline.control.web.request_limits import RateLimit
from branchline.control.web.security import OPENID_PATH, OPENID_RETURN_PATH, cookie_name, set_cookie
from branchline.control.web.server_settings import ServerSettings
from branchline.errors import BranchlineError, InternalError

_ALGORITHM = "HS256"
_AGAIN = "log in again"


@dataclass
class OpenIdLogins:
    """Handles logins through an OpenID Connect provider.

    The server stores nothing about a login in progress. The login's state is in a browser cookie, which is signed with
    a key that changes when the server restarts.
    """

    settings: ServerSettings
    provider: Provider
    _key: OctKey = field(default_factory=lambda: OctKey.generate_key(256))
    _failed: RateLimit = field(default_factory=lambda: RateLimit(OPENID_TRIES_MAX, LOGIN_TRIES_S))
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(OPENID_AT_ONCE))
    _trouble: str = ""

    @classmethod
    def of(cls, settings: ServerSettings, openid: OpenIdSettings) -> OpenIdLogins:
        """Create the handler for the provider in the settings."""
        base = openid.url or settings.base
        return cls(settings, Provider(openid, f"{base}{OPENID_RETURN_PATH}"))

    def routes(self) -> list[Route]:
        """Return the routes at which a login starts and ends."""
        return [Route(OPENID_PATH, self.begin), Route(OPENID_RETURN_PATH, self.come_back)]

    async def begin(self, request: Request) -> Response:
        """Redirect the browser to the provider, and set the cookie with the login's state."""
        wanted = own_path(request.query_params.get("next", "/"))
        flow = Flow(secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_urlsafe(32), wanted)
        try:
            self._check_rate(request)
            async with self._turns:
                address = await self.provider.login_address(flow)
        except (ProviderError, RejectedError) as error:
            return self._failure(request, error, wanted)
        self._trouble = ""
        answer = RedirectResponse(address, 303)
        is_secure = self.settings.is_secure or request.url.scheme == "https"
        content = {**vars(flow), "exp": int(time.time() + OPENID_LOGIN_S)}
        answer.set_cookie(
            self._cookie(request, flow.state),
            jwt.encode({"alg": _ALGORITHM}, content, self._key),
            max_age=int(OPENID_LOGIN_S),
            httponly=True,
            samesite="lax",
            secure=is_secure,
        )
        return answer

    async def come_back(self, request: Request) -> Response:
        """Start a session for a user whom the provider has redirected back after a login."""
        wanted = "/"
        try:
            self._check_rate(request)
            flow = self._flow(request)
            wanted = flow.wanted
            async with self._turns:
                await self._check_answer(request)
                outsider = await self.provider.person(flow, request.query_params["code"])
            room: ControlRoom = request.app.state.room
            secret = await run_in_threadpool(room.accounts.log_in_outsider, outsider)
        except (DatabaseError, InternalError):
            raise  # Errors of the control room, which neither the user nor the provider has caused.
        except BranchlineError as error:
            answer = self._failure(request, error, wanted)
        else:
            self._trouble = ""
            request.app.state.ticks.renew()
            answer = RedirectResponse(wanted, 303)
            set_cookie(answer, request.scope, self.settings, secret)
        # Delete the cookie of the finished login. If the browser keeps the cookie, no second login is possible, because
        # the provider accepts a code only once.
        name = self._cookie(request, request.query_params.get("state", ""))
        if name in cookie_parser(request.headers.get("cookie", "")):
            answer.delete_cookie(name, secure=self.settings.is_secure, httponly=True, samesite="lax")
        return answer

    def _check_rate(self, request: Request) -> None:
        if self._failed.is_over(_host(request)):
            raise RejectedError("too many logins have failed", hint="try again in a quarter of an hour")

    async def _check_answer(self, request: Request) -> None:
        """Raise RejectedError for a response without a code, or from another provider (RFC 9207)."""
        query = request.query_params
        issuer = self.provider.settings.issuer
        is_missing = "iss" not in query and (await self.provider.endpoints()).names_itself
        if is_missing or query.get("iss", issuer) != issuer:
            raise RejectedError("this response is from another provider", hint=_AGAIN)
        if "code" not in query:
            error = query.get("error", "")
            kind = error if re.fullmatch(r"[a-z_]{1,64}", error) else "it sent no code"
            raise RejectedError(f"the provider rejected the login: {kind}", hint=_AGAIN)

    def _cookie(self, request: Request, state: str) -> str:
        """Return the name of the cookie of a login. Each login has its own, so a browser can have several at a time."""
        return f"{cookie_name(request.scope, self.settings)}-{hashlib.sha256(state.encode()).hexdigest()[:12]}"

    def _flow(self, request: Request) -> Flow:
        """Return the login that this browser has started. Raises RejectedError for an unknown or expired login."""
        state = request.query_params.get("state", "")
        kept = cookie_parser(request.headers.get("cookie", "")).get(self._cookie(request, state), "")
        try:
            content = jwt.decode(kept, self._key, algorithms=[_ALGORITHM]).claims
        except (JoseError, ValueError):
            content = {}
        ends_s = content.pop("exp", 0)
        if ends_s < time.time() or not hmac.compare_digest(content["state"].encode(), state.encode()):
            what = "this login was started in another browser or more than ten minutes ago, or the server was restarted"
            raise RejectedError(what, hint=_AGAIN, retry=True)
        return Flow(**content)

    def _failure(self, request: Request, error: BranchlineError, wanted: str) -> Response:
        """Return the login page with an error. Provider errors are also logged, but not twice in a row."""
        if isinstance(error, ProviderError):
            if str(error) != self._trouble:
                print_line(f"login through {self.provider.settings.issuer}: {error}", sys.stderr)
            self._trouble = str(error)
            return login_page(self.settings, wanted, f"{_sentence(error)} This is not your fault.", 502)
        if self._failed.is_over(_host(request)):
            answer = login_page(self.settings, wanted, _sentence(error), 429)
            answer.headers["Retry-After"] = str(RETRY_AFTER_S)
            return answer
        self._failed.add(_host(request))
        return login_page(self.settings, wanted, _sentence(error), 403 if isinstance(error, RefusedError) else 401)


def _host(request: Request) -> str:
    return request.client.host if request.client else ""


def _sentence(error: BranchlineError) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."
