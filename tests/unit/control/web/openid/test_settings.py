"""The file that joins a control room to a provider: what is wrong in it is said before anybody logs in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from branchline.control.web.openid_settings import load_openid
from branchline.errors import OptionError

GOOD = 'issuer = "https://login.example.org/realms/x"\nclient_id = "branchline"\n[roles]\nphysicist = ["*"]\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "openid.toml"
    path.write_text(text)
    return path


def test_little_is_needed(tmp_path: Path) -> None:
    found = load_openid(written(tmp_path, GOOD))
    assert (found.shown_name, found.scopes, found.groups_claim) == (
        "login.example.org",
        ("openid", "profile"),
        "groups",
    )
    assert found.role_of(frozenset()) == "physicist"
    assert not found.makes_administrators


def test_the_secret_is_read_from_its_file_and_shown_nowhere(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("very secret\n")
    secret.chmod(0o600)
    found = load_openid(written(tmp_path, f'client_secret_file = "secret"\n{GOOD}'))
    assert found.client_secret == "very secret"
    assert "very secret" not in repr(found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "it is not valid TOML"),
        (GOOD.replace("https", "http"), "issuer must be a URL like https://login.example.org"),
        (GOOD.replace("https://", "https://user:secret@"), "issuer must be a URL"),
        (GOOD.replace('"branchline"', "3"), "client_id must be a non-empty string"),
        (GOOD.replace('client_id = "branchline"', ""), "client_id must be a non-empty string"),
        (GOOD.replace("physicist", "boss"), "unknown role 'boss'"),
        (GOOD.replace('["*"]', "[]"), "no user could log in"),
        (GOOD.replace('["*"]', '"*"'), "roles.physicist must be a list of strings"),
        (f'client_secret = "x"\n{GOOD}', "unknown setting 'client_secret'"),
        (f'client_secret_file = "gone"\n{GOOD}', "No such file"),
        (f'{GOOD}[groups]\n"a b" = ["x"]\n', "the name of a group cannot be 'a b'"),
        (f"groups = 3\n{GOOD}", "groups must be a table"),
        (f"scopes = [3]\n{GOOD}", "scopes must be a list of strings"),
        (f'url = "http://control.example.org"\n{GOOD}', "url must be a URL"),
        ("#" * 70_000, "is longer than 65536 bytes"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(OptionError, match=said.replace("(", r"\(")) as raised:
        load_openid(written(tmp_path, text))
    assert str(tmp_path) in str(raised.value) or "name of a group" in said


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "secret").chmod(0o644)
    with pytest.raises(OptionError, match="other users can access the secret"):
        load_openid(written(tmp_path, f'client_secret_file = "secret"\n{GOOD}'))


@pytest.mark.parametrize("option", ["--openid", "--data", "--certificate", "--behind-proxy"])
def test_options_for_others_need_others(tmp_path: Path, option: str) -> None:
    written(tmp_path, GOOD)
    command = [sys.executable, "-m", "branchline", "serve", str(tmp_path / "room"), option, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 2
    assert "add --shared" in done.stderr


def test_a_secret_where_code_of_others_reads_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    secret = tmp_path / "data" / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    settings = written(tmp_path, f'client_secret_file = "data/secret"\n{GOOD}')
    words = ["--shared", "--openid", str(settings), "--data", str(tmp_path / "data"), "--port", "0"]
    command = [sys.executable, "-m", "branchline", "serve", str(tmp_path / "room"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode != 0
    assert f"user code could read {secret.resolve()}" in done.stderr
