"""An OpenID Connect provider: discovery, the authorization code flow with PKCE, and the mapping of claims to users."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx

from branchline.base.limits import (
    GROUPS_OF_PERSON_MAX,
    OPENID_ANSWER_MAX_BYTES,
    OPENID_DISCOVERY_S,
    OPENID_KEYS_AGAIN_S,
    OPENID_WAIT_S,
)
from branchline.control.accounts import Outsider
from branchline.control.registry.entries import checked_name
from branchline.control.web.openid.tokens import (
    Claims,
    ExpectedClaims,
    ProviderError,
    PublicKey,
    RejectedError,
    claims_of,
    groups_at,
    key_id,
    may_have_signed,
    public_keys,
    subject_of,
)
from branchline.control.web.openid_settings import OpenIdSettings
from branchline.errors import OptionError

_DISCOVERY = "/.well-known/openid-configuration"


@dataclass(frozen=True)
class Endpoints:
    """The metadata of an OpenID Connect provider (OpenID Connect Discovery 1.0, section 3)."""

    authorization: str
    token: str
    keys: str
    userinfo: str = ""
    token_auth_methods: tuple[str, ...] = ("client_secret_basic",)
    names_itself: bool = False

    @classmethod
    def of(cls, content: Claims, issuer: str) -> Endpoints:
        """Parse a discovery document. Raises ProviderError for an invalid document."""
        if content.get("issuer") != issuer:
            what = f"the issuer of the provider is {content.get('issuer')!r:.200}, expected {issuer}"
            raise ProviderError(what, hint="copy the issuer exactly to the settings, including a final slash")
        methods = content.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        return cls(
            authorization=_address(content, "authorization_endpoint", issuer),
            token=_address(content, "token_endpoint", issuer),
            keys=_address(content, "jwks_uri", issuer),
            userinfo=_address(content, "userinfo_endpoint", issuer) if content.get("userinfo_endpoint") else "",
            token_auth_methods=tuple(map(str, methods)) if isinstance(methods, list) else (),
            names_itself=content.get("authorization_response_iss_parameter_supported") is True,
        )


def _address(content: Claims, name: str, issuer: str) -> str:
    """Return a URL from the discovery document.

    Raises ProviderError unless the scheme is https or the issuer's scheme.
    """
    found = content.get(name)
    allowed = ("https", urlsplit(issuer).scheme)
    if not isinstance(found, str) or urlsplit(found).scheme not in allowed or not urlsplit(found).hostname:
        raise ProviderError(f"the provider's {name} is not an https URL: {found!r:.200}")
    return found


@dataclass(frozen=True)
class Flow:
    """The state of a login in progress, which only this server and one browser know.

    ``wanted`` is the path of the page to show after the login.
    """

    state: str
    nonce: str
    verifier: str
    wanted: str

    @property
    def challenge(self) -> str:
        """The PKCE challenge for the verifier (RFC 7636, section 4.2)."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@dataclass
