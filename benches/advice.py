"""Is the flaw the first advice, is nothing said where nothing is wrong, and is the gain as it was forecast?"""

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
from branchline.lab.advice.advise import Advised, advise
from branchline.lab.forecast.subject import Subject
from branchline.records.diagnosis.advice import Advice
from branchline.records.diagnosis.job_advice import advise_job, advise_jobs

#: Seconds for each paired study.
PROOF_S = 25.0
#: Gains that differ by less than this part of the time are as forecast.
CLOSE = 0.15

CASES: tuple[DataCase | JobCase, ...] = (*DATA_CASES, *JOB_CASES, *GOOD_CASES)

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Found:
    """A case: what was said first, how many pieces there were, and the measured part of the time that is saved."""

    flaw: str
    wanted: tuple[str, ...]
    first: Advice | None
    pieces: int
    measured: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def is_right(self) -> bool:
        """Whether the flaw is the first advice; whether nothing is said where there is none, or only that an RNTuple
        would be read faster, which says itself that it is no flaw.
        """
        return (
            self.first is None or (self.pieces == 1 and self.first.what.startswith("no flaw:"))
            if not self.wanted
            else self.first is not None and self.first.id.startswith(self.wanted)
        )

    @property
    def is_close(self) -> bool | None:
        """Whether the gain is as forecast: within a part of the time now; None if it was not measured."""
        if self.measured is None or self.first is None:
            return None
        return abs(self.first.gain.value - self.measured) <= CLOSE


def found_of(case: DataCase | JobCase, folder: Path, *, is_proved: bool) -> Found:
    """The advice for a case."""
    if isinstance(case, JobCase):
        records = case.records()
        for job in records:
            job.dataset = records[0].dataset
        said = advise_jobs(records) if len(records) > 1 else advise_job(records[0])
        return Found(case.flaw, case.wanted, said[0] if said else None, len(said))
    subject = case.subject(folder)
    advised = advise(subject)
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
    """All cases, one after the other, each in a process of its own as a command is: links are measured anew."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as processes:
        for number, case in enumerate(CASES):
            progress(f"advice: {case.flaw}")
            # What making its files measures of the disk is no measurement of a far storage: it ends with its process.
            processes.submit(_made, number, folder).result()
            yield processes.submit(_numbered, number, folder, is_proved).result()


def _made(number: int, folder: Path) -> None:
    case = CASES[number]
    if isinstance(case, DataCase):
        case.make(folder)


def _numbered(number: int, folder: Path, is_proved: bool) -> Found:
    return found_of(CASES[number], folder, is_proved=is_proved)


def advice_page(cache: Path, progress: Progress, *, is_proved: bool) -> tuple[str, list[dict[str, Any]]]:
    """The table, with how often the flaw was found and the gain as forecast; and its rows."""
    found = list(all_found(cache / "advice", progress, is_proved=is_proved))
    flaws, good = [one for one in found if one.wanted], [one for one in found if not one.wanted]
    proved = [one for one in flaws if one.is_close is not None]
    lines = [
        "# Advice on data sets and jobs with one flaw, put in on purpose",
        "",
        *machine_lines(1),
        "",
        "Gains are parts of the time that reading takes now, the forecast one with its 90 % interval, the measured one",
        "with the 95 % interval of its pairs. Data sets are real files, far storage is `--throttle`. Jobs are records,",
        "as they leave them, and their gain is not measured.",
        "",
        "| flaw | first advice | forecast gain | measured gain | pieces |",
        "|---|---|---|---|---|",
    ]
    lines += [_row(one) for one in found]
    lines += [
        "",
        f"The flaw is the first advice in {sum(one.is_right for one in flaws)} of {len(flaws)} cases; nothing is said "
        f"in {sum(one.is_right for one in good)} of {len(good)} cases without a flaw. Of {len(proved)} measured gains "
        f"{sum(bool(one.is_close) for one in proved)} are within {CLOSE:.0%} of the time of what was forecast.",
        "",
    ]
    return "\n".join(lines), [asdict(one) for one in found]


def _row(one: Found) -> str:
    said, gain = ("-", "-") if one.first is None else (f"`{one.first.id}`: {one.first.change}", _gain(one.first))
    said = said.replace("|", "\\|")
    for word in said.split():
        # Folders of the machine say nothing.
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
