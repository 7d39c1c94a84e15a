"""The file of a study says what is varied; what it may not say is refused with the place and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchline.errors import OptionError
from branchline.lab.studies.study_file import load_study, seconds_of
from branchline.lab.study import Study

STORAGES = """
question = "Which storage is faster?"
budget = "20 min"
precision = "3%"
rounds = 12
skip = [{ storage = "far", jobs = 4 }]

[job]
files = ["*.root"]
tree = "Events"
options = { mode = "planned" }

[factors.storage]
near = { where = "${DATA}" }
far = { where = ["root://a//x", "root://b//x"], options = { streams = 4 } }

[factors]
jobs = [1, 4]

[baseline]
storage = "near"
"""


def load(folder: Path, text: str, **variables: str) -> Study:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return load_study(path, variables)


def test_levels_are_combined_into_arms_with_their_settings(tmp_path: Path) -> None:
    study = load(tmp_path, STORAGES, DATA="/scratch")
    arms = {one.name: one for one in study.arms()}
    assert list(arms) == ["storage near, jobs 1", "storage near, jobs 4", "storage far, jobs 1"]
    near, far = arms["storage near, jobs 4"].settings, arms["storage far, jobs 1"].settings
    assert (near.where, near.jobs, near.options) == (("/scratch",), 4, {"mode": "planned"})
    assert (far.where, far.options) == (("root://a//x", "root://b//x"), {"mode": "planned", "streams": 4})
    assert (study.budget_s, study.precision, study.rounds_max) == (1200.0, 0.03, 12)


def test_each_arm_is_compared_with_the_one_that_differs_in_the_baselines_levels_only(tmp_path: Path) -> None:
    study = load(tmp_path, STORAGES, DATA="/scratch")
    assert {one.name: study.baseline_of(one) for one in study.arms()} == {
        "storage near, jobs 1": "storage near, jobs 1",
        "storage near, jobs 4": "storage near, jobs 4",
        "storage far, jobs 1": "storage near, jobs 1",
    }


def test_another_question_is_the_same_study_and_another_level_is_not(tmp_path: Path) -> None:
    one = load(tmp_path, STORAGES, DATA="/scratch")
    reworded = load(tmp_path, STORAGES.replace("faster?", "best?").replace("20 min", "2 h"), DATA="/scratch")
    other = load(tmp_path, STORAGES.replace("[1, 4]", "[1, 8]").replace("jobs = 4 }", "jobs = 8 }"), DATA="/scratch")
    assert one.digest == reworded.digest
    assert one.digest != other.digest


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ('question = "Which storage is faster?"', "", "no question"),
        ("rounds = 12", "round = 12", "did you mean 'rounds'"),
        ("rounds = 12", "rounds = 0", "at least 1"),
        ('budget = "20 min"', 'budget = "20"', "invalid time '20'"),
        ('precision = "3%"', 'precision = "300%"', "invalid precision: 3"),
        ('storage = "far", jobs = 4', 'storage = "farther"', "no level 'farther'"),
        ('storage = "far", jobs = 4', 'store = "far"', "unknown factor 'store'"),
        ("jobs = [1, 4]", "jobs = [1, 1]", "a duplicate level"),
        ("jobs = [1, 4]", "jobs = [1, 100000]", "run concurrently"),
        ("jobs = [1, 4]", "sizes = [1, 4]", "cannot be varied by a list"),
        ("jobs = [1, 4]", "jobs = []", "no levels"),
        ('where = "${DATA}"', "where = 7", "a string or a list of strings"),
        ('where = "${DATA}"', 'wher = "x"', "did you mean 'where'"),
        ("streams = 4", "streams = [4]", "must be a table"),
        ('tree = "Events"', "tree = 1", "must be a string"),
        ("[job]", "[job", "invalid TOML"),
    ],
)
def test_what_a_study_may_not_say_is_told_with_its_file(tmp_path: Path, before: str, after: str, told: str) -> None:
    assert before in STORAGES
    with pytest.raises(OptionError, match=r"study\.toml.*") as failure:
        load(tmp_path, STORAGES.replace(before, after), DATA="/scratch")
    assert told in str(failure.value)


def test_a_missing_variable_is_named_with_how_to_give_it(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"needs \$\{DATA\}.*give --set DATA=VALUE"):
        load(tmp_path, STORAGES)


def test_a_file_that_is_too_large_or_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"larger than 1\.00 MB"):
        load(tmp_path, "#" * 1_000_001)
    with pytest.raises(OptionError, match="cannot be read"):
        load_study(tmp_path / "none.toml", {})


def test_too_many_arms_are_refused_before_they_are_made(tmp_path: Path) -> None:
    levels = ", ".join(f'"{number}" = {{ folder = "{number}" }}' for number in range(1000))
    factors = "".join(f"[factors]\n{name} = {{ {levels} }}\n".replace("[factors]\n", "") for name in "abc")
    with pytest.raises(OptionError, match="1000000000 arms"):
        load(tmp_path, f'question = "?"\n[factors]\n{factors}')


@pytest.mark.parametrize(("text", "seconds"), [("90 s", 90.0), ("1.5 h", 5400.0), ("2min", 120.0), ("1 d", 86400.0)])
def test_times_have_units(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


def test_a_level_with_a_client_has_no_options_of_another(tmp_path: Path) -> None:
    text = """
    question = "Which client?"
    [job]
    client = "root"
    options = { cache = 0, work = 5 }
    environment = { A = "1", B = "1" }
    [factors.cache]
    none = { options = { cache = 1 }, environment = { A = "2" } }
    [factors.client]
    root = { options = { learn = 10 } }
    branchline = { client = "branchline", options = { threads = 2 } }
    """
    root, other = (
        one.settings for one in load(tmp_path, text.replace("none = { options = { cache = 1 }, ", "none = { ")).arms()
    )
    assert root.options == {"cache": 0, "work": 5, "learn": 10}
    assert other.options == {"threads": 2}
    assert other.environment == {"A": "2", "B": "1"}
    root, other = (one.settings for one in load(tmp_path, text).arms())
    assert root.options == {"cache": 1, "work": 5, "learn": 10}
    assert other.options == {"threads": 2, "cache": 1}, "levels of both factors are for the client, in any order"
