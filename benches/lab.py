"""Measures the false positive rate and the power of simulated studies, the overhead of the lab, and a real study on
this machine.
"""

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

#: Goals: maximum false positive rate, minimum power for a difference of 5 %, and maximum overhead of the lab.
FALSE_MOST, FOUND_LEAST, COST_MOST = 0.06, 0.70, 0.01
TRUTH = 1.05
_PAIRS = 12
#: Duration of a job in a real study, long compared with the clock resolution. Jobs wait, so that load matters less.
_SLEEP_S = 0.5


@dataclass(frozen=True)
class Kind:
    """A kind of study: the number of jobs of each arm, whether they are jobs of a farm, and the number of levels."""

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
    """Return the page, and a row for each kind of study."""
    rows = []
    for kind in KINDS:
        say(f"lab: {kind.name}, {repeats} simulated studies of each")
        rows.append(_row(kind, repeats, seed))
    say("lab: a real study on this machine")
    real = _real(pairs, seed)
    head = [
        "kind of study",
        "studies",
        "false positives %",
        "false positives of the control %",
        "power at 5 % (%)",
        "measured ratio",
        "pairs",
    ]
    lines = [
        "# Reliability of studies",
        "",
        f"{repeats} simulated studies of each kind with seed {seed}; the same seed gives the same figures. Only the "
        "jobs are simulated: arms, rounds, their order, estimates and the stopping rule are the real code. Logarithms "
        "of job times drift as a random walk of 1 % per sample and have noise of 3 %. One sample in twenty takes 35 to "
        "100 % longer, except on a quiet machine. Jobs differ by 30 %.",
        "",
        "A false positive is an interval that excludes 1 although the arms do not differ. Goals: at most "
        f"{FALSE_MOST:.0%} false positives, and a power of {FOUND_LEAST:.0%} for a difference of 5 % with 12 pairs on "
        "a quiet machine.",
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
    """Return a study with a baseline and levels that are ``throttle`` times slower, set by an environment variable."""
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
    """Return the result, its total seconds, and the seconds spent in samples."""
    # Use memory if possible: waiting for a disk would distort simulated studies.
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
    """Run studies of commands that wait, throttled by 5 % or not, and measure the overhead of the lab."""
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
            f"A real study of {pairs} pairs of commands that wait for {_SLEEP_S} s: compared with itself, the command "
            f"takes {said[0]} as long; throttled by 5 %, it takes {said[1]} as long.",
            "",
            f"Overhead of the lab: {1e3 * cost.beside_s:.2f} ms of CPU time in the process of the study during a "
            f"sample of {cost.sample_s:.0f} s, or {cost.part:.2%}. Between samples it takes "
            f"{1e3 * cost.between_s:.1f} ms to evict files from the page cache, start processes, and write the sample "
            "to the disk.",
        ],
        {"kind": kind.name, "pairs": pairs, "false": ratios[0].value, "true": ratios[1].value, **vars(cost)},
    )


@dataclass(frozen=True)
class LabCost:
    """CPU seconds of the lab during a sample, and wall seconds between two samples."""

    sample_s: float
    beside_s: float
    between_s: float

    @property
    def part(self) -> float:
        """The fraction of a core used during a sample."""
        return self.beside_s / self.sample_s


def lab_cost(sample_s: float = 2.0, samples: int = 3) -> LabCost:
    """Measure the costs with jobs that only wait, so that all CPU time of this process is caused by the lab."""
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
