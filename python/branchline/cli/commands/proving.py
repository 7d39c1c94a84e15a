"""`branchline advise --prove`: reads, or runs a job, before and after a change, in pairs, beside what was forecast."""

from __future__ import annotations

import shlex
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from branchline.base.limits import PROOF_S
from branchline.base.processes import own_python
from branchline.cli.printing import log, print_out
from branchline.errors import OptionError

if TYPE_CHECKING:
    from branchline.lab.advice.advise import Advised
    from branchline.lab.comparison.command_samples import ArmRun, Command
    from branchline.lab.forecast.checked import Checked
    from branchline.lab.forecast.subject import Subject
    from branchline.reading.access import Access
    from branchline.reading.datasets.data_file import DataFile


@dataclass(frozen=True)
class ReadingProcess:
    """A reading that is compared, each time in a new process. Its time is that of reading alone: what starting Python
    takes differs by more on a busy machine than what a quick reading takes.
    """

    name: str
    request: Path
    done: Path
    output: Path | None = None

    @property
    def whole(self) -> list[str]:
        """The words of its command."""
        return [*own_python(), "-m", "branchline.lab.advice.timed_read", str(self.request)]

    def prepare(self, wait_s: float) -> None:
        """Nothing is to be done."""

    def taken(self, round_number: int, position: int, cached_bytes: int | None, wait_s: float) -> ArmRun:
        """Reads once."""
        from branchline.lab.advice.timed_read import ReadingDone
        from branchline.lab.comparison.command_samples import Command

        self.done.unlink(missing_ok=True)
        sample = Command(self.name, tuple(self.whole)).taken(round_number, position, cached_bytes, wait_s)
        if sample.code:
            return sample
        done = ReadingDone.of(self.done)
        return replace(sample, wall_s=done.wall_s, events=done.entries)


def prove(advised: Advised, subject: Subject, written: Sequence[DataFile], budget_s: float = PROOF_S) -> None:
    """Compares the work as it is with that as the advice has it, prints forecast and measurement, and keeps both.

    ``written`` are the new files, if there are any yet; both are read in turns for ``budget_s`` seconds. Raises
    OptionError for what cannot be run again.
    """
    from branchline.base.quantities import duration
    from branchline.lab.forecast.checked import keep_checked, load_checked

    found = measured_proof(advised, subject, written, budget_s)
    saved_s = max(0.0, found.saving_s or 0.0)
    print_out(f"{found.advice}: forecast to save {duration(found.saving_said_s or 0.0)}, measured {duration(saved_s)}")
    if found.low_s is not None and found.high_s is not None:
        print_out(f"   95 % interval of {found.pairs} pairs: {found.low_s:.3g} to {found.high_s:.3g} s")
    print_out(f"   kept in {keep_checked([found])}: branchline forecast check shows all")
    error = load_checked().here().savings_error()
    if error is not None:
        print_out(f"   what advice has saved here differed from its forecasts by {error:.0%} (median)")


def measured_proof(
    advised: Advised, subject: Subject, written: Sequence[DataFile], budget_s: float = PROOF_S
) -> Checked:
    """The paired study: both in turns, for about ``budget_s`` seconds. Of readings only the reading is compared, of
    jobs the whole command.
    """
    from branchline.lab.comparison.compare import FIRST, ComparisonPlan, compare
    from branchline.lab.forecast.checked import Checked
    from branchline.lab.forecast.machine import machine_name, now_text

    advice, gain = advised.advice, advised.advice.gain
    with tempfile.TemporaryDirectory(prefix="branchline-proof-") as name:
        folder = Path(name)
        before, after = (
            _readings(advised, subject, written, folder)
            if subject.job is None
            else _job_commands(advised, subject.job.command, folder)
        )
        found = compare(ComparisonPlan(before, after, precision=0.03, budget_s=budget_s, seed=1), log)
    # The machine is now as busy as it is: the part is what was forecast.
    now_s = statistics.median(one.wall_s for one in found.samples if one.arm == FIRST)
    low, high = (None if part is None else now_s * (1 - part) for part in (found.wall.high, found.wall.low))
    part = 1 - found.wall.value
    return Checked(
        about=f"proof of {advice.id}: {subject.name}",
        said_s=now_s * (1 - gain.value),
        measured_s=now_s * found.wall.value,
        machine=machine_name(),
        measured_at=now_text(),
        is_held=gain.low <= part <= gain.high,
        advice=advice.id,
        before_s=now_s,
        low_s=low,
        high_s=high,
        pairs=found.wall.pairs,
    )


def _readings(
    advised: Advised, subject: Subject, written: Sequence[DataFile], folder: Path
) -> tuple[ReadingProcess, ReadingProcess]:
    """Two programs that read the files."""
    from branchline.lab.advice.changes import write_changed

    change = advised.change
    if change.writes and not written:
        written = write_changed(change, subject.files, folder / "after", is_verified=True)
    after = change.access or subject.access
    return (
        _reading("A", folder, subject, subject.files, subject.access),
        _reading("B", folder, subject, written or subject.files, after),
    )


def _reading(name: str, folder: Path, subject: Subject, files: Sequence[DataFile], access: Access) -> ReadingProcess:
    from branchline.lab.advice.timed_read import ReadingRequest

    path, done = folder / f"{name}.json", folder / f"{name}-done.json"
    request = ReadingRequest.of(files, subject.branches, access, subject.threads, done)
    request.write(path)
    return ReadingProcess(name, path, done)


def _job_commands(advised: Advised, command: str, folder: Path) -> tuple[Command, Command]:
    """The command of a job, without and with an option."""
    from branchline.lab.comparison.command_samples import Command

    option = advised.change.option
    if not option.startswith("--") or "--cache-dir" in option or not command.startswith("branchline run"):
        hint = "run the job with the change, and compare with: branchline compare A B"
        raise OptionError(f"{advised.advice.id} is no option with which the job can be run again", hint=hint)
    module = shlex.join([*own_python(), "-m", "branchline"])
    again = module + command.removeprefix("branchline")
    out = "--force --no-reuse --output"
    # Whatever the command has for an option, the last one counts.
    return (
        Command.of("A", f"{again} {out} {shlex.quote(str(folder / 'before'))}"),
        Command.of("B", f"{again} {option} {out} {shlex.quote(str(folder / 'after'))}"),
    )
