"""ID tokens that must not let anybody in."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from functools import cache
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from branchline.control.web.openid.provider import name_from
from branchline.control.web.openid.tokens import (
    ExpectedClaims,
    ProviderError,
    RejectedError,
    claims_of,
    groups_at,
    key_id,
    may_have_signed,
    public_keys,
)
from branchline.errors import BranchlineError

NOW_S = 1_800_000_000.0
EXPECTED = ExpectedClaims("https://login.example.org", "branchline", "a nonce")
KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"}, private=True)
PUBLIC = public_keys({"keys": [KEY.as_dict(private=False)]})
GOOD = {
    "iss": EXPECTED.issuer,
    "aud": EXPECTED.client_id,
    "sub": "4711",
    "nonce": EXPECTED.nonce,
    "iat": NOW_S,
    "exp": NOW_S + 300,
}


def signed(claims: dict[str, Any], key: Any = KEY, **header: str) -> str:
    return jwt.encode({"alg": "RS256", "kid": "one", **header}, claims, key, algorithms=[header.get("alg", "RS256")])


def unsigned(claims: dict[str, Any], header: dict[str, str]) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=").decode() for one in (header, claims)]
    return ".".join([*parts, ""])


def test_a_good_token_says_who_it_is() -> None:
    assert claims_of(signed(GOOD), PUBLIC, EXPECTED, NOW_S)["sub"] == "4711"
    several = GOOD | {"aud": ["other", "branchline"], "azp": "branchline"}
    assert claims_of(signed(several), PUBLIC, EXPECTED, NOW_S)["sub"] == "4711"


def test_keys_of_elliptic_curves_are_taken() -> None:
    key = ECKey.generate_key("P-256", {"kid": "two"}, private=True)
    token = jwt.encode({"alg": "ES256", "kid": "two"}, GOOD, key, algorithms=["ES256"])
    keys = public_keys({"keys": [KEY.as_dict(private=False), key.as_dict(private=False)]})
    assert key_id(token) == "two"
    assert len(may_have_signed(keys, "two")) == 1
    assert claims_of(token, may_have_signed(keys, "two"), EXPECTED, NOW_S)["sub"] == "4711"


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"iss": "https://evil.example"}, ProviderError, "expected https://login.example.org"),
        ({"aud": "other"}, ProviderError, "for another application"),
        ({"aud": ["other", "branchline"]}, ProviderError, "for another application"),
        ({"aud": ["branchline"], "azp": "other"}, ProviderError, "for another application"),
        ({"aud": None}, ProviderError, "for another application"),
        ({"exp": NOW_S - 61}, ProviderError, "has expired"),
        ({"iat": NOW_S + 3600}, ProviderError, "clock by 3600 s"),
        ({"exp": "never"}, ProviderError, "no valid exp"),
        ({"exp": float("nan")}, ProviderError, "no valid exp"),
        ({"exp": float("inf")}, ProviderError, "no valid exp"),
        ({"exp": 10**400}, ProviderError, "no valid exp"),
        ({"iat": float("nan")}, ProviderError, "no valid iat"),
        ({"iat": -1}, ProviderError, "no valid iat"),
        ({"aud": ["branchline", "other"], "azp": "other"}, ProviderError, "for another application"),
        ({"aud": ["branchline", "other"]}, ProviderError, "for another application"),
        ({"aud": {"branchline": 1}}, ProviderError, "for another application"),
        ({"iss": "https://login.example.org/"}, ProviderError, "expected https://login.example.org"),
        ({"nonce": ["n-1"]}, RejectedError, "another login"),
        ({"exp": True}, ProviderError, "no valid exp"),
        ({"iat": None}, ProviderError, "no valid iat"),
        ({"nonce": "another"}, RejectedError, "another login"),
        ({"nonce": None}, RejectedError, "another login"),
        ({"sub": ""}, ProviderError, "no valid sub"),
        ({"sub": 4711}, ProviderError, "no valid sub"),
        ({"sub": "x" * 256}, ProviderError, "no valid sub"),
    ],
)
def test_a_token_with_a_wrong_claim_lets_nobody_in(
    changed: dict[str, Any], error: type[BranchlineError], said: str
) -> None:
    with pytest.raises(error, match=said):
        claims_of(signed(GOOD | changed), PUBLIC, EXPECTED, NOW_S)


def by_secret(secret: bytes) -> str:
    """Signed by a shared secret. If that is the public key, who asks the token how to check it is deceived."""
    content, _, _ = unsigned(GOOD, {"alg": "HS256", "kid": "one"}).rpartition(".")
    digest = hmac.new(secret, content.encode(), hashlib.sha256).digest()
    return f"{content}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


@cache
def wrongly_signed() -> dict[str, str]:
    stranger = RSAKey.generate_key(2048, {"kid": "one"}, private=True)
    header, _, signature = signed(GOOD).split(".")
    body = base64.urlsafe_b64encode(json.dumps(GOOD | {"sub": "1"}).encode()).rstrip(b"=").decode()
    return {
        "by another key": signed(GOOD, stranger),
        "by the client secret": by_secret(b"the client secret"),
        "by the public key as a secret": by_secret(KEY.as_pem(private=False)),
        "not at all": unsigned(GOOD, {"alg": "none", "kid": "one"}),
        "not at all, spelled otherwise": unsigned(GOOD, {"alg": "nOnE", "kid": "one"}),
        "for another content": f"{header}.{body}.{signature}",
        "with a key of its own": unsigned(GOOD, {"alg": "RS256", "jwk": "x"}),
    }


@pytest.mark.parametrize("how", wrongly_signed())
def test_a_token_that_the_provider_did_not_sign_lets_nobody_in(how: str) -> None:
    with pytest.raises(ProviderError, match="signature of the provider's ID token is invalid"):
        claims_of(wrongly_signed()[how], PUBLIC, EXPECTED, NOW_S)


@pytest.mark.parametrize("token", ["", "x", "a.b", "a.b.c", "\xe9.\xe9.\xe9", "." * 10_000, "e30.e30.e30.e30.e30"])
def test_what_is_no_token_is_said(token: str) -> None:
    with pytest.raises(ProviderError, match="an invalid ID token"):
        key_id(token)


def test_keys_that_are_not_for_signatures_are_left_out() -> None:
    own = KEY.as_dict(private=False)
    strange = [{"kty": "oct", "k": "AAAA"}, {"kty": "post-quantum"}, {"kty": "RSA"}, own | {"use": "enc"}, "x", None]
    assert len(public_keys({"keys": [*strange, own]})) == 1
    for content in ({}, {"keys": None}, {"keys": {}}, {"keys": []}):
        assert public_keys(content) == []


def test_groups_are_found_as_providers_write_them() -> None:
    assert groups_at({"groups": ["a", "b", 3]}, "groups") == {"a", "b"}
    assert groups_at({"groups": "a"}, "groups") == {"a"}
    assert groups_at({"realm_access": {"roles": ["a"]}}, "realm_access.roles") == {"a"}
    assert groups_at({"urn:x.y:roles": {"a": {}, "b": {}}}, "urn:x.y:roles") == {"a", "b"}
    assert groups_at({"groups": []}, "groups") == frozenset()
    assert groups_at({"groups": 3}, "groups") == frozenset()
    assert groups_at({}, "a.b.c") is None
    with pytest.raises(ProviderError, match="omitted the groups"):
        groups_at({"_claim_names": {"groups": "src1"}}, "groups")
    with pytest.raises(ProviderError, match="more than"):
        groups_at({"groups": ["a"] * 10_001}, "groups")


@pytest.mark.parametrize(
    ("claimed", "name"),
    [
        (["lise.meitner@example.org"], "lise_meitner"),
        (["../../etc"], "etc"),
        (["<b>x</b>"], "b_x_b"),
        (["42"], "u42"),
        (["\u03a8", "emmy@x"], "emmy"),
        ([None, 3], "somebody"),
        (["x" * 500], "x" * 60),
    ],
)
def test_names_become_names_of_accounts(claimed: list[object], name: str) -> None:
    assert name_from(*claimed) == name
