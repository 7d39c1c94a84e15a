"""How a control room is served: to whom, and by what they are known."""

from __future__ import annotations

from dataclasses import dataclass

from branchline.control.web.keys import AccountKeys, OwnToken
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
