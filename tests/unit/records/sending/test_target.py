"""Addresses of control rooms, and their tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchline.errors import OptionError
from branchline.records.sending.address import ReportTarget, TokenError


def target_of(address: str | None, environment: dict[str, str] | None = None) -> ReportTarget:
    found = ReportTarget.of(address, environment or {})
    assert found is not None
    return found


def test_an_address_is_one_text_however_it_is_written() -> None:
    for address in ("http://room.example", "HTTP://Room.example:80/", " http://room.example/?token=abc "):
        assert target_of(address).url == "http://room.example"
    found = target_of("https://[::1]:8443/lab/")
    assert (found.url, found.host, found.port) == ("https://[::1]:8443/lab", "::1", 8443)
    assert found.path == "/lab/api/v1/reports"


def test_without_an_address_there_is_no_control_room() -> None:
    assert ReportTarget.of(None, {}) is None
    assert ReportTarget.of("", {"BRANCHLINE_REPORT_TO": "http://room.example"}) is None
    found = ReportTarget.of(None, {"BRANCHLINE_REPORT_TO": "http://room.example"})
    assert found is not None
    assert found.url == "http://room.example"


@pytest.mark.parametrize(
    "address",
    [
        "room.example",
        "ftp://room.example",
        "http://",
        "http://room.example:99999",
        "http://me:secret@room.example",
        "http://room.example/?token=secret&more=1",
        "http://room.example/#token=secret",
        "http://room.example/a b?token=secret",
        "http://room.example/\r\nX: y",
        "http://[::1",
    ],
)
def test_what_is_no_address_is_refused_without_showing_its_token(address: str) -> None:
    with pytest.raises(OptionError) as caught:
        ReportTarget.of(address, {})
    assert "secret" not in str(caught.value)


def test_a_token_is_that_of_the_address_else_of_the_variable_else_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("of-the-file\n")
    environment = {"BRANCHLINE_REPORT_TOKEN": "of-the-variable", "BRANCHLINE_REPORT_TOKEN_FILE": str(file)}
    assert target_of("http://a?token=of-the-address").authorization(environment) == "Bearer of-the-address"
    assert target_of("http://a").authorization(environment) == "Bearer of-the-variable"
    del environment["BRANCHLINE_REPORT_TOKEN"]
    assert target_of("http://a").authorization(environment) == "Bearer of-the-file"
    assert target_of("http://a").authorization({}) is None


def test_a_token_file_is_read_again_when_the_token_was_renewed(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    environment = {"BRANCHLINE_REPORT_TOKEN_FILE": str(file)}
    target = target_of("http://a", environment)
    file.write_text("second")
    # A task of a batch system has not the environment, and knows the file from the submission.
    assert target.authorization({}) == "Bearer second"


@pytest.mark.parametrize("content", [b"", b"two words", b"line\r\nX-Header: y", b"\xff\xfe", b"a" * 20_000])
def test_a_file_without_a_token_is_refused_without_showing_it(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(OptionError) as caught:
        target_of("http://a", {"BRANCHLINE_REPORT_TOKEN_FILE": str(file)})
    assert "X-Header" not in str(caught.value)
    assert "words" not in str(caught.value)
    with pytest.raises(TokenError, match=str(file)):
        ReportTarget("http://a", token_file=str(file)).authorization({})


def test_the_token_is_in_no_text_of_a_target() -> None:
    assert "abc" not in repr(target_of("http://room.example/?token=abc"))
