"""Whether studies find what is there and nothing else, what the lab itself costs, and the same once on this machine."""

from __future__ import annotations

import dataclasses
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benches.simulated_machine import THROTTLE, Noise, SimulatedMachine
from benches.tables import table
from branchline.lab.comparison.compare import shown_ratio
from branchline.lab.sampling.job import JobRequest
from branchline.lab.sampling.local_jobs import run_at_once
from branchline.lab.sampling.sampler import HereAtOnce, Taker
from branchline.lab.sampling.samples import SAMPLES, SampleFile
from branchline.lab.studies.study_result import StudyResult
from branchline.lab.studies.study_run import StudyRun
from branchline.lab.study import Factor, JobSettings, Level, Study

#: What is promised: false alarms at most, differences of 5 % found at least, and the cost of the lab at most.
FALSE_MOST, FOUND_LEAST, COST_MOST = 0.06, 0.70, 0.01
TRUTH = 1.05
_PAIRS = 12
#: Long against the ticks of clocks; the real studies wait and do not compute, so that a busy machine matters less.
_SLEEP_S = 0.5


@dataclass(frozen=True)
class Kind:
    """A kind of study: how many jobs its arms have, whether they are those of a farm, and how many levels it has."""

    name: str
    jobs: int = 1
    place: str = ""
    levels: int = 2
    rounds: int = _PAIRS
    precision: float = 0.001
    noise: Noise = field(default_factory=Noise)


KINDS = (
    Kind("6 pairs", rounds=6),
    Kind("12 pairs"),
    Kind("12 pairs, quiet machine", noise=Noise(outliers_part=0.0)),
    Kind("30 pairs", rounds=30),
    Kind("12 pairs, 8 jobs at once", jobs=8),
    Kind("12 pairs, 40 jobs of a farm", jobs=40, place="slurm"),
    Kind("12 pairs, 5 levels: each of them", levels=5),
    Kind("ends at +-2 %, 30 pairs at most", rounds=30, precision=0.02),
    Kind("ends at +-2 %, 30 pairs at most, quiet machine", rounds=30, precision=0.02, noise=Noise(outliers_part=0.0)),
    Kind("ends at +-4 %, 30 pairs at most", rounds=30, precision=0.04),
    Kind("ends at +-4 %, 30 pairs at most, quiet machine", rounds=30, precision=0.04, noise=Noise(outliers_part=0.0)),
)


def lab_page(repeats: int, seed: int, pairs: int, say: Callable[[str], None]) -> tuple[str, list[dict[str, Any]]]:
    """The page, and a row for each kind of study."""
    rows = []
    for kind in KINDS:
        say(f"lab: {kind.name}, {repeats} simulated studies of each")
        rows.append(_row(kind, repeats, seed))
    say("lab: really, on this machine")
    real = _real(pairs, seed)
    head = [
        "kind of study",
        "studies",
        "false alarms %",
        "alarms of the control %",
        "5 % found %",
        "its ratio",
        "pairs",
    ]
    lines = [
        "# Studies of the lab, studied",
        "",
        f"{repeats} simulated studies of each kind; seed {seed}: the same seed gives the same figures. Arms, rounds, "
        "their order, estimates, the end and what is kept are those of the code; only jobs are simulated. Logarithms "
        "of their times drift as a random walk of 1 % a sample and have noise of 3 %; one sample in twenty takes "
        "35 to 100 % longer; jobs differ by 30 %. A quiet machine has no such samples. A "
        "false alarm is an interval that leaves out 1 "
        f"where nothing differs. Promised: at most {FALSE_MOST:.0%}, "
        f"and a true difference of 5 % found by {FOUND_LEAST:.0%} of studies with "
        "12 pairs on a quiet machine.",
        "",
        table(head, [_cells(one) for one in rows]),
        "",
        *real.lines,
    ]
    return "\n".join(lines) + "\n", [*rows, real.row]


def _row(kind: Kind, repeats: int, seed: int) -> dict[str, Any]:
    false = [_simulated(kind, seed + number, 1.0) for number in range(repeats)]
    true = [_simulated(kind, seed + repeats + number, TRUTH) for number in range(repeats)]
    alarms = [one.time.differs for found in false for one in found.arms if one.time is not None]
    controls = [one.time.differs for found in false for one in found.controls if one.time is not None]
    ratios = [one.time for found in true for one in found.arms if one.time is not None]
    return {
        "kind": kind.name,
        "studies": repeats,
        "false_part": sum(alarms) / len(alarms),
        "control_part": sum(controls) / len(controls),
        "found_part": sum(one.differs and one.value > 1 for one in ratios) / len(ratios),
        "ratio": statistics.median(one.value for one in ratios),
        "pairs": statistics.mean(one.pairs for one in ratios),
    }


