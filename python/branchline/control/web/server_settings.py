"""Settings of a served control room, and the authentication of requests.

A single-user control room has one token. In a shared control room, accounts have sessions and tokens.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Protocol

from starlette.concurrency import run_in_threadpool

from branchline.control.accounts import Accounts, Login
from branchline.control.people import Person
from branchline.control.web.openid_settings import OpenIdSettings

#: Prefix of the session cookie's name, to which the port is appended.
COOKIE = "branchline"
#: Name of the file with a single user's token, in the control room's directory. Jobs of the same user read this file.
TOKEN_FILE = "token"  # noqa: S105 - a file name
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a served control room.

    - ``keys``: authenticates requests.
    - ``hosts``: accepted host names; requests with other host names are rejected to prevent DNS rebinding.
    - ``is_secure``: whether browsers connect over https.
    - ``base``: the server's printed URL.
    - ``openid``: the OpenID Connect provider for logins; None if there is no provider.
    """

    keys: OwnToken | AccountKeys
    hosts: tuple[str, ...] = LOOPBACK_HOSTS
    is_secure: bool = False
    base: str = ""
    openid: OpenIdSettings | None = None

    @property
    def is_shared(self) -> bool:
        """Whether users have accounts and log in."""
        return isinstance(self.keys, AccountKeys)


class Keys(Protocol):
    """Finds the login that belongs to a secret."""

    async def of_bearer(self, secret: str) -> Login | None:
        """Return the login for a bearer token; None if the token is unknown or expired."""
        ...

    async def of_cookie(self, secret: str) -> Login | None:
        """Return the login for the value of the session cookie; None if the value is unknown or expired."""
        ...


@dataclass(frozen=True)
class OwnToken:
    """The token of a single-user control room, which has all rights."""

    token: str
    person: Person

    async def of_bearer(self, secret: str) -> Login | None:
        """Return the single user's login; None for a wrong token."""
        is_token = hmac.compare_digest(secret.encode(errors="replace"), self.token.encode())
        return Login(self.person) if is_token else None

    async def of_cookie(self, secret: str) -> Login | None:
        """Return the single user's login; None for a wrong token. The cookie's value is the token."""
        return await self.of_bearer(secret)


@dataclass(frozen=True)
class AccountKeys:
    """The sessions and tokens of accounts in a shared control room."""

    accounts: Accounts

    async def of_bearer(self, secret: str) -> Login | None:
        """Return the login for an account's token; None if the token is unknown or expired."""
        return await run_in_threadpool(self.accounts.of_token, secret)

    async def of_cookie(self, secret: str) -> Login | None:
        """Return the login for an account's session; None if the session is unknown or expired."""
        return await run_in_threadpool(self.accounts.of_session, secret) if secret else None
