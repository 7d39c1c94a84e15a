"""Command lines that are read without typer are read as typer reads them."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from branchline.cli.commands import COMMANDS, GROUPS, found
from branchline.cli.full import for_typer
from branchline.cli.options import Argument
from branchline.cli.quick import parsed

SEED = 20261121
LINES = 60
#: What may stand for anything: good and bad values of all types, flags, and what looks like them.
WORDS = (
    "a.root", "b.root", "x", "3", "0", "-1", "512", "99999", "2.5", "1e3",
    "nan", "1 MB", "zstd:5", "entry", "branch", "zlib", "rntuple",
    "-", "--", "", "a=b", "--nothing", "-q", "-j4", "--help", "+1", " 3", "1_0", "\u0663",
)  # fmt: skip


def recorded(command: Callable[..., Any], given: list[dict[str, Any]]) -> Callable[..., Any]:
    """A command that only notes what it was called with."""

    def note(**values: Any) -> None:
        given.append({name: value for name, value in values.items() if name != "access"})

    note.__signature__ = inspect.signature(command, eval_str=True)  # type: ignore[attr-defined]
    note.__annotations__ = {one.name: one.annotation for one in note.__signature__.parameters.values()}  # type: ignore[attr-defined]
    return note


def by_typer(command: Callable[..., Any], lines: list[list[str]]) -> list[dict[str, Any] | None]:
    """What typer calls the command with for each line; None if it does not call it."""
    given: list[dict[str, Any]] = []
    app = typer.Typer(add_completion=False)
    app.command()(for_typer(recorded(command, given)))
    found = []
    for words in lines:
        given.clear()
        CliRunner().invoke(app, words)
        found.append(given[0] if given else None)
    return found


def lines_of(command: Callable[..., Any], draw: random.Random) -> list[list[str]]:
    """Random command lines, most of which mean something."""
    flags, needed, places = [], [], 0
    for one in inspect.signature(command, eval_str=True).parameters.values():
        about = one.annotation.__metadata__[0]
        if isinstance(about, Argument):
            places += 1
        else:
            own = list(about.flags) or [f"--{one.name.replace('_', '-')}"]
            flags += own
            needed += own[:1] if one.default is inspect.Parameter.empty else []
    lines = []
    for _ in range(LINES):
        words = draw.choices(("a.root", "b.root", "c"), k=places + draw.choice((0, 0, 0, 2)))
        for flag in draw.choices(flags, k=draw.randrange(4)):
            value = draw.choice(WORDS)
            piece = draw.choice(([flag, value], [flag, value], [flag], [f"{flag}={value}"]))
            at = draw.randrange(len(words) + 1)
            words[at:at] = piece
        if draw.random() < 0.2:
            words.insert(draw.randrange(len(words) + 1), draw.choice(WORDS))
        if draw.random() < 0.8:
            words += [word for flag in needed for word in draw.choice(([flag, "out"], [f"{flag}=out"]))]
        lines.append(words)
    return lines


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in GROUPS and name != "version"])
def test_what_is_read_without_typer_is_what_typer_reads(name: str) -> None:
    command, draw = found(name), random.Random(f"{SEED} {name}")
    quick = [(words, values) for words in lines_of(command, draw) if (values := parsed(command, words)) is not None]
    assert len(quick) > LINES / 6, f"of {LINES} only {len(quick)} were read"
    for (words, values), full in zip(quick, by_typer(command, [words for words, _ in quick]), strict=True):
        assert values == full, f"seed {SEED}: branchline {name} {words}"


@pytest.mark.parametrize(
    "words",
    [
        [], ["--help"], ["a", "-o", "b", "--help"], ["a"], ["a", "-o"], ["a", "-o", ""], ["", "-o", "b"], ["a", "-ob"],
        ["a", "-o", "b", "--order", "size"], ["a", "-o", "b", "--cluster-events", "0"], ["a", "-o", "b", "--forc"],
        ["a", "-o", "b", "--force=yes"], ["a", "-o", "b", "--cluster-events", "\u0663"],
    ],
)  # fmt: skip
def test_what_asks_or_may_be_wrong_is_left_to_typer(words: list[str]) -> None:
    assert parsed(found("merge"), words) is None


def test_a_merge_is_read_with_all_that_can_be_said() -> None:
    words = "a b -o c.root --order=branch --codec zstd:5 --cluster-events 7 --force --gap 1MB --trace t -- -d.root"
    given = parsed(found("merge"), words.split())
    assert given is not None
    assert [given] == by_typer(found("merge"), [words.split()])
    assert given["inputs"] == ["a", "b", "-d.root"]
    assert (given["order"], given["cluster_events"], given["force"], given["verify"]) == ("branch", 7, True, False)
    assert (str(given["output"]), given["access_gap"], str(given["trace_to"])) == ("c.root", "1MB", "t")
