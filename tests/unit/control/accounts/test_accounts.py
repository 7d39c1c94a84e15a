"""Accounts, sessions and tokens: who is let in, until when, and what is kept of secrets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.command_line import run_command

from branchline.control.accounts import ALL, PERSON, REPORT, Account, Accounts
from branchline.control.database import Database
from branchline.control.passwords import hashed, is_password
from branchline.control.people import ADMINISTRATOR, OPERATOR, Person
from branchline.control.registry.registry import Registry, SourceStore
from branchline.control.room_errors import ConflictError, NoSuchEntryError
from branchline.errors import OptionError

PASSWORD = "correct horse battery"
ADA = Account("ada", ADMINISTRATOR, ("pwg-hf",))


@pytest.fixture
def accounts(tmp_path: Path) -> Iterator[Accounts]:
    with closing(Database(tmp_path)) as database:
        accounts = Accounts(database)
        accounts.add(ADA, PASSWORD, "a test")
        yield accounts


def session_of(accounts: Accounts, name: str = "ada", password: str = PASSWORD) -> str:
    secret = accounts.log_in(name, password)
    assert secret is not None
    return secret


def test_a_password_is_kept_as_a_hash_with_a_salt() -> None:
    first, second = hashed(PASSWORD), hashed(PASSWORD)
    assert first != second
    assert first.startswith("scrypt$32768$8$1$")
    assert is_password(PASSWORD, first)
    assert not is_password(PASSWORD + " ", first)
    assert not is_password("", "")
    assert not is_password("x" * 10_000, first)


def test_who_knows_the_password_has_a_session_until_they_log_out(accounts: Accounts) -> None:
    assert accounts.log_in("ada", "wrong") is None
    assert accounts.log_in("nobody", PASSWORD) is None
    secret = session_of(accounts)
    login = accounts.of_session(secret)
    assert login is not None
    assert (login.person, login.scope) == (Person("ada", ADMINISTRATOR, ("pwg-hf",)), ALL)
    assert accounts.of_session(secret + "x") is None
    accounts.log_out(secret)
    assert accounts.of_session(secret) is None


def test_sessions_and_tokens_end_with_the_account(accounts: Accounts) -> None:
    accounts.add(Account("bob"), PASSWORD, "ada")
    secret, bob = session_of(accounts, "bob"), Person("bob")
    token = accounts.make_token(bob, "laptop", REPORT, 30)
    found = accounts.of_token(token)
    assert found is not None
    assert (found.person.name, found.scope) == ("bob", REPORT)
    accounts.change(Account("bob", is_disabled=True), "ada")
    assert accounts.of_session(secret) is None
    assert accounts.of_token(token) is None
    assert accounts.log_in("bob", PASSWORD) is None
    accounts.change(Account("bob", OPERATOR), "ada")
    assert accounts.of_session(secret) is None
    back = accounts.of_token(token)
    assert back is not None
    assert back.person.role == OPERATOR


def test_another_password_ends_all_sessions(accounts: Accounts) -> None:
    secret = session_of(accounts)
    accounts.set_password("ada", "another long password", "ada")
    assert accounts.of_session(secret) is None
    assert accounts.log_in("ada", PASSWORD) is None
    assert accounts.log_in("ada", "another long password") is not None


def test_sessions_and_tokens_end_with_their_time(accounts: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.control.accounts.SESSION_DAYS", 0)
    assert accounts.of_session(session_of(accounts)) is None
    for days in (0, 401, -1):
        with pytest.raises(OptionError, match="1 to 400 days"):
            accounts.make_token(ADA.person, "x", ALL, days)


def test_of_many_sessions_the_oldest_end(accounts: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.control.accounts.SESSIONS_OF_PERSON_MAX", 2)
    secrets = [session_of(accounts) for _ in range(4)]
    assert sum(accounts.of_session(one) is not None for one in secrets) == 2


def test_a_token_is_of_one_person_and_can_be_revoked(accounts: Accounts) -> None:
    token = accounts.make_token(ADA.person, "script", ALL, 1)
    [known] = accounts.tokens(ADA.person)
    assert (known.name, known.scope, known.used) == ("script", ALL, "")
    assert accounts.of_token(token) is not None
    assert accounts.tokens(ADA.person)[0].used
    with pytest.raises(NoSuchEntryError):
        accounts.revoke_token(Person("bob", ADMINISTRATOR), known.number)
    accounts.revoke_token(ADA.person, known.number)
    assert accounts.of_token(token) is None
    with pytest.raises(OptionError, match="report, read, all"):
        accounts.make_token(ADA.person, "x", "everything", 1)


def test_what_cannot_be_an_account_is_refused(accounts: Accounts) -> None:
    for wrong in (Account("a b"), Account("eve", "root"), Account("eve", groups=("a/b",)), Account("../x")):
        with pytest.raises(OptionError):
            accounts.add(wrong, PASSWORD, "ada")
    with pytest.raises(OptionError, match="10 to 200 characters"):
        accounts.add(Account("eve"), "short", "ada")
    with pytest.raises(ConflictError):
        accounts.add(ADA, PASSWORD, "ada")
    with pytest.raises(NoSuchEntryError):
        accounts.change(Account("nobody"), "ada")


def test_there_is_always_an_administrator(accounts: Accounts) -> None:
    for change in (Account("ada", OPERATOR), Account("ada", ADMINISTRATOR, is_disabled=True)):
        with pytest.raises(ConflictError, match="the last administrator"):
            accounts.change(change, "ada")
    assert accounts.accounts()[0].role == ADMINISTRATOR


def test_accounts_of_a_room_without_an_administrator_can_be_changed(tmp_path: Path) -> None:
    """As of one whose provider has named none yet."""
    with closing(Database(tmp_path)) as database:
        accounts = Accounts(database)
        accounts.add(Account("bob"), PASSWORD, "a test")
        accounts.change(Account("bob", OPERATOR), "a test")
        assert accounts.account("bob").role == OPERATOR


def test_a_password_is_checked_without_a_session(accounts: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.control.accounts.SESSIONS_OF_PERSON_MAX", 1)
    secret = session_of(accounts)
    assert accounts.has_password("ada", PASSWORD)
    assert not accounts.has_password("ada", "wrong")
    assert not accounts.has_password("nobody", PASSWORD)
    assert accounts.of_session(secret) is not None


def test_changes_are_kept_and_secrets_are_not(accounts: Accounts, tmp_path: Path) -> None:
    accounts.add(Account("bob"), PASSWORD, "ada")
    accounts.change(Account("bob", OPERATOR, ("pwg-hf",)), "ada")
    secret, token = session_of(accounts), accounts.make_token(ADA.person, "script", ALL, 1)
    registry = Registry(accounts._database, SourceStore(tmp_path / "sources"))
    last, *_ = registry.changes(PERSON, "bob")
    assert {one.name: (one.before, one.after) for one in last.fields} == {
        "role": ("physicist", "operator"),
        "groups": ("", '["pwg-hf"]'),
    }
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    for one in (PASSWORD, secret, token):
        assert one.encode() not in content


@pytest.mark.parametrize("how", ["password", "disabled"])
def test_an_account_that_changes_while_its_password_is_checked_lets_nobody_in(
    accounts: Accounts, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    accounts.add(Account("bob"), PASSWORD, "ada")

    def checked(password: str, kept: str) -> bool:
        if how == "password":
            accounts.set_password("bob", "another long password", "ada")
        else:
            accounts.change(Account("bob", is_disabled=True), "ada")
        return is_password(password, kept)

    monkeypatch.setattr("branchline.control.accounts.is_password", checked)
    assert accounts.log_in("bob", PASSWORD) is None


def test_the_command_takes_somebody_out_of_all_groups(accounts: Accounts, tmp_path: Path) -> None:
    command = ["people", "change", "ada", str(tmp_path)]
    assert run_command([*command, "--group", "pwg-dq", "--group", "pwg-hf"]).exit_code == 0
    assert accounts.account("ada").groups == ("pwg-dq", "pwg-hf")
    assert run_command([*command, "--role", ADMINISTRATOR]).exit_code == 0
    assert accounts.account("ada").groups == ("pwg-dq", "pwg-hf")
    both = run_command([*command, "--no-groups", "--group", "pwg-hf"])
    assert both.exit_code != 0
    assert "exclude each other" in both.output
    assert run_command([*command, "--no-groups"]).exit_code == 0
    assert accounts.account("ada").groups == ()
