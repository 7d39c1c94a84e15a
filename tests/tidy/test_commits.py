"""Commit subjects are short imperative sentences."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

#: The last commit before this rule was introduced. Older commits are not checked.
BASE = "9d5caf0f"
SUBJECT_MAX = 72
#: Imperatives that end like a past tense or a participle.
IMPERATIVES = {"Bring", "Embed", "Feed", "Need", "Proceed", "Seed", "Shed", "Speed", "String"}


def test_subjects_are_short_sentences_in_the_imperative(repository: Path) -> None:
    log = ["git", "-C", str(repository), "log", "--no-merges", "--format=%h %s", f"{BASE}..HEAD"]
    done = subprocess.run(log, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"the history does not go back to {BASE}: {done.stderr.strip()}")
    for line in done.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        assert len(subject) <= SUBJECT_MAX, f"{commit}: {len(subject)} characters: {subject}"
        assert subject[0].isupper(), f"{commit}: begin with a capital letter: {subject}"
        assert not subject.endswith("."), f"{commit}: leave the full stop out: {subject}"
        verb = subject.split()[0]
        assert verb in IMPERATIVES or not verb.endswith(("ed", "ing")), f"{commit} is not in the imperative: {subject}"
