"""Forecasts beside what was measured: kept in one place, shown, and made intervals of."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.command_line import run_command
from tests.sampled import long_but
from tests.unit.lab.forecast.test_planned_requests import write
from tests.unit.records.report.conftest import make_job

from branchline.cli.commands.forecast import prove
from branchline.errors import BadFileError, StorageError
from branchline.lab.advice.advise import Advised
from branchline.lab.advice.changes import ACCESS, AdvisedChange
from branchline.lab.forecast import checked
from branchline.lab.forecast.checked import (
    PAIRS_MIN,
    Checked,
    CheckedForecasts,
    checked_path,
    keep_checked,
    load_checked,
    machine_name,
)
from branchline.lab.forecast.subject import subject_of
from branchline.lab.limits import CHECKED_KEPT
from branchline.reading.access import Access
from branchline.records.diagnosis.advice import Advice, Gain

ONE = Checked("out: rtt=10ms", 10.0, 11.0, machine_name(), "2026-11-25T12:00:00+00:00", is_held=True)
SAVED = replace(ONE, about="proof of codec: out", advice="codec", before_s=12.0)


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_what_is_checked_is_kept_but_not_for_ever() -> None:
    assert load_checked() == CheckedForecasts()
    keep_checked([ONE, SAVED])
    keep_checked([replace(ONE, about="the last")])
    assert [one.about for one in load_checked().forecasts] == [ONE.about, SAVED.about, "the last"]
    keep_checked([replace(ONE, about=str(number)) for number in range(CHECKED_KEPT)])
    assert [one.about for one in load_checked().forecasts] == [str(number) for number in range(CHECKED_KEPT)]


#: Adds so many, one at a time, once it is told to begin.
ADDING = """
import errno
import fcntl
import sys
from dataclasses import replace
from branchline.lab.forecast.checked import keep_checked
from tests.unit.lab.forecast.test_checked import ONE
print("ready", flush=True)
sys.stdin.readline()
if sys.argv[3] == "without locks":
    def refused(*_):
        raise OSError(errno.ENOLCK, "No locks available")
    fcntl.flock = refused
for number in range(int(sys.argv[2])):
    keep_checked([replace(ONE, about=f"{sys.argv[1]} {number}")])
"""


@pytest.mark.parametrize("locks", long_but(["with locks", "without locks"], ["without locks"]))
def test_two_processes_that_add_at_once_lose_nothing(locks: str) -> None:
    count, names = 40, ("one", "other")
    with contextlib.ExitStack() as running:
        processes = [
            running.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", ADDING, name, str(count), locks],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for name in names
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        assert [process.wait(60) for process in processes] == [0, 0]
    kept = {one.about for one in load_checked().forecasts}
    assert kept == {f"{name} {number}" for name in names for number in range(count)}


def test_who_does_not_let_go_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked, "CHECKED_LOCK_S", 0.02)
    path = keep_checked([ONE])
    with path.with_suffix(".lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StorageError, match="another process adds"):
            keep_checked([ONE])
    keep_checked([ONE])
    assert len(load_checked().forecasts) == 2


def test_without_locks_what_a_killed_process_left_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    monkeypatch.setattr(checked, "CHECKED_LOCK_S", 0.02)
    path = keep_checked([ONE])
    left = path.with_suffix(".adding")
    assert not left.exists()
    left.touch()
    with pytest.raises(StorageError, match="another process adds") as raised:
        keep_checked([ONE])
    assert str(left) in str(raised.value.hint)
    left.unlink()
    keep_checked([ONE])
    assert len(load_checked().forecasts) == 2


def test_other_machines_keep_theirs_in_the_same_file() -> None:
    keep_checked([ONE, replace(ONE, machine="another")])
    assert load_checked().here().forecasts == (ONE,)
    keep_checked([ONE])
    assert len(load_checked().forecasts) == 3


def test_how_right_they_were_is_computed() -> None:
    found = CheckedForecasts((ONE, replace(ONE, said_s=8.8, is_held=False), SAVED, replace(SAVED, said_s=11.5)))
    assert found.median_error() == pytest.approx((0.1 / 1.1 + 0.1 / 1.1) / 2, abs=1e-6)
    assert found.coverage() == pytest.approx(0.75)
    # 1 s was saved each time; 2 s and 0.5 s were said.
    assert found.savings_error() == pytest.approx(0.75)
    assert CheckedForecasts((SAVED,)).savings_error() is None
    assert (CheckedForecasts().median_error(), CheckedForecasts().coverage()) == (None, None)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"checked_version": 99}', '{"checked_version": 1, "forecasts": [{"about": 3}]}'],
)
def test_what_has_no_checked_forecasts_is_refused_and_left(text: str) -> None:
    path = keep_checked([ONE])
    path.write_text(text)
    for call in (load_checked, lambda: keep_checked([ONE])):
        with pytest.raises(BadFileError, match="no checked forecasts"):
            call()
    assert path.read_text() == text


def test_all_are_shown_by_the_command() -> None:
    assert "No forecast was checked" in run_command(["forecast", "check"]).stdout
    keep_checked([ONE, SAVED, replace(SAVED, said_s=11.5, is_held=False)])
    shown = run_command(["forecast", "check"]).stdout
    assert "2026-11-25 out: rtt=10ms: forecast 10.0 s, measured 11.0 s (-9.1%, inside the interval)" in shown
    assert "3 forecasts; median error 9.1%; 67% of the 90 % intervals contain the measurement" in shown
    plain = json.loads(run_command(["forecast", "check", "--json"]).stdout)
    assert [one["advice"] for one in plain["forecasts"]] == ["", "codec", "codec"]
    assert run_command(["forecast", "check", "said.json"]).exit_code != 0


def test_many_make_the_interval_of_the_next_job(tmp_path: Path) -> None:
    path = write(tmp_path / "data.root", [3_000] * 20)
    job = make_job()
    job["dataset"] = [{"path": str(path), "tree": "events"}]
    job["branches"] = [{**job["branches"][0], "name": name} for name in ("x", "y")]
    (tmp_path / "job.json").write_text(json.dumps(job))
    assert subject_of([str(tmp_path)]).errors is None
    keep_checked([ONE] * PAIRS_MIN)
    errors = subject_of([str(tmp_path)]).errors
    assert errors is not None
    assert errors.pairs == PAIRS_MIN


def test_a_proof_is_kept_with_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "data.root", [3_000] * 20)
    subject = subject_of([f"{path}:events"], ("x",), Access(mode="plain"))
    advice = Advice("access-planned", "", "--access planned", Gain(0.1, 0.05, 0.2), "nothing", "analyst", 1.0)
    prove(Advised(advice, AdvisedChange(ACCESS, access=Access(), option="--access planned")), subject, (), budget_s=2.0)
    (kept,) = load_checked().forecasts
    assert (kept.advice, kept.machine) == ("access-planned", machine_name())
    assert kept.saving_said_s == pytest.approx(0.1 * (kept.before_s or 0.0))
    assert kept.pairs > 0
    assert str(checked_path()) in capsys.readouterr().out
