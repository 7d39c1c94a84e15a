"""ID tokens: the signed claims of a provider (OpenID Connect Core 1.0, sections 2 and 3.1.3.7), and login errors."""

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

#: Only those of key pairs: with a shared secret, whoever knows the secret could sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
SUBJECT_CHARACTERS_MAX = 255
# A year that no clock will show.
_MOMENT_MAX_S = 1e12
_KINDS = ("RSA", "EC", "OKP")
Claims = Mapping[str, object]
PublicKey = RSAKey | ECKey | OKPKey


class ProviderError(BranchlineError):
    """The provider cannot be reached, or does not answer as OpenID Connect says: nobody can log in by it now."""


class RejectedError(BranchlineError):
    """A log-in was not begun here, took too long, or was refused by the provider."""


@dataclass(frozen=True)
class Expected:
    """Whom a token must be from, for whom, and in answer to which log-in."""

    issuer: str
    client_id: str
    nonce: str


def public_keys(content: Claims) -> list[PublicKey]:
    """The keys for signatures in a set of keys (RFC 7517, section 5), without those of kinds that are not known."""
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
    """Which key a token says it is signed with. Raises ProviderError for what is no token."""
    try:
        found = jws.extract_compact(token.encode()).headers().get("kid")
    except (JoseError, ValueError) as error:
        raise ProviderError(f"the provider sent no ID token that can be read: {_why(error)}") from None
    return found if isinstance(found, str) else None


def may_have_signed(keys: Sequence[PublicKey], kid: str | None) -> list[PublicKey]:
    """The keys that a token with this key ID can be signed with: any, if it has none."""
    return [one for one in keys if kid is None or one.kid == kid]


def claims_of(token: str, keys: Sequence[PublicKey], expected: Expected, now_s: float | None = None) -> Claims:
    """What a token says, once its signature and all else was checked. ``now_s``: seconds since 1970.

    Raises ProviderError for a token that the provider should not have sent, RejectedError for one of another log-in.
    """
    claims = _signed(token, keys)
    _check(claims, expected, time.time() if now_s is None else now_s)
    return claims


def _signed(token: str, keys: Sequence[PublicKey]) -> Claims:
    why = "none of the provider's keys fits"
    for key in keys:
        try:
            return jwt.decode(token, key, algorithms=ALGORITHMS).claims
        except (JoseError, ValueError, TypeError) as error:
            why = _why(error)
    raise ProviderError(f"the signature of the provider's ID token is not good: {why}")


def _check(claims: Claims, expected: Expected, now_s: float) -> None:
    if claims.get("iss") != expected.issuer:
        raise ProviderError(f"the ID token is of {claims.get('iss')!r:.200}, and not of {expected.issuer}")
    audience = claims.get("aud")
    for_whom = audience if isinstance(audience, list) else [audience]
    party = claims.get("azp", expected.client_id if len(for_whom) == 1 else None)
    if expected.client_id not in for_whom or party != expected.client_id:
        raise ProviderError("the ID token is for another application")
    ends_s, began_s = _moment(claims, "exp"), _moment(claims, "iat")
    if ends_s < now_s - OPENID_CLOCKS_S or began_s > now_s + OPENID_CLOCKS_S:
        what = f"the ID token is not good now: the clocks differ by {abs(now_s - began_s):.0f} s"
        raise ProviderError(what, hint="set the clock of the server")
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), expected.nonce.encode()):
        raise RejectedError("the ID token belongs to another log-in", hint="log in again", retry=True)
    subject_of(claims)


def _moment(claims: Claims, name: str) -> float:
    found = claims.get(name)
    # Nothing is greater or less than what is no number, and whole ones may be too large for a float.
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < _MOMENT_MAX_S:
        raise ProviderError(f"the ID token has no {name}")
    return float(found)


def subject_of(claims: Claims) -> str:
    """The identifier of a person, which never changes at a provider. Raises ProviderError if there is none."""
    found = claims.get("sub")
    if not isinstance(found, str) or not 0 < len(found) <= SUBJECT_CHARACTERS_MAX:
        raise ProviderError("the provider does not say who it is: there is no sub")
    return found


def groups_at(claims: Claims, name: str) -> frozenset[str] | None:
    """The groups in a claim; None if there is no such claim. It is called ``name``, or lies there by dots, as
    ``realm_access.roles`` does. Providers write a list, one text, or an object with the groups as keys.

    Raises ProviderError where the provider says that it has left them out.
    """
    found: object = claims.get(name)
    if found is None:
        found = claims
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if found is None:
        left_out = claims.get("_claim_names")
        if isinstance(left_out, Mapping) and name in left_out:
            what = "the provider has left out the groups, since they are too many"
            raise ProviderError(what, hint="have it send those that are assigned to this application")
        return None
    texts = [found] if isinstance(found, str) else found if isinstance(found, list | Mapping) else []
    if len(texts) > OPENID_GROUPS_MAX:
        raise ProviderError(f"the provider says more than {OPENID_GROUPS_MAX} groups of one person")
    return frozenset(one for one in texts if isinstance(one, str))


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
