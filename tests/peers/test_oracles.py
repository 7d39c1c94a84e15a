"""All branches of about 280 real files equal their oracles: digests of the values that uproot and ROOT read."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from tests.peers import oracle_check
from tests.peers.oracle_check import (
    ADJUSTED,
    CONTRADICTED,
    DECIDING,
    DIFFERS,
    FAILED,
    MATCH,
    NOT_READ,
    OWN_STREAMERS,
    Verdict,
    must_be_read,
)
from tests.sampled import long_but

pytestmark = pytest.mark.slow

# Minimum numbers of TTree branches and RNTuple fields that match their oracles, including adjusted ones. Raise a number
# once more branches can be read, so that later losses are noticed.
SOME, EVERY = "TTree of every fourth file", 4
MATCHES_MIN = {"TTree": 30_997, SOME: 8_848, "RNTuple": 5_475}
# Maximum numbers of matches that need an adjustment.
ADJUSTED_MAX = {"TTree": 59, SOME: 59, "RNTuple": 0}
SHOWN_MAX = 40


def objects_of(oracles: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """Return the trees of one kind, by file."""
    files = {
        name: {path: tree for path, tree in file["objects"].items() if tree["kind"] == kind}
        for name, file in oracles["files"].items()
    }
    return {name: trees for name, trees in files.items() if trees}


def crashed(name: str, trees: dict[str, Any]) -> list[Verdict]:
    """Return the verdicts on a file whose reading crashed the process."""
    return [
        Verdict(name, path, branch, tree["kind"], oracle["status"], "", "", FAILED, "the process died while reading it")
        for path, tree in trees.items()
        for branch, oracle in tree["branches"].items()
    ]


def results(futures: dict[str, Future[list[Verdict]]], files: dict[str, Any], folder: Path) -> list[Verdict]:
    """Return all verdicts. After a crash, the remaining files are read in one process each, to find the file that
    caused it.
    """
    verdicts, left = [], []
    for name, future in futures.items():
        try:
            verdicts += future.result()
        except BrokenProcessPool:
            left.append(name)
    context = multiprocessing.get_context("spawn")
    for name in left:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            try:
                verdicts += pool.submit(oracle_check.check_file, folder, name, files[name]).result()
            except BrokenProcessPool:
                verdicts += crashed(name, files[name])
    return verdicts


@pytest.fixture(scope="module", params=long_but(MATCHES_MIN, [SOME, "RNTuple"]))
def which(request: pytest.FixtureRequest) -> str:
    """Return a kind of trees, in all files or in a sample of files."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def verdicts(shared: Path, which: str) -> list[Verdict]:
    """Return the verdicts on all branches that have an oracle."""
    files = objects_of(json.loads((shared / "oracles.json").read_text()), "RNTuple" if which == "RNTuple" else "TTree")
    if which == SOME:
        files = {name: files[name] for name in sorted(files)[::EVERY]}
    largest_first = sorted(files, key=lambda name: -sum(len(tree["branches"]) for tree in files[name].values()))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=context) as pool:
        futures = {name: pool.submit(oracle_check.check_file, shared, name, files[name]) for name in largest_first}
        return results(futures, files, shared)


def shown(verdicts: list[Verdict]) -> str:
    """Describe the first verdicts."""
    lines = [f"{v.place} ({v.type or 'unknown type'}, {v.form}): {v.message}" for v in verdicts[:SHOWN_MAX]]
    return "\n".join([*lines, *([f"... and {len(verdicts) - SHOWN_MAX} more"] if len(verdicts) > SHOWN_MAX else [])])


def differences_from_uproot(verdicts: list[Verdict]) -> str:
    """Describe the differences from uproot for which there is no value of ROOT. Counts of split collections, where
    uproot returns a record of all members, are summarized in one line. All other branches are listed by name.
    """
    differing = [v for v in verdicts if v.outcome == DIFFERS and v.status not in DECIDING]
    counts = [v for v in differing if v.message.startswith("form i4, expected {")]
    others = [v for v in differing if v not in counts]
    return f"{len(counts)} counts of split collections, where uproot gives a record of the members\n" + "\n".join(
        f"different from uproot where ROOT could not decide: {v.place} ({v.type}): {v.message}" for v in others
    )


@pytest.mark.peer
@pytest.mark.timeout(900)
def test_what_is_read_equals_the_oracles(
    which: str, verdicts: list[Verdict], record_property: Callable[[str, object], None]
) -> None:
    kind = verdicts[0].kind
    matches = sum(v.outcome == MATCH for v in verdicts)
    not_read = Counter(v.type for v in verdicts if v.outcome == NOT_READ)
    summary = [
        f"{matches} of all {len(verdicts)} branches of {kind}s match their oracles:",
        oracle_check.summary(verdicts),
        f"most frequent kinds not read: {not_read.most_common(8)}",
        *(f"oracle not believed: {place}: {reason}" for place, reason in CONTRADICTED.items()),
        *(f"equal only in the way of the oracle: {v.place}" for v in verdicts if v.outcome == ADJUSTED),
        differences_from_uproot(verdicts),
    ]
    record_property("summary", "\n".join(summary))
    wrong = [v for v in verdicts if v.outcome == DIFFERS and v.status in DECIDING and v.place not in CONTRADICTED]
    assert not wrong, f"{len(wrong)} branches have wrong values:\n{shown(wrong)}"
    adjusted = sum(v.outcome == ADJUSTED for v in verdicts)
    assert matches + adjusted >= MATCHES_MIN[which]
    assert adjusted <= ADJUSTED_MAX[which]


@pytest.mark.peer
@pytest.mark.timeout(900)
def test_no_branch_fails_but_by_being_of_a_kind_not_read(verdicts: list[Verdict]) -> None:
    failed = [v for v in verdicts if v.outcome == FAILED and v.place not in OWN_STREAMERS]
    assert not failed, f"{len(failed)} branches fail:\n{shown(failed)}"


@pytest.mark.peer
@pytest.mark.timeout(900)
def test_every_branch_of_the_promised_kinds_is_read(verdicts: list[Verdict]) -> None:
    lacking = [v for v in verdicts if v.outcome == NOT_READ and v.status in DECIDING and must_be_read(v.form, v.type)]
    assert not lacking, f"{len(lacking)} branches of promised kinds are not read:\n{shown(lacking)}"