class Provider:
    """An OpenID Connect provider. The provider's metadata and keys are cached for an hour.

    All methods that send requests raise ProviderError if the provider cannot be reached, does not respond in time, or
    sends an invalid response.
    """

    settings: OpenIdSettings
    return_url: str
    now_s: Callable[[], float] = time.monotonic
    _endpoints: Endpoints | None = None
    _endpoints_s: float = 0.0
    _keys: list[PublicKey] = field(default_factory=list)
    _keys_s: float = float("-inf")
    _client: httpx.AsyncClient | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def login_address(self, flow: Flow) -> str:
        """Return the provider's URL to which the browser is redirected for the login."""
        address = (await self.endpoints()).authorization
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.return_url,
            "scope": " ".join(self.settings.scopes),
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": flow.challenge,
            "code_challenge_method": "S256",
        }
        return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"

    async def person(self, flow: Flow, code: str) -> Outsider:
        """Return the user who has logged in at the provider.

        Also raises RejectedError if the code is invalid or the user has no role.
        """
        endpoints = await self.endpoints()
        answer = await self._exchange(endpoints, flow, code)
        token = answer.get("id_token")
        if not isinstance(token, str):
            hint = "register this server as an OpenID Connect client at the provider"
            raise ProviderError("the provider sent no ID token", hint=hint)
        expected = ExpectedClaims(self.settings.issuer, self.settings.client_id, flow.nonce)
        claims = claims_of(token, await self._keys_for(endpoints, key_id(token)), expected)
        return outsider(await self._with_userinfo(endpoints, claims, answer), self.settings)

    async def close(self) -> None:
        """Close the connections to the provider."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def endpoints(self) -> Endpoints:
        """Return the provider's metadata, at most an hour old."""
        async with self._lock:
            if self._endpoints is None or self.now_s() - self._endpoints_s > OPENID_DISCOVERY_S:
                address = self.settings.issuer.rstrip("/") + _DISCOVERY
                self._endpoints = Endpoints.of(await self._asked("GET", address), self.settings.issuer)
                self._endpoints_s = self.now_s()
            return self._endpoints

    async def _keys_for(self, endpoints: Endpoints, kid: str | None) -> list[PublicKey]:
        """Return the keys that match a key ID.

        Fetches the keys again for an unknown ID, because providers rotate keys.
        """
        async with self._lock:
            is_late = self.now_s() - self._keys_s > OPENID_KEYS_AGAIN_S
            is_old = self.now_s() - self._keys_s > OPENID_DISCOVERY_S
            if is_old or (is_late and not may_have_signed(self._keys, kid)):
                self._keys = public_keys(await self._asked("GET", endpoints.keys))
                self._keys_s = self.now_s()
            return may_have_signed(self._keys, kid)

    async def _exchange(self, endpoints: Endpoints, flow: Flow, code: str) -> Claims:
        """Exchange a code for tokens (OpenID Connect Core 1.0, section 3.1.3)."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.return_url,
            "code_verifier": flow.verifier,
        }
        headers = {}
        name, secret = self.settings.client_id, self.settings.client_secret
        if secret and "client_secret_basic" in endpoints.token_auth_methods:
            # RFC 6749, section 2.3.1: form-encode name and secret before the Basic authentication.
            pair = f"{quote_plus(name)}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": name} | ({"client_secret": secret} if secret else {})
        return await self._asked("POST", endpoints.token, form, headers)

    async def _with_userinfo(self, endpoints: Endpoints, claims: Claims, answer: Claims) -> Claims:
        """Return the claims of an ID token.

        If groups or name are missing, add the claims from the userinfo endpoint.
        """
        access = answer.get("access_token")
        has_all = groups_at(claims, self.settings.groups_claim) is not None and self.settings.name_claim in claims
        if has_all or not endpoints.userinfo or not isinstance(access, str):
            return claims
        more = await self._asked("GET", endpoints.userinfo, headers={"Authorization": f"Bearer {access}"})
        if subject_of(more) != subject_of(claims):
            raise ProviderError("the userinfo of the provider is about another user")
        return {**more, **{name: value for name, value in claims.items() if value is not None}}

    async def _asked(
        self, method: str, url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> Claims:
        """Send a request and return the JSON object in the response. The timeout covers the whole exchange."""
        place = urlsplit(url).hostname
        try:
            async with asyncio.timeout(OPENID_WAIT_S):
                status, content = await self._fetched(method, url, form, headers or {})
        except TimeoutError:
            what = f"the provider did not answer at {place} within {OPENID_WAIT_S:g} s"
            raise ProviderError(what, retry=True) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            why = str(error) or type(error).__name__
            raise ProviderError(f"the provider cannot be reached at {place}: {why}", retry=True) from None
        found = _object(content)
        if status == 200 and found is not None:
            return found
        if form is not None and found is not None and isinstance(found.get("error"), str):
            _explain_refusal(str(found["error"]), found.get("error_description"))
        what = "no JSON object" if status == 200 else f"status {status}"
        raise ProviderError(f"the provider answered with {what} at {place}{urlsplit(url).path}", retry=status >= 500)

    async def _fetched(
        self, method: str, url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        if self._client is None:
            # The client uses the system's CA certificates. It does not follow redirects, which could send secrets to
            # other servers.
            self._client = httpx.AsyncClient(verify=ssl.create_default_context(), timeout=OPENID_WAIT_S)
        async with AsyncExitStack() as stack:
            request = self._client.stream(method, url, data=form, headers={"Accept": "application/json", **headers})
            answer = await stack.enter_async_context(request)
            content = bytearray()
            async for piece in answer.aiter_bytes():
                content += piece
                if len(content) > OPENID_ANSWER_MAX_BYTES:
                    raise httpx.DecodingError(f"the response is longer than {OPENID_ANSWER_MAX_BYTES} bytes")
            return answer.status_code, bytes(content)


def _object(content: bytes) -> dict[str, object] | None:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _explain_refusal(error: str, description: object) -> None:
    """Raise RejectedError for an error response about an invalid or expired code, else ProviderError."""
    more = f": {description:.200}" if isinstance(description, str) and description.isprintable() else ""
    if error == "invalid_grant":
        raise RejectedError(f"the provider rejected the code of this login{more}", hint="log in again", retry=True)
    hint = "check client_id, its secret, and the redirect URL that is registered at the provider"
    raise ProviderError(f"the provider rejects this server: {error[:64]!r}{more}", hint=hint)


def outsider(claims: Claims, settings: OpenIdSettings) -> Outsider:
    """Return a user with the role and groups that follow from the claims.

    Raises RejectedError for a user without role.
    """
    theirs = groups_at(claims, settings.groups_claim) or frozenset()
    name = name_from(claims.get(settings.name_claim), claims.get("email"))
    role = settings.role_of(theirs)
    if role is None:
        what = f"you are logged in to {settings.shown_name} as {name}, but in no group that may use this control room"
        raise RejectedError(what, hint="ask the administrator of the control room")
    if settings.groups:
        groups = [ours for ours, theirs_of in settings.groups.items() if theirs & set(theirs_of)]
    else:
        groups = [own for one in theirs if (own := _group_name(one)) is not None]
    kept = tuple(sorted(set(groups))[:GROUPS_OF_PERSON_MAX])
    return Outsider(settings.issuer, subject_of(claims), name, role, kept)


def name_from(*claimed: object) -> str:
    """Return a valid account name from the first usable claim: ``lise_meitner`` for ``lise.meitner@example.org``."""
    for one in claimed:
        if isinstance(one, str) and (kept := re.sub(r"[^A-Za-z0-9_-]+", "_", one.partition("@")[0][:200]).strip("_")):
            return (kept if kept[0].isalpha() else f"u{kept}")[:60]
    return "somebody"


def _group_name(group: str) -> str | None:
    """Return a group's name without the leading slash that Keycloak adds; None for an invalid name."""
    try:
        return checked_name("the name of a group", group.removeprefix("/"))
    except OptionError:
        return None
