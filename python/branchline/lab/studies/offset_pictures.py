"""Offset against time: how the first job of an arm goes through its files, from its trace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from branchline.base.quantities import counted
from branchline.errors import BranchlineError
from branchline.lab.sampling.traces import TRACED_CLIENTS, Reads, reads_of, trace_path
from branchline.lab.studies.study_pictures import Picture, Span, spans
from branchline.lab.study import Study

#: More arms would make the page longer than people look.
ARMS_MAX = 8
#: More lie on each other.
READS_MAX = 3000


def offset_pictures(study: Study, folder: Path) -> list[Picture]:
    """A picture for each of the first arms that have a trace."""
    made: list[Picture] = []
    for arm in study.arms():
        path = trace_path(folder, arm.name, 0)
        try:
            reads = reads_of(path) if path.exists() else []
        except BranchlineError:
            continue  # It is left of a killed job.
        if reads and len(made) < ARMS_MAX:
            made.append(_picture(arm.name, reads))
    return made


def offset_remark(study: Study, folder: Path) -> str:
    """How many of the arms that could have a picture have one, if not all."""
    arms = [one.name for one in study.arms() if one.settings.client in TRACED_CLIENTS]
    shown = min(ARMS_MAX, sum(trace_path(folder, one, 0).exists() for one in arms))
    if shown == len(arms):
        return ""
    return f"{shown} of {counted(len(arms), 'arm')} are shown: those that there was time to record, up to {ARMS_MAX}."


def _picture(arm: str, reads: Sequence[Reads]) -> Picture:
    """Files stand above each other, in the order in which they were first read."""
    found, borders, begin = [], [], 0
    for one in reads:
        for second, offset, size in zip(one.seconds.tolist(), one.offsets.tolist(), one.sizes.tolist(), strict=True):
            found.append(Span(second, (begin + offset) / 1e6, (begin + offset + size) / 1e6))
        begin += int((one.offsets + one.sizes).max())
        borders.append(begin / 1e6)
    step = -(-len(found) // READS_MAX)
    some = f", of {step} one is drawn" if step > 1 else ""
    unit = f"MB; {counted(len(found), 'read')}{some}; lines part {counted(len(reads), 'file')}"
    return spans(f"Offset against time: {arm}", unit, found[::step], borders, "seconds since the first read")
