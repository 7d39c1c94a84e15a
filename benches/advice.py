"""Checks advice on data sets and jobs with one known flaw, and on data sets and jobs without flaws.

The first advice must name the flaw, and its forecast gain is compared with a measurement.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benches.advice_cases import DATA_CASES, GOOD_CASES, JOB_CASES, DataCase, JobCase
from benches.conditions import machine_lines
from branchline.cli.commands.forecast import measured_proof
from branchline.lab.advice.advise import Advised, advise, gains_of
from branchline.lab.forecast.subject import Subject
from branchline.records.diagnosis.advice import Advice
from branchline.records.diagnosis.job_advice import advise_job, advise_jobs

#: Duration of each paired study.
PROOF_S = 25.0
#: Forecast and measured gain agree if they differ by at most this fraction of the time.
CLOSE = 0.15

CASES: tuple[DataCase | JobCase, ...] = (*DATA_CASES, *JOB_CASES, *GOOD_CASES)

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Found:
    """The result of a case: the first advice, the number of pieces of advice, and the measured relative gain."""

    flaw: str
    wanted: tuple[str, ...]
    first: Advice | None
    pieces: int
    measured: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def is_right(self) -> bool:
        """Whether the first advice names the flaw. For a case without a flaw, the only accepted advice is the hint that
        an RNTuple would be faster, which states that it is not a flaw.
        """
        return (
            self.first is None or (self.pieces == 1 and self.first.what.startswith("no flaw:"))
            if not self.wanted
            else self.first is not None and self.first.id.startswith(self.wanted)
        )

    @property
    def is_close(self) -> bool | None:
        """Whether the measured gain agrees with the forecast; None if it was not measured."""
        if self.measured is None or self.first is None:
            return None
        return abs(self.first.gain.value - self.measured) <= CLOSE


def found_of(case: DataCase | JobCase, folder: Path, *, is_proved: bool) -> Found:
    """Return the advice for a case."""
    if isinstance(case, JobCase):
        records = case.records()
        for job in records:
            job.dataset = records[0].dataset
        said = advise_jobs(records) if len(records) > 1 else advise_job(records[0])
        return Found(case.flaw, case.wanted, said[0] if said else None, len(said))
    subject = case.subject(folder)
    advised = gains_of(advise(subject))
    if not advised:
        return Found(case.flaw, case.wanted, None, 0)
    return (
        _proved(case, subject, advised) if is_proved else Found(case.flaw, case.wanted, advised[0].advice, len(advised))
    )


def _proved(case: DataCase, subject: Subject, advised: list[Advised]) -> Found:
    first = advised[0].advice
    proof = measured_proof(advised[0], subject, (), PROOF_S)
    now_s = proof.before_s or 0.0
    low, high = (None if one is None else one / now_s for one in (proof.low_s, proof.high_s))
    return Found(case.flaw, case.wanted, first, len(advised), (proof.saving_s or 0.0) / now_s, low, high)


def all_found(folder: Path, progress: Progress, *, is_proved: bool = True) -> Iterator[Found]:
    """Run the cases one by one, each in a new process like a command, so that links are measured again."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as processes:
        for number, case in enumerate(CASES):
            progress(f"advice: {case.flaw}")
            # Rates measured while the files are written do not apply to the throttled storage: use another process.
            processes.submit(_made, number, folder).result()
            yield processes.submit(_numbered, number, folder, is_proved).result()


def _made(number: int, folder: Path) -> None:
    case = CASES[number]
    if isinstance(case, DataCase):
        case.make(folder)


def _numbered(number: int, folder: Path, is_proved: bool) -> Found:
    return found_of(CASES[number], folder, is_proved=is_proved)


def advice_page(cache: Path, progress: Progress, *, is_proved: bool) -> tuple[str, list[dict[str, Any]]]:
    """Return the page with a table of all cases and a summary, and the rows."""
    found = list(all_found(cache / "advice", progress, is_proved=is_proved))
    flaws, good = [one for one in found if one.wanted], [one for one in found if not one.wanted]
    proved = [one for one in flaws if one.is_close is not None]
    lines = [
        "# Advice on data sets and jobs with one known flaw",
        "",
        *machine_lines(1),
        "",
        "Gains are fractions of the current reading time: the forecast gain with its 90 % interval, the measured gain",
        "with the 95 % interval of its pairs. Data sets are real files; distant storage is emulated by throttling.",
        "Jobs are job records, and their gain is not measured.",
        "",
        "| flaw | first advice | forecast gain | measured gain | pieces |",
        "|---|---|---|---|---|",
    ]
    lines += [_row(one) for one in found]
    lines += [
        "",
        f"The flaw is the first advice in {sum(one.is_right for one in flaws)} of {len(flaws)} cases. "
        f"No advice is given in {sum(one.is_right for one in good)} of {len(good)} cases without a flaw. "
        f"{sum(bool(one.is_close) for one in proved)} of {len(proved)} measured gains differ from the forecast by at "
        f"most {CLOSE:.0%} of the time.",
        "",
    ]
    return "\n".join(lines), [asdict(one) for one in found]


def _row(one: Found) -> str:
    said, gain = ("-", "-") if one.first is None else (f"`{one.first.id}`: {one.first.change}", _gain(one.first))
    said = said.replace("|", "\\|")
    for word in said.split():
        # Folders of this machine are irrelevant.
        if "/" in word and "." in word:
            said = said.replace(word, Path(word.strip("'")).name)
    measured = "-" if one.measured is None else f"{100 * one.measured:.0f} %"
    if one.low is not None and one.high is not None:
        measured += f" ({100 * one.low:.0f} to {100 * one.high:.0f} %)"
    mark = "" if one.is_right else " (wrong)"
    return f"| {one.flaw} | {said}{mark} | {gain} | {measured} | {one.pieces} |"


def _gain(advice: Advice) -> str:
    gain = advice.gain
    return f"{100 * gain.value:.0f} % ({100 * gain.low:.0f} to {100 * gain.high:.0f} %)"