def _cells(row: dict[str, Any]) -> list[str]:
    parts = [f"{100 * row[name]:.1f}" for name in ("false_part", "control_part", "found_part")]
    return [row["kind"], str(row["studies"]), *parts, f"{row['ratio']:.3f}", f"{row['pairs']:.1f}"]


def study_of(kind: Kind, throttle: float, job: JobSettings, variable: str = THROTTLE) -> Study:
    """A study with a baseline and levels that are ``throttle`` times as slow, by a variable of the environment."""
    levels = [Level(str(number), {"environment": {variable: throttle}}) for number in range(1, kind.levels)]
    return Study(
        question="Does anything differ?",
        job=dataclasses.replace(job, jobs=kind.jobs),
        factors=(Factor("setting", (Level("0", {"environment": {variable: 1.0}}), *levels)),),
        baseline={"setting": "0"},
        precision=kind.precision,
        budget_s=86400.0,
        rounds_max=kind.rounds,
        limits=False,
    )


def _simulated(kind: Kind, seed: int, throttle: float) -> StudyResult:
    job = JobSettings(client="command", command="true")
    machine = SimulatedMachine(seed, kind.noise, kind.place)
    return _run(study_of(kind, throttle, job), seed, machine)[0]


def _run(study: Study, seed: int, taker: Taker) -> tuple[StudyResult, float, float]:
    """What it found, the seconds that it took, and those that were spent in its samples."""
    # In memory where that is possible: a disk that is waited for is part of no simulated study.
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="branchline-lab-", dir=memory if memory.is_dir() else None))
    try:
        begin_s = time.monotonic()
        found = StudyRun(study, folder, seed, taker, lambda _: None).run()
        whole_s = time.monotonic() - begin_s
        samples = SampleFile(folder / SAMPLES).read()
        return found, whole_s, sum(one.wall_s for one in samples)
    finally:
        shutil.rmtree(folder)


@dataclass(frozen=True)
class _Real:
    lines: list[str]
    row: dict[str, Any]


def _real(pairs: int, seed: int) -> _Real:
    """Studies of commands that wait, throttled by 5 % or not; and what runs beside the clock of a sample."""
    kind = Kind("on this machine", rounds=pairs)
    waiting = f"import os, time; time.sleep({_SLEEP_S} * float(os.environ['THROTTLE']))"
    command = shlex.join([sys.executable, "-S", "-c", waiting])
    job = JobSettings(client="command", command=command)
    with tempfile.TemporaryDirectory() as folder:
        taker = HereAtOnce(Path(folder))
        false, _, _ = _run(study_of(kind, 1.0, job, "THROTTLE"), seed, taker)
        true, _, _ = _run(study_of(kind, TRUTH, job, "THROTTLE"), seed, taker)
    ratios = [next(one.time for one in found.arms if one.time is not None) for found in (false, true)]
    cost = lab_cost()
    said = [shown_ratio(one) for one in ratios]
    return _Real(
        [
            f"Once really, {pairs} pairs of commands that wait for {_SLEEP_S} s: the same beside itself takes "
            f"{said[0]} its time, one that is throttled by 5 % takes {said[1]} that of the other.",
            "",
            f"What the lab itself does while the clock of a sample runs: {1e3 * cost.beside_s:.2f} ms of CPU time in "
            f"the process of the study for a sample of {cost.sample_s:.0f} s, {cost.part:.2%} of it. Between samples "
            f"{1e3 * cost.between_s:.1f} ms: files made cold, processes started, the sample written to the disk.",
        ],
        {"kind": kind.name, "pairs": pairs, "false": ratios[0].value, "true": ratios[1].value, **vars(cost)},
    )


@dataclass(frozen=True)
class LabCost:
    """Seconds of CPU time that the lab takes while the clock of a sample runs, and those of wall time between two."""

    sample_s: float
    beside_s: float
    between_s: float

    @property
    def part(self) -> float:
        """Of a core, while the sample runs."""
        return self.beside_s / self.sample_s


def lab_cost(sample_s: float = 2.0, samples: int = 3) -> LabCost:
    """Measures both with a job that waits: the CPU time beside it is all the lab's."""
    job = JobSettings(client="command", command=f"sleep {sample_s}")
    beside: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(samples):
            before: list[float] = []
            request = JobRequest.of(number, job, [], Path(folder))
            run_at_once([request], {}, 60.0, lambda before=before: before.append(time.process_time()))
            beside.append(time.process_time() - before[0])
        study = study_of(Kind("cost", rounds=samples, levels=1), 1.0, job)
        _, whole_s, in_samples_s = _run(study, 1, HereAtOnce(Path(folder)))
    return LabCost(sample_s, statistics.median(beside), (whole_s - in_samples_s) / (2 * samples))
