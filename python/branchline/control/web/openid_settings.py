"""The settings file that connects a shared control room to an OpenID Connect provider."""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from branchline.base.limits import OPENID_FILE_MAX_BYTES
from branchline.control.people import ROLES
from branchline.control.registry.entries import checked_name
from branchline.errors import OptionError

#: Name that stands for a group with all users of the provider.
EVERYBODY = "*"
_HINT = "the guide of the control room has an example"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class OpenIdSettings:
    """An OpenID Connect provider, and the mapping of its claims to roles and groups.

    - ``roles``: the provider's groups that have each role of the control room.
    - ``groups``: the provider's groups that belong to each group of the control room; if empty, all groups of the
      provider with valid names are groups of the control room.
    - ``client_secret``: empty if the server is a public client.
    - ``url``: the server's URL for browsers, if different from the printed URL.
    - ``secret_files``: the files from which the client secret was read.
    """

    issuer: str
    client_id: str
    roles: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    client_secret: str = field(default="", repr=False)
    groups_claim: str = "groups"
    name_claim: str = "preferred_username"
    scopes: tuple[str, ...] = ("openid", "profile")
    label: str = ""
    url: str = ""
    secret_files: tuple[Path, ...] = ()

    @property
    def shown_name(self) -> str:
        """The provider's name on the login page."""
        return self.label or (urlsplit(self.issuer).hostname or self.issuer)

    def role_of(self, groups: frozenset[str]) -> str | None:
        """Return the most powerful role of a user in these groups of the provider; None for a user without a role."""
        known = groups | {EVERYBODY}
        return next((role for role in reversed(ROLES) if known & set(self.roles.get(role, ()))), None)

    @property
    def makes_administrators(self) -> bool:
        """Whether members of a group of the provider are administrators."""
        return bool(self.roles.get(ROLES[-1]))


def load_openid(path: Path) -> OpenIdSettings:
    """Load settings from a TOML file. Raises OptionError for invalid settings."""
    text = _text(path, "the OpenID Connect settings file")
    try:
        fields = _Fields(path, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"it is not valid TOML: {error}", path=str(path), hint=_HINT) from None
    return fields.settings()


class _Fields:
    """The fields of a settings file. Reading a field removes it, so the remaining fields are unknown and an error."""

    def __init__(self, path: Path, content: Mapping[str, object]) -> None:
        self._path = path
        self._left = dict(content)

    def settings(self) -> OpenIdSettings:
        """Return the settings. Raises OptionError for an unknown, missing or invalid field."""
        issuer = self._address("issuer")
        roles = self._lists("roles")
        wrong = sorted(set(roles) - set(ROLES))
        if wrong or not any(roles.values()):
            what = f"unknown role {wrong[0]!r:.80}" if wrong else "no group has a role, so no user could log in"
            raise self._error(what, f"list groups of the provider in [roles] under {', '.join(ROLES)}")
        groups = self._lists("groups")
        for one in groups:
            checked_name("the name of a group", one)
        found = OpenIdSettings(
            issuer=issuer,
            client_id=self._text("client_id"),
            secret_files=self._secret_files(),
            client_secret=self._secret(),
            roles=roles,
            groups=groups,
            groups_claim=self._text("groups_claim", "groups"),
            name_claim=self._text("name_claim", "preferred_username"),
            scopes=self._scopes(),
            label=self._text("label", " ").strip(),
            url=self._address("url").rstrip("/") if "url" in self._left else "",
        )
        if self._left:
            raise self._error(f"unknown setting {min(self._left)!r:.80}")
        return found

    def _error(self, what: str, hint: str = _HINT) -> OptionError:
        return OptionError(what, path=str(self._path), hint=hint)

    def _text(self, name: str, usual: str = "") -> str:
        value = self._left.pop(name, usual)
        if not isinstance(value, str) or not value or not value.isprintable():
            raise self._error(f"{name} must be a non-empty string")
        return value

    def _address(self, name: str) -> str:
        """Return a field whose value is an https URL, or an http URL of the loopback interface."""
        value = self._text(name)
        parts = urlsplit(value)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
        if not is_safe or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
            raise self._error(f"{name} must be a URL like https://login.example.org, got {value!r:.200}")
        return value

    def _texts(self, name: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise self._error(f"{name} must be a list of strings")
        return tuple(value)

    def _lists(self, name: str) -> dict[str, tuple[str, ...]]:
        value = self._left.pop(name, {})
        if not isinstance(value, Mapping):
            raise self._error(f"{name} must be a table of lists")
        return {key: self._texts(f"{name}.{key}", one) for key, one in value.items()}

    def _scopes(self) -> tuple[str, ...]:
        scopes = self._texts("scopes", self._left.pop("scopes", ["openid", "profile"]))
        return scopes if "openid" in scopes else ("openid", *scopes)

    def _secret_files(self) -> tuple[Path, ...]:
        name = self._left.get("client_secret_file")
        return (self._path.parent / name,) if isinstance(name, str) else ()

    def _secret(self) -> str:
        """Read the client secret from a separate file, because administrators may share the settings file."""
        if "client_secret_file" not in self._left:
            return ""
        path = self._path.parent / self._text("client_secret_file")
        secret = _text(path, "the OpenID Connect secret file").strip()
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise OptionError("other users can access the secret", path=str(path), hint=f"run chmod 600 {path}")
        if not secret:
            raise OptionError("the secret is empty", path=str(path))
        return secret


def _text(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(OPENID_FILE_MAX_BYTES + 1)
        if len(content) > OPENID_FILE_MAX_BYTES:
            raise OptionError(f"{what} is longer than {OPENID_FILE_MAX_BYTES} bytes", path=str(path))
        return content.decode()
    except OSError as error:
        raise OptionError(f"{what} cannot be read: {error.strerror}", path=str(path)) from None
    except UnicodeDecodeError:
        raise OptionError(f"{what} is not UTF-8 text", path=str(path)) from None
