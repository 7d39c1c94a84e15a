"""The address and access token of the control room that a job reports to."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from branchline.base import environment
from branchline.base.limits import REPORT_TOKEN_MAX_BYTES
from branchline.errors import OptionError

#: Names of environment variables: the control room's address, the token, and the path of a token file.
ADDRESS_VARIABLE = environment.REPORT_TO
TOKEN_VARIABLE = environment.REPORT_TOKEN
TOKEN_FILE_VARIABLE = environment.REPORT_TOKEN_FILE
#: Name of the environment variable that says whether jobs follow the control room's measures: "obey" (default) or
#: "refuse".
MEASURES_VARIABLE = environment.MEASURES
#: URL path of the reports endpoint.
REPORTS_PATH = "/api/v1/reports"
_HINT = f"write it like https://host:8443, with the token in {TOKEN_VARIABLE}"
# Matches printable ASCII only: other characters in a token could inject headers into the request.
_TOKEN = re.compile(r"[\x21-\x7e]+")
_PORTS = {"http": 80, "https": 443}


class TokenError(Exception):
    """Raised if the token cannot be used. The message never contains the token."""


@dataclass(frozen=True)
class ReportTarget:
    """The control room that a job reports to.

    - ``url`` has no token, query or trailing slash.
    - ``token`` is the token in the address, or empty. It is excluded from ``repr`` and comparison.
    - ``token_file`` is the path of a token file, or empty. It is excluded from ``repr`` and comparison.
    - ``is_obeyed`` is True if the job follows the control room's measures.
    """

    url: str
    token: str = field(default="", repr=False, compare=False)
    token_file: str = field(default="", repr=False, compare=False)
    is_obeyed: bool = True

    @classmethod
    def of(cls, given: str | None, environment: Mapping[str, str] | None = None) -> ReportTarget | None:
        """Return the control room at an address, by default the address in the environment.

        Returns None if the address is empty or not set. Raises OptionError for an invalid address or token.
        """
        environment = os.environ if environment is None else environment
        address = environment.get(ADDRESS_VARIABLE, "") if given is None else given
        if not isinstance(address, str):
            raise OptionError(f"report_to must be a string, not {type(address).__name__}", hint=_HINT)
        if not address.strip():
            return None
        url, token = _split(address.strip())
        token_file = "" if token else environment.get(TOKEN_FILE_VARIABLE, "").strip()
        word = environment.get(MEASURES_VARIABLE, "").strip() or "obey"
        if word not in ("obey", "refuse"):
            raise OptionError(f"invalid {MEASURES_VARIABLE} {word!r:.40}", hint="set it to obey or refuse")
        target = cls(url, token, token_file, word == "obey")
        try:
            target.authorization(environment)
        except TokenError as error:
            raise OptionError(str(error), hint=f"check {TOKEN_VARIABLE} and {TOKEN_FILE_VARIABLE}") from None
        return target

    @property
    def why_refused(self) -> str:
        """Why the job ignores measures; empty if it follows them."""
        return "" if self.is_obeyed else f"{MEASURES_VARIABLE} is refuse"

    @property
    def scheme(self) -> str:
        """URL scheme: http or https."""
        return urlsplit(self.url).scheme

    @property
    def host(self) -> str:
        """Host name or IP address; IPv6 without brackets."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """Port; defaults to the default port of the URL scheme."""
        return urlsplit(self.url).port or _PORTS[self.scheme]

    @property
    def path(self) -> str:
        """URL path that reports are posted to."""
        return urlsplit(self.url).path + REPORTS_PATH

    def authorization(self, environment: Mapping[str, str] | None = None) -> str | None:
        """Return the value of the Authorization header, or None without a token.

        A token file is read on every call, because tokens are rotated. Raises TokenError.
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
            raise TokenError(f"the token {where} contains invalid characters")
        return f"Bearer {token}"


def _split(address: str) -> tuple[str, str]:
    """Split an address into the URL without the token, and the token. Error messages never contain the query or the
    password.
    """
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise OptionError("invalid control room URL", hint=_HINT) from None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not parts.hostname or re.search(r"[\x00-\x20\x7f-\U0010ffff]", address):
        raise OptionError("the control room URL must start with http:// or https://", hint=_HINT)
    if "@" in parts.netloc:
        raise OptionError("the control room URL must not contain a user or password", hint=_HINT)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    token = query.pop("token", "")
    if query or parts.fragment:
        raise OptionError("the control room URL has a query or fragment other than the token", hint=_HINT)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    at = "" if port is None or port == _PORTS[scheme] else f":{port}"
    return f"{scheme}://{host}{at}{parts.path.rstrip('/')}", token


def _token_in(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(REPORT_TOKEN_MAX_BYTES + 1)
    except OSError as error:
        raise TokenError(f"cannot read the token file {path}: {error.strerror}") from None
    if len(content) > REPORT_TOKEN_MAX_BYTES:
        raise TokenError(f"the token file {path} is too large")
    token = content.decode("latin-1").strip()
    if not token:
        raise TokenError(f"the token file {path} is empty")
    return token
