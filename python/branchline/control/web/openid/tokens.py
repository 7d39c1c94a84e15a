"""Validate ID tokens (OpenID Connect Core 1.0, sections 2 and 3.1.3.7). Also defines the errors of logins."""

from __future__ import annotations

import hmac
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

from branchline.base.limits import OPENID_CLOCKS_S, OPENID_GROUPS_MAX, OPENID_KEYS_MAX
from branchline.errors import BranchlineError

#: Accepted signature algorithms. Excludes HMAC algorithms: everyone who knows the shared secret could sign a token.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
SUBJECT_CHARACTERS_MAX = 255
# Upper limit for times in tokens, in seconds since 1970.
_MOMENT_MAX_S = 1e12
_KINDS = ("RSA", "EC", "OKP")
Claims = Mapping[str, object]
PublicKey = RSAKey | ECKey | OKPKey


class ProviderError(BranchlineError):
    """Logins are not possible, because the provider cannot be reached or violates OpenID Connect."""


class RejectedError(BranchlineError):
    """A login was not started on this server, took too long, or was rejected by the provider."""


@dataclass(frozen=True)
class ExpectedClaims:
    """Required values of a token's claims: issuer, audience, and the nonce of the login."""

    issuer: str
    client_id: str
    nonce: str


def public_keys(content: Claims) -> list[PublicKey]:
    """Return the signature keys from a JWK set (RFC 7517, section 5). Ignores unsupported keys."""
    found: list[PublicKey] = []
    listed = content.get("keys")
    for one in listed[:OPENID_KEYS_MAX] if isinstance(listed, list) else []:
        if not isinstance(one, dict) or one.get("kty") not in _KINDS or one.get("use", "sig") != "sig":
            continue
        try:
            key = JWKRegistry.import_key(one)
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        if isinstance(key, PublicKey):
            found.append(key)
    return found


def key_id(token: str) -> str | None:
    """Return the key ID from a token's header; None if the header has none.

    Raises ProviderError for an invalid token.
    """
    try:
        found = jws.extract_compact(token.encode()).headers().get("kid")
    except (JoseError, ValueError) as error:
        raise ProviderError(f"the provider sent an invalid ID token: {_why(error)}") from None
    return found if isinstance(found, str) else None


def may_have_signed(keys: Sequence[PublicKey], kid: str | None) -> list[PublicKey]:
    """Return the keys that match a token's key ID; all keys if the token has no key ID."""
    return [one for one in keys if kid is None or one.kid == kid]


def claims_of(token: str, keys: Sequence[PublicKey], expected: ExpectedClaims, now_s: float | None = None) -> Claims:
    """Validate a token and return its claims. ``now_s`` is the time in seconds since 1970.

    Raises ProviderError for an invalid token, and RejectedError for the token of another login.
    """
    claims = _signed(token, keys)
    _check(claims, expected, time.time() if now_s is None else now_s)
    return claims


def _signed(token: str, keys: Sequence[PublicKey]) -> Claims:
    why = "none of the provider's keys matches"
    for key in keys:
        try:
            return jwt.decode(token, key, algorithms=ALGORITHMS).claims
        except (JoseError, ValueError, TypeError) as error:
            why = _why(error)
    raise ProviderError(f"the signature of the provider's ID token is invalid: {why}")


def _check(claims: Claims, expected: ExpectedClaims, now_s: float) -> None:
    if claims.get("iss") != expected.issuer:
        raise ProviderError(f"the issuer of the ID token is {claims.get('iss')!r:.200}, expected {expected.issuer}")
    audience = claims.get("aud")
    for_whom = audience if isinstance(audience, list) else [audience]
    party = claims.get("azp", expected.client_id if len(for_whom) == 1 else None)
    if expected.client_id not in for_whom or party != expected.client_id:
        raise ProviderError("the ID token is for another application")
    ends_s, began_s = _moment(claims, "exp"), _moment(claims, "iat")
    if ends_s < now_s - OPENID_CLOCKS_S or began_s > now_s + OPENID_CLOCKS_S:
        what = "the ID token has expired or is not valid yet"
        away = f"its issue time differs from the server's clock by {abs(now_s - began_s):.0f} s"
        raise ProviderError(f"{what}: {away}", hint="check the clock of the server")
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), expected.nonce.encode()):
        raise RejectedError("the ID token belongs to another login", hint="log in again", retry=True)
    subject_of(claims)


def _moment(claims: Claims, name: str) -> float:
    found = claims.get(name)
    # The chained comparison also rejects NaN, and integers that are too large for a float.
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < _MOMENT_MAX_S:
        raise ProviderError(f"the ID token has no valid {name}")
    return float(found)


def subject_of(claims: Claims) -> str:
    """Return the subject: the user's permanent ID at the provider. Raises ProviderError if the claim is missing."""
    found = claims.get("sub")
    if not isinstance(found, str) or not 0 < len(found) <= SUBJECT_CHARACTERS_MAX:
        raise ProviderError("the claims of the provider have no valid sub")
    return found


def groups_at(claims: Claims, name: str) -> frozenset[str] | None:
    """Return the groups in a claim; None if the claim is missing.

    ``name`` is the claim's name, or a path such as ``realm_access.roles``. The claim's value may be a list, a string,
    or an object with the groups as keys. Raises ProviderError if the provider has omitted the groups.
    """
    found: object = claims.get(name)
    if found is None:
        found = claims
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if found is None:
        left_out = claims.get("_claim_names")
        if isinstance(left_out, Mapping) and name in left_out:
            what = "the provider has omitted the groups because there are too many"
            raise ProviderError(what, hint="configure it to send only the groups of this application")
        return None
    texts = [found] if isinstance(found, str) else found if isinstance(found, list | Mapping) else []
    if len(texts) > OPENID_GROUPS_MAX:
        raise ProviderError(f"the provider sent more than {OPENID_GROUPS_MAX} groups of a user")
    return frozenset(one for one in texts if isinstance(one, str))


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
