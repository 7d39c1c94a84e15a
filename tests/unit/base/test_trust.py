"""Which files are loaded though loading them runs code."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from branchline.base.trust import (
    VARIABLE,
    check_trusted,
    numbers_to_trust,
    read_trusted,
    trust_users,
    trusted_numbers,
    trusts_others,
    unpickle,
)
from branchline.errors import OptionError, StorageError, UntrustedFileError

#: A user of this name is on every system, with various numbers.
NOBODY = 65534
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture(autouse=True)
def nobody_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # Set and removed again, so that what a test sets in the environment itself goes at its end.
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.delenv(VARIABLE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "value"
    file.write_bytes(pickle.dumps({"a": 1}))
    file.chmod(0o644)
    return file


def test_a_file_of_this_user_is_loaded(path: Path) -> None:
    assert unpickle(read_trusted(path), dict) == {"a": 1}


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o400, 0o755])
def test_others_may_read_it(path: Path, mode: int) -> None:
    path.chmod(mode)
    assert read_trusted(path)


@pytest.mark.parametrize("mode", [0o666, 0o622, 0o602, 0o606, 0o777])
def test_a_file_that_all_can_write_is_refused_with_its_owner_and_mode(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(
        UntrustedFileError, match=rf"\(user {os.geteuid()}\) and has mode {mode:04o}, .*other users"
    ) as why:
        read_trusted(path)
    assert why.value.hint == f"check what is in it, then: chmod go-w {path}"
    assert isinstance(why.value, StorageError)


def status(mode: int, user: int, group: int) -> os.stat_result:
    return os.stat_result((0o100000 | mode, 1, 1, 1, user, group, 1, 0, 0, 0))


class Account:
    """An entry of the user or group database."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


@pytest.mark.parametrize(
    ("group", "is_trusted"),
    [
        ({"gr_name": "ada", "gr_mem": []}, True),
        ({"gr_name": "ada", "gr_mem": ["ada"]}, True),
        ({"gr_name": "ada", "gr_mem": ["ada", "eve"]}, False),
        ({"gr_name": "staff", "gr_mem": []}, False),
        ({"gr_name": "ada", "gr_mem": [], "gr_gid": 7}, False),
    ],
)
def test_a_group_may_write_only_if_it_has_no_other_member(
    monkeypatch: pytest.MonkeyPatch, group: dict[str, Any], is_trusted: bool
) -> None:
    # The databases of a system have no such groups; the rule itself is ours.
    me = os.geteuid()
    found = Account(**{"gr_gid": 4242, **group})
    monkeypatch.setattr("branchline.base.trust.grp.getgrgid", lambda _: found)
    monkeypatch.setattr("branchline.base.trust.pwd.getpwuid", lambda _: Account(pw_name="ada", pw_gid=4242))
    if is_trusted:
        check_trusted(status(0o664, me, 4242), Path("x"))
    else:
        with pytest.raises(UntrustedFileError, match="other users can write"):
            check_trusted(status(0o664, me, 4242), Path("x"))


def test_a_group_that_the_system_does_not_know_is_one_of_others() -> None:
    with pytest.raises(UntrustedFileError):
        check_trusted(status(0o664, os.geteuid(), 3_999_999_999), Path("x"))


@only_root
def test_a_file_of_another_user_is_refused_and_the_option_named(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)
    with pytest.raises(UntrustedFileError, match=r"belongs to .*65534.* and has mode 0644.*--trust-user"):
        read_trusted(path)


@only_root
def test_a_link_counts_by_the_file_that_it_leads_to(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(path)
    os.lchown(link, NOBODY, NOBODY)
    assert read_trusted(link)
    os.chown(path, NOBODY, NOBODY)
    os.lchown(link, 0, 0)
    with pytest.raises(UntrustedFileError):
        read_trusted(link)


@only_root
def test_the_file_that_was_opened_is_checked_and_not_its_name(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = tmp_path / "good"
    good.write_bytes(path.read_bytes())
    os.chown(path, NOBODY, NOBODY)
    really_open = os.open

    def open_and_exchange(*arguments: Any) -> int:
        descriptor = really_open(*arguments)
        good.replace(path)
        return descriptor

    monkeypatch.setattr("branchline.base.trust.os.open", open_and_exchange)
    with pytest.raises(UntrustedFileError):
        read_trusted(path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UntrustedFileError, match="neither a file nor a directory"):
        read_trusted(tmp_path / "pipe")


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_trusted(tmp_path / "none")


@only_root
@pytest.mark.parametrize("named", ["65534", " 65534 ,", "1,65534"])
def test_named_users_are_trusted(path: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    os.chown(path, NOBODY, NOBODY)
    monkeypatch.setenv(VARIABLE, named)
    assert unpickle(read_trusted(path), dict) == {"a": 1}
    # Also then nobody else may have written it.
    path.chmod(0o666)
    with pytest.raises(UntrustedFileError, match="other users can write"):
        read_trusted(path)


def test_root_and_this_user_are_trusted_and_names_are_added() -> None:
    assert trusted_numbers() == {0, os.geteuid()}
    assert not trusts_others()
    trust_users([])
    assert VARIABLE not in os.environ
    trust_users(["root", "70001"])
    trust_users(["70002"])
    assert trusted_numbers() == {0, os.geteuid(), 70001, 70002}
    assert trusts_others()
    assert numbers_to_trust(["70003"]) == ",".join(map(str, sorted({0, os.geteuid(), 70001, 70002, 70003})))


@pytest.mark.parametrize("name", ["no-such-user", "-1", "\u0661", "a\0b", "1e3"])
def test_an_unknown_user_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with pytest.raises(OptionError, match="unknown user"):
        trust_users([name])
    if "\0" not in name:
        monkeypatch.setenv(VARIABLE, name)
        with pytest.raises(OptionError, match="unknown user"):
            trusted_numbers()
