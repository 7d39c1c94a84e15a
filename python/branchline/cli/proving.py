"""`branchline advise --prove`: reads, or runs a job, before and after a change, in pairs, beside what was forecast."""

from __future__ import annotations

import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from branchline.cli.printing import log, print_out
from branchline.errors import OptionError
from branchline.limits import PROOF_S

if TYPE_CHECKING:
    from branchline.access import Access
    from branchline.dataset import DataFile
    from branchline.forecast.advising import Advised
    from branchline.forecast.checked import Checked
    from branchline.forecast.subject import Subject


#: A process that reads nothing is started so often.
STARTS = 5


def prove(advised: Advised, subject: Subject, written: Sequence[DataFile], budget_s: float = PROOF_S) -> None:
    """Compares the work as it is with that as the advice has it, prints forecast and measurement, and keeps both.

    ``written`` are the new files, if there are any yet; both are read in turns for ``budget_s`` seconds. Raises
    OptionError for what cannot be run again.
    """
    from branchline.forecast.checked import keep_checked, load_checked
    from branchline.quantities import duration

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
    """The paired study: both commands in turns, for about ``budget_s`` seconds. What starting a process that reads
    takes is in both, is measured alone, and is no part of what the gain is a part of.
    """
    from branchline.forecast.checked import Checked
    from branchline.forecast.machine import machine_name, now_text
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
    saved_s, gain = first_s * (1 - found.wall.value), advice.gain
    part = saved_s / now_s
    return Checked(
        about=f"proof of {advice.id}: {subject.name}",
        said_s=now_s * (1 - gain.value),
        measured_s=now_s - saved_s,
        machine=machine_name(),
        measured_at=now_text(),
        is_held=gain.low <= part <= gain.high,
        advice=advice.id,
        before_s=now_s,
        low_s=low,
        high_s=high,
        pairs=found.wall.pairs,
    )


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
