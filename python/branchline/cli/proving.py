"""`branchline advise --prove`: reads before and after a change, in pairs, beside what was forecast."""

from __future__ import annotations

import json
import shlex
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from branchline.cli.printing import log, print_out
from branchline.errors import OptionError
from branchline.limits import PROOF_S

if TYPE_CHECKING:
    from branchline.dataset import DataFile
    from branchline.forecast.advising import Advice
    from branchline.forecast.subject import Subject


def prove(advice: Advice, subject: Subject, written: Sequence[DataFile]) -> None:
    """Compares reading as it is with reading as the advice has it, and prints forecast and measurement.

    What starting the processes takes is in both, so that the seconds that are saved are compared, not the part.
    """
    from branchline.forecast.kept import Proof
    from branchline.lab.comparing import FIRST, Plan, compare
    from branchline.lab.samples import Command
    from branchline.quantities import duration

    if subject.job is not None:
        hint = "run the job with the change, and compare with: branchline forecast-check"
        raise OptionError("--prove reads files, and does not run the wagons of a job again", hint=hint)
    mode = advice.forecast.conditions.mode or subject.access.mode
    with tempfile.TemporaryDirectory(prefix="branchline-proof-") as folder:
        before = _command(Path(folder) / "before.json", subject, subject.files, subject.access.mode)
        after = _command(Path(folder) / "after.json", subject, written or subject.files, mode)
        plan = Plan(Command.of("A", before), Command.of("B", after), precision=0.03, budget_s=PROOF_S, seed=1)
        found = compare(plan, log)
    first_s = statistics.median(one.wall_s for one in found.samples if one.arm == FIRST)
    said_s = advice.forecast.now.wall_s.value * advice.gain.value
    low, high = (None if part is None else first_s * (1 - part) for part in (found.wall.high, found.wall.low))
    proof = Proof(advice.id, said_s, first_s * (1 - found.wall.value), low, high, found.wall.pairs)
    print_out(f"{advice.id}: forecast to save {duration(proof.said_s)}, measured {duration(proof.measured_s)}")
    if low is not None and high is not None:
        print_out(f"   95 % interval of {proof.pairs} pairs: {low:.3g} to {high:.3g} s")
    if written:
        path = Path(written[0].path).parent / "proof.json"
        path.write_text(json.dumps(proof.as_json(), indent=1), encoding="utf-8")
        print_out(f"   kept in {path}")


def _command(path: Path, subject: Subject, files: Sequence[DataFile], mode: str) -> str:
    from branchline.forecast.reading import ReadingRequest

    request = ReadingRequest(
        files=[one.opens for one in files],
        trees=[one.tree or "" for one in files],
        branches=list(subject.branches or ()),
        mode=mode,
        throttle=subject.access.throttle or "",
        threads=subject.threads,
    )
    request.write(path)
    return shlex.join([sys.executable, "-m", "branchline.forecast.reading", str(path)])
