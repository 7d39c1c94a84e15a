"""`branchline compare` runs real commands in an order that a seed draws, and says which is faster, and how sure."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.clusters.event_files import write_events

from branchline.base.plain import from_plain
from branchline.errors import OptionError
from branchline.lab.comparison.command_samples import ShellCommand
from branchline.lab.comparison.compare import (
    ARMS,
    Comparison,
    ComparisonPlan,
    FailedCommandError,
    compare,
    local_files,
    verdict,
)
from branchline.lab.statistics import paired_ratio

PYTHON = sys.executable
BUSY = "other programs were at work"


def waiting(name: str, seconds: float) -> ShellCommand:
    """One that takes little but this, also on a busy machine: Python takes as long to start there."""
    return ShellCommand(name, ("sleep", str(seconds)))


def quiet(found: Comparison) -> Comparison:
    """A comparison as on a machine without other programs, such as the tests beside this one."""
    return replace(found, is_busy=False)


def plan(first: ShellCommand, second: ShellCommand, **options: Any) -> ComparisonPlan:
    return ComparisonPlan(first, second, **{"budget_s": 60.0, "seed": 3, **options})


def test_the_slower_one_is_named_with_an_interval_and_a_control() -> None:
    found = compare(plan(waiting("A", 0.05), waiting("B", 0.25), precision=0.5))
    assert found.is_precise
    assert found.wall.differs
    assert found.wall.low is not None
    assert found.wall.low > 1.2
    lines = verdict(quiet(found))
    assert lines[0].startswith("control: A takes")
    assert lines[1].startswith("A is faster: B takes")
    assert found.cpu is None, "there was too little CPU time"
    assert "; seen from outside, the difference lies in waiting (+" in lines[1]
    assert lines[2].startswith("nothing was made cold")


def test_rounds_have_each_arm_once_in_an_order_that_the_seed_draws() -> None:
    one, two, other = (compare(plan(waiting("A", 0), waiting("B", 0), precision=0.9, seed=seed)) for seed in (5, 5, 6))

    def orders(found: Comparison) -> list[tuple[str, ...]]:
        rounds = [[s for s in found.samples if s.round == number] for number in range(6)]
        return [tuple(s.arm for s in sorted(samples, key=lambda s: s.position)) for samples in rounds]

    assert all(sorted(order) == sorted(ARMS) for order in orders(one))
    assert orders(one) == orders(two)
    assert orders(one) != orders(other)


def test_it_ends_with_its_budget_and_says_that_too_few_say_nothing() -> None:
    begin_s = time.monotonic()
    found = compare(plan(waiting("A", 0.3), waiting("B", 0.3), budget_s=2.5))
    assert time.monotonic() - begin_s < 10
    assert not found.is_precise
    assert found.wall.low is None
    assert "are too few for an interval, which needs 6: give it more than" in verdict(quiet(found))[1]


def test_a_command_that_fails_is_told_with_what_it_said() -> None:
    bad = ShellCommand("B", (PYTHON, "-c", "import sys; sys.exit('the disk is gone')"))
    with pytest.raises(FailedCommandError, match=r"(?s)ended with code 1 .*the disk is gone"):
        compare(plan(waiting("A", 0), bad))
    with pytest.raises(OptionError, match="cannot be run"):
        compare(plan(waiting("A", 0), ShellCommand("B", ("/nonexistent/program",))))


def test_a_round_in_which_one_fails_is_left_out_and_counted(tmp_path: Path) -> None:
    counter = tmp_path / "count"
    code = f"import os, sys; p = {str(counter)!r}; open(p, 'a').write('x'); sys.exit(os.path.getsize(p) == 3)"
    found = compare(plan(waiting("A", 0), ShellCommand("B", (PYTHON, "-c", code)), precision=0.9))
    assert found.lost == 1
    assert len(found.samples) % 3 == 0
    assert all(one.code == 0 for one in found.samples)
    assert any(line.startswith("1 round left out") for line in verdict(found))


def test_what_disturbs_a_command_is_noted_and_told(busy: None) -> None:
    found = compare(plan(waiting("A", 0.6), waiting("B", 0.6), budget_s=1.0))
    assert all(BUSY in one.surroundings.notes for one in found.samples)
    assert f"in 3 of 3 runs {BUSY}" in verdict(found)
    assert verdict(found)[1] == "the machine was busy with other programs, so wall times are not compared"


def test_a_file_that_cannot_be_made_cold_any_more_is_named(tmp_path: Path) -> None:
    file = tmp_path / "gone.root"
    file.write_bytes(b"x" * 5000)
    removing = ShellCommand("B", ("rm", "-f", str(file)))
    with pytest.raises(FailedCommandError, match=r"gone\.root: cannot be made cold: No such file"):
        compare(plan(removing, removing, cold=(str(file),)))


def test_a_command_that_hangs_is_ended_with_what_it_started() -> None:
    hanging = ShellCommand("B", ("sh", "-c", "sleep 600 & sleep 600"))
    begin_s = time.monotonic()
    with pytest.raises(FailedCommandError, match="ended with code -9"):
        compare(plan(waiting("A", 0), hanging, wait_s=1.0))
    assert time.monotonic() - begin_s < 20


@pytest.mark.long
def test_cpu_time_is_that_of_all_processes() -> None:
    busy = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
    both = f"import subprocess, sys\nfor _ in range(2): subprocess.run([sys.executable, '-S', '-c', {busy!r}])"
    found = compare(
        plan(
            ShellCommand("A", (PYTHON, "-S", "-c", busy)), ShellCommand("B", (PYTHON, "-S", "-c", both)), precision=0.5
        )
    )
    assert found.cpu is not None
    assert 1.5 < found.cpu.value < 3.5


@pytest.mark.parametrize(
    ("options", "said"),
    [({"precision": 0.0}, "precision: 0"), ({"budget_s": 0.0}, "be positive"), ({"wait_s": 0.0}, "be positive")],
)
def test_plans_that_cannot_be_are_refused(options: dict[str, float], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        plan(waiting("A", 0), waiting("B", 0), **options).check()
    same = (
        ShellCommand.of("A", "branchline run w.py data -o out"),
        ShellCommand.of("B", "branchline run w.py data -j 2 -o ./out"),
    )
    with pytest.raises(OptionError, match="the same directory"):
        ComparisonPlan(*same).check()
    with pytest.raises(OptionError, match="no file to be made cold"):
        local_files("/nonexistent")


def test_trains_take_nothing_of_the_run_before() -> None:
    command = ShellCommand.of("A", "branchline run w.py 'my data/*.root' -o out --force")
    assert command.words[3] == "my data/*.root"
    assert command.added == ("--no-reuse",)
    assert command.output == Path("out")
    assert ShellCommand.of("A", "root -b -q macro.C").added == ()
    for text in ("", "sleep 'x"):
        with pytest.raises(OptionError):
            ShellCommand.of("A", text)


@pytest.mark.long
def test_two_trains_are_compared_cold_and_by_phases(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write_events(data, 2, 2000)
    wagon = (
        "import time\nclass W:\n    def process(self, events):\n        time.sleep({})\n        return len(events.px)\n"
    )
    for name, seconds in (("fast", 0), ("slow", 2)):
        (tmp_path / f"{name}.py").write_text(wagon.format(seconds))
    program = f"{PYTHON} -m branchline"
    # The name of the program is how a train is known.
    (tmp_path / "branchline").write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    (tmp_path / "branchline").chmod(0o755)
    trains = [
        f"{tmp_path}/branchline run {tmp_path}/{name}.py {data} -o {tmp_path}/out-{name} -j 1 --pictures none"
        for name in ("fast", "slow")
    ]
    samples = tmp_path / "samples.json"
    words = ["compare", "--cold", str(data), "--precision", "60%", "--seed", "7", "-o", str(samples), *trains]
    done = subprocess.run(
        [PYTHON, "-m", "branchline", *words], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(samples.read_text())
    said = verdict(quiet(from_plain(Comparison, found)))[1]
    assert said.startswith("A is faster: B takes")
    assert "the difference lies in wagons (+" in said
    assert (said in done.stdout) != found["is_busy"]
    assert found["seed"] == 7
    assert {one["cached_bytes"] for one in found["samples"]} == {0}
    times = [[one["wall_s"] for one in found["samples"] if one["arm"] == arm] for arm in ("A", "B")]
    assert found["wall"]["value"] == pytest.approx(paired_ratio(*times).value)
