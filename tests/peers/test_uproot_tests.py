"""The runner of uproot's own tests reports the right outcomes for a checkout with a test of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.peers.uproot_tests.run import DIFFERENT, Ended, Outcome, WritingOutcome, run

TESTS = """
import pytest
import skhep_testdata
import uproot
import uproot.models


def opened():
    return uproot.open(skhep_testdata.data_path("uproot-simple.root"))


def test_reads():
    with opened()["tree"] as tree:
        assert tree["one"].array().tolist() == [1, 2, 3, 4]


def test_compares_with_another_value():
    assert opened()["tree"].num_entries == 5


def test_asks_for_what_is_not_there():
    opened()["tree"].no_such_call()


def test_needs_a_file():
    uproot.open(skhep_testdata.data_path("not-there.root"))


def written(path):
    return uproot.recreate(path)


def test_writes(tmp_path):
    written(tmp_path / "new.root")


def test_looks_inside():
    assert opened().file.source is not None


@pytest.mark.parametrize("url", ["https://host/file.root"])
def test_reads_from_afar(url):
    uproot.open(url)


class TestOfMethods:
    def test_reads_too(self):
        assert opened().keys() == ["tree;1"]

    def test_of_a_model(self):
        assert uproot.models
"""


@pytest.fixture(scope="module")
def outcome(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    assert (shared / "root/uproot-simple.root").exists()
    checkout = tmp_path_factory.mktemp("checkout")
    (checkout / "tests").mkdir()
    (checkout / "tests/__init__.py").touch()
    (checkout / "tests/test_kinds.py").write_text(TESTS)
    return run(checkout)


@pytest.mark.peer
def test_each_test_is_counted_by_how_it_ended(outcome: Outcome) -> None:
    ended = {one.function.rpartition("::")[2]: one for one in outcome.ended}
    assert [one.function for one in outcome.passed()] == ["test_kinds.py::test_reads"]
    assert {one.error for one in outcome.failed()} == {"AssertionError", "AttributeError"}
    assert [one.function for one in outcome.wrong_values()] == ["test_kinds.py::test_compares_with_another_value"]
    assert not outcome.is_good
    assert ended["test_needs_a_file"].why == "missing file: not-there.root"
    assert ended["test_writes"].why == "not counted: writes"
    assert ended["test_looks_inside"].why == "not counted: internals"
    assert ended["test_reads_from_afar"].why == "not counted: needs the network"


@pytest.mark.peer
def test_the_text_names_what_failed_and_why(outcome: Outcome) -> None:
    text = outcome.text()
    assert "1 pass, 2 fail, 0 differ on purpose" in text
    assert "failed: test_kinds.py::test_asks_for_what_is_not_there: AttributeError: 'Tree' object has no" in text
    assert "1 not run: 1 files are missing" in text


@pytest.mark.peer
def test_a_folder_without_tests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no tests/test_"):
        run(tmp_path)


def test_writing_tests_are_good_if_few_fail_few_are_excluded_and_no_content_is_wrong() -> None:
    excluded = Ended(next(iter(DIFFERENT["writing"])), "failed", "AttributeError", "private")
    passed, refused, wrong = (
        Ended("test_a.py::test", outcome, error, "")
        for outcome, error in (("passed", ""), ("failed", "OptionError"), ("failed", "AssertionError"))
    )
    many = (passed,) * 97
    assert WritingOutcome((*many, *(refused,) * 3, excluded), 0).is_good
    assert not WritingOutcome((*many, *(refused,) * 4), 0).is_good
    assert not WritingOutcome((*many, wrong), 0).is_good
    assert not WritingOutcome((*many, *(excluded,) * 18), 0).is_good
    assert (
        "97 pass with Branchline's writers, 1 fail, 1 are excluded"
        in WritingOutcome((*many, wrong, excluded), 0).text()
    )
