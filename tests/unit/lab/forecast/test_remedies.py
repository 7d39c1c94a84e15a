"""What is to be done about a finding is said in one place, and names commands and options that there are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.conftest import REPOSITORY

from branchline.cli.parser import named_command
from branchline.control.trials.trial import TrialOutcome, WagonTrial, warnings
from branchline.records.diagnosis import remedies

CONTROL = REPOSITORY / "python" / "branchline" / "control"
SENTENCES = {value for name, value in vars(remedies).items() if name.isupper() and isinstance(value, str)}


def own_advice(source: str) -> Iterator[str]:
    """Texts that a source gives as advice by itself: to findings and to warnings of trials."""
    for node in ast.walk(ast.parse(source)):
        given: list[ast.expr] = []
        if isinstance(node, ast.Call):
            given = [one.value for one in node.keywords if one.arg == "advice"]
            if isinstance(node.func, ast.Name) and node.func.id == "TrialWarning":
                given += node.args[1:]
        elif isinstance(node, ast.Assign) and any(getattr(one, "id", "") == "advice" for one in node.targets):
            given = [node.value]
        for part in (part for one in given for part in ast.walk(one)):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value


def test_an_own_sentence_would_be_found() -> None:
    assert list(own_advice("Finding(advice='look' if told else remedies.A)")) == ["look"]
    assert list(own_advice("TrialWarning(what, f'use {less}')")) == ["use "]
    assert list(own_advice("advice = 'look'")) == ["look"]


def test_control_has_no_advice_of_its_own() -> None:
    sources = list(CONTROL.rglob("*.py"))
    assert sources
    found = {path.name: said for path in sources if (said := list(own_advice(path.read_text("utf-8"))))}
    assert found == {}


def test_commands_and_options_in_sentences_exist() -> None:
    commands = [name for one in SENTENCES for name in re.findall(r"`branchline ([a-z]+)", one)]
    assert commands
    for name in commands:
        path, _ = named_command([name])
        assert path


def test_a_trial_warns_with_a_sentence_of_the_remedies() -> None:
    [warning] = warnings(TrialOutcome(wagons=[WagonTrial(name="momenta", events=0)]))
    assert warning.advice == remedies.NO_EVENTS
