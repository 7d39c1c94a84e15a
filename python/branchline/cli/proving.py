"""`branchline advise --prove`: reads, or runs a job, before and after a change, in pairs, beside what was forecast."""

from __future__ import annotations

import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from branchline.cli.printing import log, print_out
from branchline.errors import OptionError
from branchline.limits import PROOF_S

if TYPE_CHECKING:
    from branchline.access import Access
    from branchline.dataset import DataFile
    from branchline.forecast.advising import Advised
    from branchline.forecast.kept import Proof
    from branchline.forecast.subject import Subject


#: A process that reads nothing is started so often.
STARTS = 5


def prove(advised: Advised, subject: Subject, written: Sequence[DataFile]) -> None:
    """Compares the work as it is with that as the advice has it, prints forecast and measurement, and keeps both.

    ``written`` are the new files, if there are any yet. Raises OptionError for what cannot be run again.
    """
    from branchline.forecast.calibration import remember
    from branchline.forecast.proofs import errors_words, keep_proof, proofs_folder, proofs_in
    from branchline.quantities import duration

    measured = measured_proof(advised, subject, written)
    proof, now_s = measured.proof, measured.now_s
    remember(now_s - proof.said_s, now_s - proof.measured_s, f"proof of {proof.advice}")
    print_out(
        f"{proof.advice}: forecast to save {duration(proof.said_s)}, measured {duration(max(0.0, proof.measured_s))}"
    )
    if proof.low_s is not None and proof.high_s is not None:
        print_out(f"   95 % interval of {proof.pairs} pairs: {proof.low_s:.3g} to {proof.high_s:.3g} s")
    print_out(f"   kept in {keep_proof(proof)}")
    errors = errors_words(proofs_in(proofs_folder()))
    if errors:
        print_out(f"   {errors}")


@dataclass(frozen=True)
class Measured:
    """A proof, and the seconds of the work as it is, without those that starting a process takes."""

    proof: Proof
    now_s: float


def measured_proof(
    advised: Advised, subject: Subject, written: Sequence[DataFile], budget_s: float = PROOF_S
) -> Measured:
    """The paired study: both commands in turns, for about ``budget_s`` seconds. What starting a process that reads
    takes is in both, is measured alone, and is no part of what the gain is a part of.
    """
    from branchline.forecast.kept import Proof
    from branchline.lab.comparing import FIRST, Plan, compare
    from branchline.lab.samples import Command

    start_s = 0.0
    advice = advised.advice
    with tempfile.TemporaryDirectory(prefix="branchline-proof-") as name:
        folder = Path(name)
        before, after = (
            _commands(advised, subject, written, folder)
            if subject.job is None
            else _job_commands(advised, subject.job.command, folder)
        )
        plan = Plan(Command.of("A", before), Command.of("B", after), precision=0.03, budget_s=budget_s, seed=1)
        if subject.job is None:
            start_s = _start_s(folder)
        found = compare(plan, log)
    first_s = statistics.median(one.wall_s for one in found.samples if one.arm == FIRST)
    low, high = (None if part is None else first_s * (1 - part) for part in (found.wall.high, found.wall.low))
    # The machine is now as busy as it is: the part is what was forecast.
    now_s = max(1e-9, first_s - start_s)
    saved_s = first_s * (1 - found.wall.value)
    return Measured(Proof(advice.id, now_s * advice.gain.value, saved_s, low, high, found.wall.pairs), now_s)


def _start_s(folder: Path) -> float:
    """The median time of a process that reads nothing."""
    from branchline.forecast.reading import ReadingRequest

    path = folder / "nothing.json"
    ReadingRequest([], []).write(path)
    times = []
    for _ in range(STARTS):
        begin_s = time.monotonic()
        subprocess.run([sys.executable, "-m", "branchline.forecast.reading", str(path)], check=True)  # noqa: S603 - ours
        times.append(time.monotonic() - begin_s)
    return statistics.median(times)


def _commands(advised: Advised, subject: Subject, written: Sequence[DataFile], folder: Path) -> tuple[str, str]:
    """Two programs that read the files."""
    from branchline.forecast.changing import write_changed

    change = advised.change
    if change.writes and not written:
        written = write_changed(change, subject.files, folder / "after", is_verified=True)
    after = change.access or subject.access
    return (
        _reading(folder / "before.json", subject, subject.files, subject.access),
        _reading(folder / "after.json", subject, written or subject.files, after),
    )


def _reading(path: Path, subject: Subject, files: Sequence[DataFile], access: Access) -> str:
    from branchline.access import Access
    from branchline.forecast.reading import ReadingRequest
    from branchline.sensors.record import AccessRecord

    chosen = AccessRecord.of(access)
    request = ReadingRequest(
        files=[one.opens for one in files],
        trees=[one.tree or "" for one in files],
        branches=list(subject.branches or ()),
        mode=access.mode,
        throttle=access.throttle or "",
        threads=subject.threads,
        read_ahead=chosen.read_ahead,
        tree_cache=chosen.tree_cache if access.tree_cache != Access().tree_cache else None,
        cache_dir=access.cache_dir,
    )
    request.write(path)
    return shlex.join([sys.executable, "-m", "branchline.forecast.reading", str(path)])


def _job_commands(advised: Advised, command: str, folder: Path) -> tuple[str, str]:
    """The command of a job, without and with an option."""
    option = advised.change.option
    if not option.startswith("--") or "--cache-dir" in option or not command.startswith("branchline run"):
        hint = "run the job with the change, and compare with: branchline compare A B"
        raise OptionError(f"{advised.advice.id} is no option with which the job can be run again", hint=hint)
    module = shlex.join([sys.executable, "-m", "branchline"])
    again = module + command.removeprefix("branchline")
    out = "--force --no-reuse --output"
    # Whatever the command has for an option, the last one counts.
    return (
        f"{again} {out} {shlex.quote(str(folder / 'before'))}",
        f"{again} {option} {out} {shlex.quote(str(folder / 'after'))}",
    )
