"""An OpenID Connect provider: discovery, the code flow with PKCE, and the account that follows from its claims."""

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
    Expected,
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
    """Where a provider does what (OpenID Connect Discovery 1.0, section 3)."""

    authorization: str
    token: str
    keys: str
    userinfo: str = ""
    token_auth_methods: tuple[str, ...] = ("client_secret_basic",)
    names_itself: bool = False

    @classmethod
    def of(cls, content: Claims, issuer: str) -> Endpoints:
        """Those that a document of the discovery names. Raises ProviderError for a wrong one."""
        if content.get("issuer") != issuer:
            what = f"the provider calls itself {content.get('issuer')!r:.200}, and not {issuer}"
            raise ProviderError(what, hint="write the issuer in the settings as the provider does, to the last slash")
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
    """An address in the discovery: by https, unless the issuer itself is not."""
    found = content.get(name)
    allowed = ("https", urlsplit(issuer).scheme)
    if not isinstance(found, str) or urlsplit(found).scheme not in allowed or not urlsplit(found).hostname:
        raise ProviderError(f"the provider's {name} is no address by https: {found!r:.200}")
    return found


@dataclass(frozen=True)
class Flow:
    """One log-in on its way: what only this server and one browser know of it."""

    state: str
    nonce: str
    verifier: str
    wanted: str

    @property
    def challenge(self) -> str:
        """The verifier as it is told at first (RFC 7636, section 4.2)."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@dataclass
class Provider:
    """A provider as the settings name it. What it says of itself is kept for an hour.

    All methods raise ProviderError where it is silent, cannot be reached, or answers otherwise than it must.
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
        """Where a browser is sent to log in."""
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
        """Who has logged in. Raises RejectedError also, for a code that is not good and for somebody without a role."""
        endpoints = await self.endpoints()
        answer = await self._exchange(endpoints, flow, code)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise ProviderError("the provider sent no ID token", hint="is this client one of OpenID Connect there?")
        expected = Expected(self.settings.issuer, self.settings.client_id, flow.nonce)
        claims = claims_of(token, await self._keys_for(endpoints, key_id(token)), expected)
        return outsider(await self._with_userinfo(endpoints, claims, answer), self.settings)

    async def close(self) -> None:
        """Ends its connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def endpoints(self) -> Endpoints:
        """Where it does what, as it said within the last hour."""
        async with self._lock:
            if self._endpoints is None or self.now_s() - self._endpoints_s > OPENID_DISCOVERY_S:
                address = self.settings.issuer.rstrip("/") + _DISCOVERY
                self._endpoints = Endpoints.of(await self._asked("GET", address), self.settings.issuer)
                self._endpoints_s = self.now_s()
            return self._endpoints

    async def _keys_for(self, endpoints: Endpoints, kid: str | None) -> list[PublicKey]:
        """The keys that may have signed. They are fetched again for one that is not known: providers change them."""
        async with self._lock:
            is_late = self.now_s() - self._keys_s > OPENID_KEYS_AGAIN_S
            is_old = self.now_s() - self._keys_s > OPENID_DISCOVERY_S
            if is_old or (is_late and not may_have_signed(self._keys, kid)):
                self._keys = public_keys(await self._asked("GET", endpoints.keys))
                self._keys_s = self.now_s()
            return may_have_signed(self._keys, kid)

    async def _exchange(self, endpoints: Endpoints, flow: Flow, code: str) -> Claims:
        """The tokens for a code (OpenID Connect Core 1.0, section 3.1.3)."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.return_url,
            "code_verifier": flow.verifier,
        }
        headers = {}
        name, secret = self.settings.client_id, self.settings.client_secret
        if secret and "client_secret_basic" in endpoints.token_auth_methods:
            # RFC 6749, section 2.3.1: both are encoded as in a form first.
            pair = f"{quote_plus(name)}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": name} | ({"client_secret": secret} if secret else {})
        return await self._asked("POST", endpoints.token, form, headers)

    async def _with_userinfo(self, endpoints: Endpoints, claims: Claims, answer: Claims) -> Claims:
        """The claims, and those that the provider keeps at another address, if the groups are not here."""
        access = answer.get("access_token")
        has_all = groups_at(claims, self.settings.groups_claim) is not None and self.settings.name_claim in claims
        if has_all or not endpoints.userinfo or not isinstance(access, str):
            return claims
        more = await self._asked("GET", endpoints.userinfo, headers={"Authorization": f"Bearer {access}"})
        if subject_of(more) != subject_of(claims):
            raise ProviderError("the provider tells of another person than has logged in")
        return {**more, **{name: value for name, value in claims.items() if value is not None}}

    async def _asked(
        self, method: str, url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> Claims:
        """The JSON object of an answer, whole within one deadline."""
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
            # The certificates of the system, as an administrator expects. Redirects would take secrets elsewhere.
            self._client = httpx.AsyncClient(verify=ssl.create_default_context(), timeout=OPENID_WAIT_S)
        async with AsyncExitStack() as stack:
            request = self._client.stream(method, url, data=form, headers={"Accept": "application/json", **headers})
            answer = await stack.enter_async_context(request)
            content = bytearray()
            async for piece in answer.aiter_bytes():
                content += piece
                if len(content) > OPENID_ANSWER_MAX_BYTES:
                    raise httpx.DecodingError(f"the answer has more than {OPENID_ANSWER_MAX_BYTES} bytes")
            return answer.status_code, bytes(content)


def _object(content: bytes) -> dict[str, object] | None:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _explain_refusal(error: str, description: object) -> None:
    """Raises what the refusal of a code means: a fault of the settings, or a code that was used or is old."""
    more = f": {description:.200}" if isinstance(description, str) and description.isprintable() else ""
    if error == "invalid_grant":
        raise RejectedError(f"the provider did not take the code of this log-in{more}", hint="log in again", retry=True)
    hint = "look at client_id, its secret, and the address of return that the provider knows"
    raise ProviderError(f"the provider refuses this server: {error[:64]!r}{more}", hint=hint)


def outsider(claims: Claims, settings: OpenIdSettings) -> Outsider:
    """A person with the role and the groups that follow from the provider's. Raises RejectedError without a role."""
    theirs = groups_at(claims, settings.groups_claim) or frozenset()
    name = name_from(claims.get(settings.name_claim), claims.get("email"))
    role = settings.role_of(theirs)
    if role is None:
        what = f"you are known to {settings.shown_name} as {name}, and in no group that may use this control room"
        raise RejectedError(what, hint="ask its administrator")
    return Outsider(settings.issuer, subject_of(claims), name, role, _local_groups(theirs, settings))


def name_from(*claimed: object) -> str:
    """A name as accounts have it: of ``lise.meitner@example.org`` it is ``lise_meitner``."""
    for one in claimed:
        if isinstance(one, str) and (kept := re.sub(r"[^A-Za-z0-9_-]+", "_", one.partition("@")[0][:200]).strip("_")):
            return (kept if kept[0].isalpha() else f"u{kept}")[:60]
    return "somebody"


def _local_groups(theirs: frozenset[str], settings: OpenIdSettings) -> tuple[str, ...]:
    if settings.groups:
        found = [ours for ours, theirs_of in settings.groups.items() if theirs & set(theirs_of)]
    else:
        found = [name for one in theirs if (name := _group_name(one)) is not None]
    return tuple(sorted(set(found))[:GROUPS_OF_PERSON_MAX])


def _group_name(group: str) -> str | None:
    """A group of the provider as one of ours; Keycloak writes ``/alice``. None for a text that is no name."""
    try:
        return checked_name("the name of a group", group.removeprefix("/"))
    except OptionError:
        return None
