"""How requests are known: by the one token of somebody who is alone, or by sessions and tokens of accounts."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Protocol

from starlette.concurrency import run_in_threadpool

from branchline.control.accounts.accounts import Accounts, Login
from branchline.control.people import Person


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
