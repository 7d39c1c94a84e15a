"""Error messages have the same form: the problem in lower case, the value as repr, a remedy, and no full stop."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.tidy.messages import Message, Value, messages_of_python, messages_of_rust

#: Proper names that a message may start with. Names with two capitals or a digit (ROOT, HTCondor) need no entry.
NAMES = {"Branchline", "Dask", "Parquet", "Pythia", "Python", "Slurm"}
#: The standard form is "unknown X", "invalid X", "no X", "X is not a Y", "X must be Y".
ODD = re.compile(
    r"\bimpossible\b|\b(?:is|are|was|were) (?:none|no)\b(?! (?:such|longer|more|later|less|larger|smaller))"
    r"|\bthere (?:is|are|was|were) (?:none|not|no(?! such| longer))\b|\b(?:somebody|nobody|anybody|whoever)\b"
)
#: Names of variables that hold text typed by a user.
TYPED = re.compile(r"(?:self\.)?(?:given|raw|text|typed|word)(?:\[\d+\])?")


@pytest.fixture(scope="module")
def messages(repository: Path) -> list[Message]:
    python = sorted((repository / "python" / "branchline").rglob("*.py"))
    rust = [path for path in sorted((repository / "crates").rglob("*.rs")) if "tests" not in path.parts]
    found = [one for path in python for one in messages_of_python(path)]
    found += [one for path in rust for one in messages_of_rust(path)]
    return [replace(one, path=one.path.relative_to(repository)) for one in found]


def start_is_wrong(text: str) -> bool:
    word = re.match(r"[A-Z][\w-]*", text)
    return word is not None and word[0] not in NAMES and re.match(r"\w*[A-Z\d]", word[0][1:]) is None


def bare_values(message: Message) -> list[Value]:
    """Return values that hold text typed by a user and are not quoted. A cause after a colon or in parentheses may be
    unquoted.
    """
    parts = message.text.split("{}")
    return [
        value
        for before, value in zip(parts, message.values, strict=False)
        if not value.quoted and TYPED.fullmatch(value.expression) and not before.endswith((": ", "("))
    ]


def test_messages_are_found(messages: list[Message]) -> None:
    assert sum(one.path.suffix == ".py" and not one.is_hint for one in messages) > 900
    assert sum(one.is_hint for one in messages) > 400
    assert sum(one.path.suffix == ".rs" for one in messages) > 100


def test_messages_start_in_lower_case_or_with_a_name(messages: list[Message]) -> None:
    assert [str(one) for one in messages if start_is_wrong(one.text)] == []


def test_messages_are_one_sentence_without_a_full_stop(messages: list[Message]) -> None:
    wrong = [one for one in messages if re.search(r"[.!?] [A-Z]|[^.]\.$|^$", one.text.strip())]
    assert [str(one) for one in wrong] == []


def test_messages_say_unknown_or_invalid(messages: list[Message]) -> None:
    assert [str(one) for one in messages if ODD.search(one.text)] == []


def test_messages_quote_text_of_users(messages: list[Message]) -> None:
    assert [f"{one} {bare_values(one)}" for one in messages if bare_values(one)] == []


def test_messages_of_python_are_collected(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "def f(word, n):\n"
        "    if n:\n"
        "        what = f'unknown {word}' if n > 1 else 'Too few.'\n"
        "        raise OptionError(what, hint=f'choose {n:d}')\n"
        "    return _wrong(f'got {word!r}')\n"
        "def _wrong(text): return DatasetError(f'the dataset: {text}')\n"
    )
    found = list(messages_of_python(path))
    assert [(one.text, one.is_hint) for one in found] == [
        ("unknown {}", False),
        ("Too few.", False),
        ("choose {}", True),
        ("the dataset: {}", False),
    ]
    assert [one.expression for one in bare_values(found[0])] == ["word"]
    assert not bare_values(found[2])
    assert not bare_values(found[3])


def test_messages_of_rust_are_collected(tmp_path: Path) -> None:
    path = tmp_path / "lib.rs"
    path.write_text(
        '#[error("the header ends after {count} bytes")]\nstruct A;\n'
        'fn f() { FormatError::damaged(12, format!("its size is {size}")) }\n'
        '#[cfg(test)]\nmod tests { fn g() { damaged(1, "Not a message.") } }\n'
    )
    assert [one.text for one in messages_of_rust(path)] == ["the header ends after {} bytes", "its size is {}"]


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        ("No tree", True),
        ("A tree", True),
        ("ROOT has no class", False),
        ("{} is damaged", False),
        ("Slurm fails", False),
    ],
)
def test_starts_of_messages(text: str, is_wrong: bool) -> None:
    assert start_is_wrong(text) is is_wrong


def test_quoted_messages_are_in_the_sources(repository: Path, messages: list[Message]) -> None:
    """Check the messages on the page about errors, where `...` stands for a value."""
    page = (repository / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(quoted) >= 30
    known = [one.text for one in messages if not one.is_hint]
    sources = [path.read_text(encoding="utf-8") for path in (repository / "crates").rglob("*.rs")]
    unknown = [
        one
        for one in quoted
        if not any(re.match(_pattern(one), text) for text in known)
        if not any(re.search(f'"{_pattern(one)}', text) for text in sources)
    ]
    assert unknown == []


def _pattern(quoted: str) -> str:
    return r"\{[^{}]*\}".join(re.escape(part) for part in quoted.split("..."))
