"""Short real studies of jobs whose true ratio is known, on a quiet machine and beside other programs."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benches.lab import FALSE_MOST
from benches.lab_storages import exact_interval
from benches.tables import table
from branchline.lab.sampling.sampler import HereAtOnce
from branchline.lab.studies.study_run import StudyRun
from branchline.lab.studies.verdict import answer
from branchline.lab.study import Factor, JobSettings, Level, Study

#: The true ratios of the time of an arm to that of its baseline.
RATIOS = (0.75, 1.0, 1.33)
#: Goals: the maximum fraction of differences that are found where there is none, and the minimum fraction that are
#: found on a quiet machine.
FOUND_LEAST = 0.7
#: Largest number of other programs, each of which uses a processor.
OTHERS_MAX = 3
#: Pairs in each study: one more than an interval needs.
PAIRS = 7
#: Time in seconds that the baseline's job takes about.
JOB_S = 0.6
#: Jobs whose time is proportional to their argument: one decompresses the same bytes again and again, the other waits,
#: as for a slow storage.
PROGRAMS = {
    "computes": (
        "import sys, zlib; part = zlib.compress(bytes(range(256)) * 4000)\n"
        "for _ in range(int(sys.argv[1])): zlib.decompress(part)"
    ),
    "waits": "import sys, time; time.sleep(int(sys.argv[1]) / 1000)",
}


@dataclass(frozen=True)
class Outcome:
    """A study: what its jobs do, the true ratio, the number of other programs, and the ratio that it found.

    ``ratio`` is None if the study withheld it. ``basis`` is what was compared: wall times, CPU times or nothing.
    """

    program: str
    truth: float
    others: int
    ratio: float | None
    differs: bool
    basis: str
    sentence: str

    @property
    def has_wrong_sign(self) -> bool:
        """Whether the study found a difference in the wrong direction."""
        if self.truth == 1.0 or not self.differs or self.ratio is None:
            return False
        return (self.ratio < 1) != (self.truth < 1)

    @property
    def is_false(self) -> bool:
        """Whether the study found a difference where there is none."""
        return self.truth == 1.0 and self.differs

    @property
    def is_found(self) -> bool:
        """Whether the study found the difference that there is."""
        return self.truth != 1.0 and self.differs and not self.has_wrong_sign


def lab_ratios_page(
    cache: Path, repeats: int, seed: int, say: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Return the page and a row for each study. Half of the studies run beside one to three other programs.

    An interrupted run resumes after its last study if it has the same seed.
    """
    path = cache / f"lab-ratios-{seed}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    found = [Outcome(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()][:repeats]
    drawn, sizes = random.Random(seed), {"computes": _turns(), "waits": round(1000 * JOB_S)}
    for number in range(repeats):
        truth = RATIOS[number // 2 % len(RATIOS)]
        others = drawn.randint(1, OTHERS_MAX) if number % 2 else 0
        if number < len(found):
            continue
        if number % 10 == 0:
            say(f"lab-ratios: study {number + 1} of {repeats}")
        program = list(PROGRAMS)[number // (2 * len(RATIOS)) % len(PROGRAMS)]
        with _other_programs(others):
            found.append(_studied(program, truth, others, sizes[program], seed + number))
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(vars(found[-1])) + "\n")
    path.unlink()
    return page(found, seed), [vars(one) for one in found]


def page(found: list[Outcome], seed: int) -> str:
    """Return the results in Markdown."""
    head = ["machine", "job", "true ratio", "studies", "found", "wrong sign", "withheld", "CPU times compared"]
    rows = []
    for is_loaded, program, truth in product((False, True), PROGRAMS, RATIOS):
        own = [one for one in found if (bool(one.others), one.program, one.truth) == (is_loaded, program, truth)]
        rows.append(
            [
                "with other programs" if is_loaded else "quiet",
                program,
                f"{truth:g}",
                str(len(own)),
                str(sum(one.differs for one in own)),
                str(sum(one.has_wrong_sign for one in own)),
                str(sum(one.ratio is None for one in own)),
                str(sum(one.basis == "CPU time" for one in own)),
            ]
        )
    same = [one for one in found if one.truth == 1.0]
    alarms = sum(one.is_false for one in same)
    low, high = exact_interval(alarms, len(same)) if same else (0.0, 1.0)
    quiet = [one for one in found if not one.others and one.truth != 1.0]
    detected = sum(one.is_found for one in quiet)
    wrong = sum(one.has_wrong_sign for one in found)
    lines = [
        "# Short studies with known ratios",
        "",
        f"Each study compares two jobs in {PAIRS} pairs. Both decompress the same bytes, or wait, one of them longer. "
        f"In half of the studies one to {OTHERS_MAX} other programs use a processor each. *Found* counts intervals "
        f"that exclude 1. A withheld ratio counts as not found. The seeds of the sample orders start at {seed}.",
        "",
        table(head, rows),
        "",
        f"- Wrong sign: {wrong} of {len(found)} (goal: 0).",
        f"- False positives: {alarms} of {len(same)}, 95 % interval {low:.0%} to {high:.0%} (goal: at most "
        f"{FALSE_MOST:.0%}).",
        f"- Found on the quiet machine: {detected} of {len(quiet)} (goal: at least {FOUND_LEAST:.0%}).",
    ]
    return "\n".join(lines) + "\n"


def study_of(program: str, truth: float, work: int) -> Study:
    """Return a study of ``work`` and ``truth`` times as much work, which ends after PAIRS pairs."""

    def command(times: float) -> str:
        return f'{sys.executable} -I -S -c "{PROGRAMS[program]}" {round(work * times)}'

    levels = (Level("same", {"command": command(1.0)}), Level("other", {"command": command(truth)}))
    return Study(
        question=f"Does a job that {program} {truth:g} times as long take {truth:g} times the time?",
        job=JobSettings(client="command", command=command(1.0)),
        factors=(Factor("work", levels),),
        baseline={"work": "same"},
        precision=0.001,
        budget_s=86400.0,
        rounds_max=PAIRS,
        limits=False,
    )


def _studied(program: str, truth: float, others: int, work: int, seed: int) -> Outcome:
    folder = Path(tempfile.mkdtemp(prefix="branchline-lab-"))
    try:
        taker = HereAtOnce(Path(tempfile.gettempdir()))
        result = StudyRun(study_of(program, truth, work), folder, seed, taker, lambda _: None).run()
    finally:
        shutil.rmtree(folder)
    [arm] = [one for one in result.arms if not one.is_baseline]
    ratio = arm.ratio
    return Outcome(
        program, truth, others, ratio and ratio.value, bool(ratio and ratio.differs), arm.basis, answer(result)
    )


def _turns() -> int:
    """Return how often the bytes are decompressed in JOB_S seconds of CPU time."""
    program = f"{PROGRAMS['computes']}\nimport resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_utime)"
    tried = 200
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(tried)], capture_output=True, text=True, check=True
    )
    return max(1, round(tried * JOB_S / float(done.stdout)))


@contextmanager
def _other_programs(count: int) -> Iterator[None]:
    """Run this many programs that use a processor each."""
    words = [sys.executable, "-I", "-S", "-c", "while True: pass"]
    programs = [subprocess.Popen(words) for _ in range(count)]
    try:
        yield
    finally:
        for one in programs:
            one.kill()
            one.wait()
