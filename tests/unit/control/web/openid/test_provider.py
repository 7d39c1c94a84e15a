"""Providers that are silent, endless, or say what they must not: each becomes a sentence, and lets nobody in."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from tests.unit.control.web.test_disk_troubles import serving_here

from branchline.control.accounts import Outsider
from branchline.control.web.openid import provider as module
from branchline.control.web.openid.provider import Flow, Provider
from branchline.control.web.openid.tokens import ProviderError, RejectedError
from branchline.control.web.openid_settings import OpenIdSettings
from branchline.errors import BranchlineError

KEYS = {name: RSAKey.generate_key(2048, {"kid": name}, private=True) for name in ("one", "two")}
FLOW = Flow("state", "nonce", "verifier", "/")
ROLES = {"physicist": ("*",)}


@dataclass
class Hostile:
    """A server on the loopback whose answers a test chooses; ``asked`` has the paths of all requests."""

    issuer: str
    answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)

    def json(self, path: str, content: object, status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.answers[path] = lambda handler: _send(handler, status, body)

    def discovery(self, **changed: object) -> None:
        usual: dict[str, object] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }
        self.json("/.well-known/openid-configuration", usual | changed)

    def keys(self, *names: str) -> None:
        self.json("/keys", {"keys": [KEYS[one].as_dict(private=False) for one in names]})

    def token(self, key: str = "one", **changed: object) -> None:
        now_s = int(time.time())
        claims: dict[str, Any] = {"iss": self.issuer, "aud": "branchline", "sub": "7", "nonce": FLOW.nonce}
        claims |= {"iat": now_s, "exp": now_s + 300, "preferred_username": "lise", "groups": ["alice"]} | changed
        self.json(
            "/token", {"id_token": jwt.encode({"alg": "RS256", "kid": key}, claims, KEYS[key]), "access_token": "a"}
        )


def _send(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            length = int(self.headers.get("Content-Length", "0"))
            found.forms.append(self.rfile.read(length).decode())
            found.answers.get(self.path, lambda handler: _send(handler, 404, b""))(self)

        do_POST = do_GET  # noqa: N815 - as http.server calls it

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        found = Hostile(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        found.discovery()
        found.keys("one")
        found.token()
        yield found
        server.shutdown()
        thread.join()


def provider_of(hostile: Hostile, secret: str = "") -> Provider:
    return Provider(OpenIdSettings(hostile.issuer, "branchline", ROLES, client_secret=secret), "http://here/back")


def person(hostile: Hostile, provider: Provider | None = None) -> Outsider:
    return asyncio.run(_person(provider or provider_of(hostile)))


async def _person(provider: Provider) -> Outsider:
    try:
        return await provider.person(FLOW, "code")
    finally:
        await provider.close()


def test_the_answers_of_the_tests_are_good_otherwise(hostile: Hostile) -> None:
    assert person(hostile) == Outsider(hostile.issuer, "7", "lise", "physicist", ("alice",))
    assert "code_verifier=verifier" in hostile.forms[1]
    assert "client_id=branchline" in hostile.forms[1]


def test_the_secret_is_sent_as_the_provider_wants_it(hostile: Hostile) -> None:
    person(hostile, provider_of(hostile, "s"))
    assert "client_secret" not in hostile.forms[1]
    hostile.discovery(token_endpoint_auth_methods_supported=["client_secret_post"])
    person(hostile, provider_of(hostile, "s"))
    assert "client_secret=s" in hostile.forms[-2]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"issuer": "https://evil.example"}, "issuer of the provider is 'https://evil.example'"),
        ({"issuer": None}, "issuer of the provider is None"),
        ({"token_endpoint": None}, "token_endpoint is not an https URL"),
        ({"jwks_uri": "file:///etc/passwd"}, "jwks_uri is not an https URL"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint is not an https URL"),
        (
            {"token_endpoint_auth_methods_supported": 3, "userinfo_endpoint": "ftp://x"},
            "userinfo_endpoint is not an https URL",
        ),
    ],
)
def test_a_discovery_that_says_what_it_must_not(hostile: Hostile, changed: dict[str, object], said: str) -> None:
    hostile.discovery(**changed)
    with pytest.raises(ProviderError, match=said):
        person(hostile)


def _endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b" " * 65536)
    except OSError:
        pass


def _dripping(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b" ")
            time.sleep(0.05)
    except OSError:
        pass


def _elsewhere(handler: BaseHTTPRequestHandler) -> None:
    _send(handler, 307, b"", Location=f"http://127.0.0.1:{handler.server.server_address[1]}/evil")


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/keys"])
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (_endless, "longer than 1048576 bytes"),
        (_dripping, "did not answer at 127.0.0.1 within 0.5 s"),
        (_elsewhere, "status 307"),
        (lambda handler: _send(handler, 200, b"[1]"), "no JSON object"),
        (lambda handler: _send(handler, 200, b"[" * 100_000), "no JSON object"),
        (lambda handler: _send(handler, 200, b"\xff\xfe{"), "no JSON object"),
        (lambda handler: _send(handler, 503, b"<html>"), "status 503"),
        (lambda handler: handler.connection.close(), "cannot be reached"),
    ],
)
def test_an_answer_that_is_none(
    hostile: Hostile, path: str, answer: Callable[[BaseHTTPRequestHandler], None], said: str, monkeypatch: Any
) -> None:
    if answer is _dripping:
        # On a busy machine others may need longer than that.
        monkeypatch.setattr(module, "OPENID_WAIT_S", 0.5)
    hostile.answers[path] = answer
    with pytest.raises(ProviderError, match=said):
        person(hostile)
    assert "/evil" not in hostile.asked


def test_what_a_refusal_of_the_code_means_is_said(hostile: Hostile) -> None:
    hostile.json("/token", {"error": "invalid_grant", "error_description": "too old"}, 400)
    with pytest.raises(RejectedError, match="rejected the code of this login: too old"):
        person(hostile)
    hostile.json("/token", {"error": "invalid_client"}, 401)
    with pytest.raises(ProviderError, match=r"rejects this server: 'invalid_client'.*client_id, its secret"):
        person(hostile)
    hostile.json("/token", {"access_token": "x"})
    with pytest.raises(ProviderError, match="sent no ID token"):
        person(hostile)


def test_userinfo_of_another_person_lets_nobody_in(hostile: Hostile) -> None:
    hostile.discovery(userinfo_endpoint=f"{hostile.issuer}/userinfo")
    hostile.token(groups=None)
    hostile.json("/userinfo", {"sub": "8", "groups": ["admins"]})
    with pytest.raises(ProviderError, match="another user"):
        person(hostile)
    hostile.json("/userinfo", {"sub": "7", "groups": ["admins"]})
    assert person(hostile).groups == ("admins",)


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"nonce": "another"}, RejectedError, "belongs to another login"),
        ({"aud": "other"}, ProviderError, "for another application"),
        ({"aud": "other", "azp": "branchline"}, ProviderError, "for another application"),
        ({"iss": "https://evil.example"}, ProviderError, "issuer of the ID token is 'https://evil.example'"),
        ({"iat": 1_000_000_000, "exp": 1_000_000_300}, ProviderError, "has expired"),
    ],
)
def test_a_signed_token_with_a_wrong_claim_is_rejected(
    hostile: Hostile, changed: dict[str, object], error: type[BranchlineError], said: str
) -> None:
    hostile.token(**changed)
    with pytest.raises(error, match=said):
        person(hostile)


def test_the_provider_cannot_add_signature_algorithms(hostile: Hostile) -> None:
    """The algorithms in the discovery document do not extend the accepted ones."""
    hostile.discovery(id_token_signing_alg_values_supported=["RS256", "HS256", "none"])
    secret = OctKey.generate_key(256, {"kid": "shared"})
    hostile.json("/keys", {"keys": [KEYS["one"].as_dict(private=False), secret.as_dict(private=True)]})
    now_s = int(time.time())
    claims = {"iss": hostile.issuer, "aud": "branchline", "sub": "7", "nonce": FLOW.nonce}
    claims |= {"iat": now_s, "exp": now_s + 300}
    header, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in ({"alg": "none", "kid": "one"}, claims)
    )
    for token in (jwt.encode({"alg": "HS256", "kid": "shared"}, claims, secret), f"{header}.{body}."):
        hostile.json("/token", {"id_token": token, "access_token": "a"})
        with pytest.raises(ProviderError, match="signature of the provider's ID token is invalid"):
            person(hostile)


def test_new_keys_are_fetched_and_made_up_ones_are_not_asked_for_again_and_again(hostile: Hostile) -> None:
    moment_s = [0.0]
    provider = replace(provider_of(hostile), now_s=lambda: moment_s[0])

    async def several() -> None:
        await provider.person(FLOW, "code")
        hostile.keys("one", "two")
        hostile.token("two")
        for _ in range(3):
            with pytest.raises(ProviderError, match="none of the provider's keys matches"):
                await provider.person(FLOW, "code")
        assert hostile.asked.count("/keys") == 1
        moment_s[0] += 61
        await provider.person(FLOW, "code")
        assert hostile.asked.count("/keys") == 2
        assert hostile.asked.count("/.well-known/openid-configuration") == 1
        await provider.close()

    asyncio.run(several())


def test_connections_to_the_provider_end_with_the_server(tmp_path: Path) -> None:
    ended = threading.Event()

    class Discovery(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            issuer = f"http://127.0.0.1:{provider.server_port}"
            names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
            body = json.dumps({"issuer": issuer} | {one: f"{issuer}/{one}" for one in names}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def finish(self) -> None:
            super().finish()
            ended.set()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Discovery) as provider:
        threading.Thread(target=provider.serve_forever, daemon=True).start()
        openid = OpenIdSettings(f"http://127.0.0.1:{provider.server_port}", "branchline", ROLES)
        with serving_here(tmp_path, is_shared=True, openid=openid) as served:
            assert httpx.get(f"http://127.0.0.1:{served.port}/login/openid").status_code == 303
            assert not ended.is_set(), "the connection is not held for the next log-in"
        assert ended.wait(10)
        provider.shutdown()
