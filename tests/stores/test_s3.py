"""S3 beyond what all stores have: signatures, keys, regions, requests counted, and servers that misbehave."""

from __future__ import annotations

import hashlib
import json
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from tests.stores.conftest import Served
from tests.stores.scripted import Script, Scripted, http_request, scripted
from tests.stores.servers_s3 import KEYS, Moto, set_s3

import branchline
from branchline._core import Store
from branchline.errors import BranchlineError, MissingFileError, StorageError

SECRET = KEYS["AWS_SECRET_ACCESS_KEY"]


def answer(status: str, *headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]).encode() + body


def error(status: str, code: str, *headers: str) -> bytes:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{SECRET}</Message></Error>".encode()
    return answer(status, "Content-Type: application/xml", *headers, body=body)


def part(content: bytes, request: dict[str, str], tag: str = "a") -> bytes:
    first, last = map(int, request["range"].removeprefix("bytes=").split("-"))
    about = f"Content-Range: bytes {first}-{last}/{len(content)}"
    return answer("206 Partial Content", about, f'ETag: "{tag}"', body=content[first : last + 1])


def at(monkeypatch: pytest.MonkeyPatch, server: Scripted, **more: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
    for name, value in {**KEYS, "BRANCHLINE_STORAGE_TRIES": "2", **more}.items():
        monkeypatch.setenv(name, value)


def signature_of_botocore(request: dict[str, str], url: str, token: str | None, region: str) -> str:
    """What Amazon's own library writes for the same request at the same time."""
    signer = S3SigV4Auth(Credentials(KEYS["AWS_ACCESS_KEY_ID"], SECRET, token), "s3", region)
    same = AWSRequest("GET", url, headers={"X-Amz-Content-SHA256": request["x-amz-content-sha256"]})
    if token:
        same.headers["X-Amz-Security-Token"] = token
    same.headers["X-Amz-Date"] = same.context["timestamp"] = request["x-amz-date"]
    return str(signer.signature(signer.string_to_sign(same, signer.canonical_request(same)), same))


@pytest.mark.parametrize("token", [None, "a.lent+token/="])
@pytest.mark.parametrize(
    ("key", "target"),
    [
        ("sub/f.root", "sub/f.root"),
        ("a b/100%/\u00e4+?~'()!*.root", "a%20b/100%25/%C3%A4%2B%3F~%27%28%29%21%2A.root"),
        ("//f?versionId=x/y", "//f?versionId=x%2Fy"),
    ],
)
def test_signatures_are_those_of_amazon_s_own_library(
    key: str, target: str, token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[dict[str, str]] = []

    def script(number: int, connection: socket.socket) -> None:
        while (request := http_request(connection)) is not None:
            requests.append(request)
            connection.sendall(part(bytes(100), request))

    with scripted(script) as server:
        at(monkeypatch, server, AWS_REGION="eu-central-1", **({"AWS_SESSION_TOKEN": token} if token else {}))
        assert Store(f"s3://bucket/{key}").read([(5, 10)]).contents == [bytes(10)]
        url = f"http://127.0.0.1:{server.port}/bucket/{target}"
    assert len(requests) == 2
    for request in requests:
        assert request["host"] == f"127.0.0.1:{server.port}"
        assert request["authorization"].endswith(
            "Signature=" + signature_of_botocore(request, url, token, "eu-central-1")
        )


def test_a_small_file_takes_two_requests_and_each_range_one(
    served: Served, moto: Moto, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_s3(monkeypatch, moto)
    before = len(moto.requests)
    tree = branchline.open("s3://data/small.root")["events"]
    assert len(tree["px"].array()) == 1000
    assert len([line for line in moto.requests[before:] if "GET /data/small.root " in line]) == 2
    read = Store("s3://data/random.bin").read([(offset, 100) for offset in range(0, 50_000, 1_000)])
    assert (read.read_calls, read.bytes_read) == (50, 5000)
    assert read.contents[7] == served.content[7000:7100]


def test_keys_of_a_profile_are_used_where_the_url_names_it(
    moto: Moto, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(f"[profile site]\nendpoint_url = {moto.endpoint}\n")
    (tmp_path / "credentials").write_text(f"[site]\naws_access_key_id = me\naws_secret_access_key = {SECRET}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    assert Store("s3://site@data/sub/with%20percent.bin").read([(0, 5)]).contents == [b"hello"]
    with pytest.raises(StorageError, match="no profile other"):
        Store("s3://other@data/f")


def test_a_presigned_url_is_read_as_any_other(served: Served, moto: Moto) -> None:
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=moto.endpoint,
        region_name="us-east-1",
        aws_access_key_id="tests",
        aws_secret_access_key=SECRET,
    )
    url = client.generate_presigned_url("get_object", Params={"Bucket": "data", "Key": "random.bin"})
    store = Store(url)
    assert store.read([(5, 10)]).contents == [served.content[5:15]]
    assert "Signature=***" in store.path


def test_what_is_not_there_is_missing_and_says_why(moto: Moto, monkeypatch: pytest.MonkeyPatch) -> None:
    set_s3(monkeypatch, moto)
    with pytest.raises(MissingFileError, match="NoSuchBucket"):
        Store("s3://absent/f.root")
    with pytest.raises(MissingFileError, match="NoSuchKey"):
        Store("s3://data/absent.root")
    for url in ("s3://data", "s3://data/", "s3:///f.root", "s3://host:9000/data/f.root"):
        with pytest.raises(BranchlineError, match="bucket"):
            Store(url)


def test_what_is_closed_says_which_keys_were_tried(moto: Moto, monkeypatch: pytest.MonkeyPatch) -> None:
    moto.put("closed.bin", b"x", is_open=False)
    set_s3(monkeypatch, moto, has_keys=False)
    with pytest.raises(StorageError, match="not signed, because there are no keys in AWS_ACCESS_KEY_ID") as raised:
        Store("s3://data/closed.bin")
    assert not raised.value.retry


def test_a_bucket_of_another_region_is_asked_there(monkeypatch: pytest.MonkeyPatch) -> None:
    scopes: list[str] = []

    def script(number: int, connection: socket.socket) -> None:
        while (request := http_request(connection)) is not None:
            region = request["authorization"].split("/")[2]
            scopes.append(region)
            if region == "there":
                connection.sendall(part(bytes(100), request))
            elif "range" in request:
                connection.sendall(error("400 Bad Request", "AuthorizationHeaderMalformed"))
            else:
                # A head has no body, however long it says that it is.
                connection.sendall(answer("403 Forbidden", "x-amz-bucket-region: there"))

    with scripted(script) as server:
        at(monkeypatch, server, AWS_REGION="here")
        assert Store("s3://bucket/f").read([(0, 3)]).contents == [bytes(3)]
    assert scopes == ["here", "here", "there", "there"]


def once(*answers: bytes) -> Script:
    """A server that gives these answers first, and parts of a file from then on."""
    left = list(answers)

    def script(number: int, connection: socket.socket) -> None:
        while (request := http_request(connection)) is not None:
            connection.sendall(left.pop(0) if left else part(bytes(1000), request))

    return script


def test_a_server_that_wants_less_of_us_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(once(error("503 Slow Down", "SlowDown"))) as server:
        at(monkeypatch, server)
        assert Store("s3://bucket/f").size_bytes == 1000


@pytest.mark.parametrize(
    ("refusal", "match"),
    [
        (error("403 Forbidden", "SignatureDoesNotMatch"), r"SignatureDoesNotMatch\); the keys are those of"),
        (error("400 Bad Request", "ExpiredToken"), "does not let you read it"),
        (error("403 Forbidden", "X" * 5000), "does not let you read it"),
        (answer("403 Forbidden", "Content-Type: text/xml", body=b"<Code>" * 9), "does not let you read it"),
        (error("301 Moved", "PermanentRedirect"), "PermanentRedirect"),
        (answer("302 Found", "Location: http://127.0.0.1:1/"), "refused the request with status 302"),
        (answer("416 No", body=b"x"), "refused the request with status 500"),
    ],
)
def test_refusals_are_final_and_tell_no_secret(refusal: bytes, match: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(once(refusal, answer("500 Oh"), answer("500 Oh"), answer("500 Oh"))) as server:
        at(monkeypatch, server)
        with pytest.raises(StorageError, match=match) as raised:
            Store("s3://bucket/f?versionId=1")
        assert SECRET not in f"{raised.value} {raised.value!r} {raised.value.hint}"


def test_an_object_that_was_replaced_is_not_mixed_with_the_old_one(moto: Moto, monkeypatch: pytest.MonkeyPatch) -> None:
    set_s3(monkeypatch, moto)
    moto.put("replaced.bin", b"a" * 1000)
    store = Store("s3://data/replaced.bin")
    moto.put("replaced.bin", b"b" * 1000)
    with pytest.raises(StorageError, match="changed since it was opened") as raised:
        store.read([(0, 10)])
    assert not raised.value.retry


def test_the_storage_element_is_the_server_and_the_bucket(moto: Moto, monkeypatch: pytest.MonkeyPatch) -> None:
    set_s3(monkeypatch, moto)
    assert Store("s3://data/small.root").name == f"s3://127.0.0.1:{moto.port}/data"


def test_keys_are_lent_for_a_token_of_another_place(
    served: Served, moto: Moto, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("a.token.of-somebody\n")
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto.endpoint)
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader-of-files")
    moto.put("closed.bin", b"only for users", is_open=False)
    before = len(moto.requests)
    for _ in range(2):
        assert Store("s3://data/closed.bin").read([(0, 14)]).contents == [b"only for users"]
    made = moto.requests[before:]
    assert sum("POST / " in one for one in made) == 1
    # What is lent is signed with its token, which moto does not look at; a profile has the same words.
    config = tmp_path / "config"
    config.write_text(
        f"[profile lent]\nweb_identity_token_file = {token}\nrole_arn = arn:aws:iam::1:role/another\n"
        f"endpoint_url = {moto.endpoint}\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    assert Store("s3://lent@data/closed.bin").size_bytes == 14
    token.unlink()
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/other")
    with pytest.raises(StorageError, match=r"cannot get temporary keys for S3: .*token cannot be read"):
        Store("s3://data/closed.bin")


def signing_keys(monkeypatch: pytest.MonkeyPatch, url: str, reads: int = 1) -> set[tuple[str, str | None]]:
    """The access keys and session tokens of the requests with which files are read."""
    used: set[tuple[str, str | None]] = set()

    def script(number: int, connection: socket.socket) -> None:
        while (request := http_request(connection)) is not None:
            key = request["authorization"].partition("Credential=")[2].partition("/")[0]
            used.add((key, request.get("x-amz-security-token")))
            connection.sendall(part(bytes(100), request))

    with scripted(script) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.port}")
        for _ in range(reads):
            assert Store(url).read([(5, 10)]).contents == [bytes(10)]
    return used


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of profiles, in a home of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "aws config"
    monkeypatch.setenv("AWS_CONFIG_FILE", str(path))
    return path


def printed(expires: datetime | None = None) -> str:
    keys = {"Version": 1, "AccessKeyId": "PRINTED", "SecretAccessKey": SECRET, "SessionToken": "lent"}
    return json.dumps(keys | ({"Expiration": expires.isoformat()} if expires else {}))


@pytest.mark.parametrize(("valid_s", "runs"), [(None, 1), (3600, 1), (60, 2)])
def test_keys_are_printed_by_a_program_and_kept_until_they_expire(
    valid_s: int | None, runs: int, monkeypatch: pytest.MonkeyPatch, config: Path, tmp_path: Path
) -> None:
    expires = None if valid_s is None else datetime.now(UTC) + timedelta(seconds=valid_s)
    (tmp_path / "keys.json").write_text(printed(expires))
    program = tmp_path / "print keys"
    program.write_text('#!/bin/sh\ncd "${0%/*}"\nprintf "%s\\n" "$1" >>runs\ncat keys.json\n')
    program.chmod(0o755)
    config.write_text(f"[default]\ncredential_process = '{program}' \"for  me\"\n")
    # A file is opened by one request, and each range is read by another.
    assert signing_keys(monkeypatch, "s3://bucket/f") == {("PRINTED", "lent")}
    assert (tmp_path / "runs").read_text() == "for  me\n" * runs


@pytest.mark.parametrize(
    ("program", "match"),
    [
        ("sh -c 'echo no keys here >&2; exit 3'", "credential process failed with status 3: no keys here"),
        ("echo nothing", "failed to parse credential process output"),
        ("/no/such/program", r".*/no/such/program cannot be run: No such file or directory \(os error 2\)\.$"),
        ("echo 'open", ".*a quote that does not end"),
    ],
)
def test_a_program_that_prints_no_keys_is_an_error(
    program: str, match: str, monkeypatch: pytest.MonkeyPatch, config: Path
) -> None:
    config.write_text(f"[default]\ncredential_process = {program}\n")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(StorageError, match=f"cannot get temporary keys for S3: {match}") as caught:
        Store("s3://bucket/f")
    assert not caught.value.retry


SIGNED_ON = "sso_account_id = 12\nsso_role_name = reader of files\n"
ONE_PROFILE = f"[default]\nsso_start_url = https://site.example.org\nsso_region = eu-west-1\n{SIGNED_ON}"
WITH_SESSION = (
    f"[default]\nsso_session = site\n{SIGNED_ON}"
    "[sso-session site]\nsso_start_url = https://site.example.org\nsso_region = eu-west-1\n"
)


@pytest.mark.parametrize(("text", "hashed"), [(ONE_PROFILE, b"https://site.example.org"), (WITH_SESSION, b"site")])
def test_keys_are_exchanged_for_the_token_of_a_single_sign_on(
    text: str, hashed: bytes, monkeypatch: pytest.MonkeyPatch, config: Path, tmp_path: Path
) -> None:
    config.write_text(text)
    cache = tmp_path / ".aws/sso/cache" / f"{hashlib.sha1(hashed).hexdigest()}.json"
    cache.parent.mkdir(parents=True)
    requests: list[dict[str, str]] = []

    def script(number: int, connection: socket.socket) -> None:
        while (request := http_request(connection)) is not None:
            requests.append(request)
            expires = int((datetime.now(UTC) + timedelta(hours=1)).timestamp() * 1000)
            keys = {"accessKeyId": "SIGNED", "secretAccessKey": SECRET, "sessionToken": "on", "expiration": expires}
            connection.sendall(answer("200 OK", body=json.dumps({"roleCredentials": keys}).encode()))

    with scripted(script) as portal:
        monkeypatch.setenv("AWS_SSO_ENDPOINT", f"http://127.0.0.1:{portal.port}/federation/credentials")
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        for expires, match in (("2020-01-01T00:00:00Z", "aws sso login"), ("2999-01-01T00:00:00Z", None)):
            cache.write_text(json.dumps({"accessToken": "very-secret", "expiresAt": expires}))
            if match:
                with pytest.raises(StorageError, match=match):
                    Store("s3://bucket/f")
        assert signing_keys(monkeypatch, "s3://bucket/f", reads=2) == {("SIGNED", "on")}
    assert [request["x-amz-sso_bearer_token"] for request in requests] == ["very-secret"]


@pytest.mark.parametrize("status", ["403 Forbidden", "200 OK"])
def test_a_service_that_lends_nothing_is_named_and_tells_no_secret(
    status: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("a.very-secret.token")
    said = b"<ErrorResponse><Error><Code>InvalidIdentityToken</Code><Message>a.very-secret.token</Message></Error>"

    def script(_number: int, connection: socket.socket) -> None:
        while http_request(connection):
            connection.sendall(answer(status, "Content-Type: text/xml", body=said))

    with scripted(script) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
        monkeypatch.setenv("AWS_ROLE_ARN", f"arn:aws:iam::1:role/{status[:3]}")
        with pytest.raises(StorageError, match=r"InvalidIdentityToken|failed to parse") as caught:
            Store("s3://data/f.bin")
    assert "very-secret" not in str(caught.value)
