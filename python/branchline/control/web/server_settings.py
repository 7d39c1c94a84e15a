"""Settings of a served control room, and how its requests are authenticated.

A single user has one token; a shared control room has sessions and tokens of accounts.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Protocol

from starlette.concurrency import run_in_threadpool

from branchline.control.accounts import Accounts, Login
from branchline.control.people import Person
from branchline.control.web.openid_settings import OpenIdSettings

#: The cookie that a browser keeps; the port follows.
COOKIE = "branchline"
#: In the directory of a control room: the token of who serves it alone. Jobs of the same user read it.
TOKEN_FILE = "token"  # noqa: S105 - a name of a file
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class ServerSettings:
    """``keys`` tell who asks. ``hosts`` are the names by which browsers may call the server: any other name in a
    request is that of a page elsewhere, which has its address point here. ``is_secure``: browsers reach it by https.
    ``base`` is the address that is printed, and ``openid`` a provider that people may log in by.
    """

    keys: OwnToken | AccountKeys
    hosts: tuple[str, ...] = LOOPBACK_HOSTS
    is_secure: bool = False
    base: str = ""
    openid: OpenIdSettings | None = None

    @property
    def is_shared(self) -> bool:
        """Whether there are accounts, which log in."""
        return isinstance(self.keys, AccountKeys)


class Keys(Protocol):
    """Whose a secret is; None for one that is not known, or is no longer."""

    async def of_bearer(self, secret: str) -> Login | None:
        """Of the header that scripts and jobs send."""
        ...

    async def of_cookie(self, secret: str) -> Login | None:
        """Of a browser."""
        ...


@dataclass(frozen=True)
class OwnToken:
    """One token opens everything, for one person."""

    token: str
    person: Person

    async def of_bearer(self, secret: str) -> Login | None:
        """The person, if it is the token."""
        is_token = hmac.compare_digest(secret.encode(errors="replace"), self.token.encode())
        return Login(self.person) if is_token else None

    async def of_cookie(self, secret: str) -> Login | None:
        """The same."""
        return await self.of_bearer(secret)


@dataclass(frozen=True)
class AccountKeys:
    """Sessions and tokens of a shared control room."""

    accounts: Accounts

    async def of_bearer(self, secret: str) -> Login | None:
        """Whose token it is."""
        return await run_in_threadpool(self.accounts.of_token, secret)

    async def of_cookie(self, secret: str) -> Login | None:
        """Whose session it is."""
        return await run_in_threadpool(self.accounts.of_session, secret) if secret else None
