"""Where a job reports to: the address of a control room, and the token that it asks for."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from branchline.base.limits import REPORT_TOKEN_MAX_BYTES
from branchline.errors import OptionError

#: The variables with the address, with the token, and with the path of a file that holds the token.
ADDRESS_VARIABLE = "BRANCHLINE_REPORT_TO"
TOKEN_VARIABLE = "BRANCHLINE_REPORT_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_FILE_VARIABLE = "BRANCHLINE_REPORT_TOKEN_FILE"  # noqa: S105 - the name of a variable
#: The variable that says whether jobs obey the measures of the control room: "obey" (default) or "refuse".
MEASURES_VARIABLE = "BRANCHLINE_MEASURES"
#: The path below the address that takes reports.
REPORTS_PATH = "/api/v1/reports"
_HINT = "write it like https://host:8443, with the token in BRANCHLINE_REPORT_TOKEN"
# What a header may have: anything else in a token would become a part of the request.
_TOKEN = re.compile(r"[\x21-\x7e]+")
_PORTS = {"http": 80, "https": 443}


class TokenError(Exception):
    """There is a token, and it cannot be used; the message does not show it."""


@dataclass(frozen=True)
class ReportTarget:
    """A control room. ``url`` is its address without token, query and slash at the end. ``token`` is that of the
    address if it had one; ``token_file`` a file with it. Neither is shown, nor compared. ``is_obeyed``: the job obeys
    its measures.
    """

    url: str
    token: str = field(default="", repr=False, compare=False)
    token_file: str = field(default="", repr=False, compare=False)
    is_obeyed: bool = True

    @classmethod
    def of(cls, given: str | None, environment: Mapping[str, str] | None = None) -> ReportTarget | None:
        """The control room at an address, by default at that of the environment; None where there is none, and for an
        empty address. Raises OptionError for anything else that is no address, and for a token that cannot be used.
        """
        environment = os.environ if environment is None else environment
        address = environment.get(ADDRESS_VARIABLE, "") if given is None else given
        if not isinstance(address, str):
            raise OptionError(f"report_to cannot be a {type(address).__name__}", hint=_HINT)
        if not address.strip():
            return None
        url, token = _split(address.strip())
        token_file = "" if token else environment.get(TOKEN_FILE_VARIABLE, "").strip()
        target = cls(url, token, token_file, _is_obeyed(environment))
        try:
            target.authorization(environment)
        except TokenError as error:
            raise OptionError(
                str(error), hint="look at BRANCHLINE_REPORT_TOKEN and BRANCHLINE_REPORT_TOKEN_FILE"
            ) from None
        return target

    @property
    def why_refused(self) -> str:
        """Why the job does not obey measures; empty if it does."""
        return "" if self.is_obeyed else f"{MEASURES_VARIABLE} is refuse"

    @property
    def scheme(self) -> str:
        """How it is spoken to: http or https."""
        return urlsplit(self.url).scheme

    @property
    def host(self) -> str:
        """The name or number of the machine; that of IPv6 without brackets."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port, by default that of the scheme."""
        return urlsplit(self.url).port or _PORTS[self.scheme]

    @property
    def path(self) -> str:
        """The path to which reports are sent."""
        return urlsplit(self.url).path + REPORTS_PATH

    def authorization(self, environment: Mapping[str, str] | None = None) -> str | None:
        """The value of the header with the token; None where there is none. A token file is read each time, since
        tokens are renewed. Raises TokenError.
        """
        environment = os.environ if environment is None else environment
        token, where = self.token, "in the address"
        if not token:
            token, where = environment.get(TOKEN_VARIABLE, "").strip(), f"in {TOKEN_VARIABLE}"
        if not token:
            path = environment.get(TOKEN_FILE_VARIABLE, "").strip() or self.token_file
            token, where = (_token_in(Path(path)), f"in the file {path}") if path else ("", "")
        if not token:
            return None
        if not _TOKEN.fullmatch(token):
            raise TokenError(f"the token {where} has characters that no token has")
        return f"Bearer {token}"


def _is_obeyed(environment: Mapping[str, str]) -> bool:
    word = environment.get(MEASURES_VARIABLE, "").strip() or "obey"
    if word not in ("obey", "refuse"):
        raise OptionError(f"{MEASURES_VARIABLE} cannot be {word!r:.40}", hint="set it to obey or refuse")
    return word == "obey"


def _split(address: str) -> tuple[str, str]:
    """An address without its token, and the token. No message shows more of the address than scheme and host."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise OptionError("the address of the control room is none", hint=_HINT) from None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not parts.hostname or re.search(r"[\x00-\x20\x7f-\U0010ffff]", address):
        raise OptionError("reports are sent to an address that begins with http:// or https://", hint=_HINT)
    if "@" in parts.netloc:
        raise OptionError("the address of the control room has a user or a password in it", hint=_HINT)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    token = query.pop("token", "")
    if query or parts.fragment:
        raise OptionError("the address of the control room has more behind it than a token", hint=_HINT)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    at = "" if port is None or port == _PORTS[scheme] else f":{port}"
    return f"{scheme}://{host}{at}{parts.path.rstrip('/')}", token


def _token_in(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(REPORT_TOKEN_MAX_BYTES + 1)
    except OSError as error:
        raise TokenError(f"the token in the file {path} cannot be read: {error.strerror}") from None
    if len(content) > REPORT_TOKEN_MAX_BYTES:
        raise TokenError(f"the file {path} is too large for a token")
    token = content.decode("latin-1").strip()
    if not token:
        raise TokenError(f"the file {path} has no token in it")
    return token
