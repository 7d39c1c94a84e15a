"""The state of a train in words, for a terminal and a notebook."""

from __future__ import annotations

from branchline.base.limits import MB
from branchline.base.quantities import count
from branchline.records.sensors.status import TrainStatus

#: Of storage elements in a line.
ELEMENTS_SHOWN_MAX = 4


def part_done(now: TrainStatus) -> float:
    """The part of a train that is done, from 0 to 1: of its bytes, else of its sub-jobs."""
    if now.fraction_done is not None:
        return now.fraction_done
    return now.done / now.subjobs if now.subjobs else 0.0


def progress_text(now: TrainStatus) -> str:
    """The state of a train in a few words."""
    seconds = max(now.seconds, 1e-9)
    words = [f"{now.done}/{now.subjobs} sub-jobs"] if now.subjobs else []
    words.append(f"{count(now.events / seconds)} events/s")
    rates = [f"{one.bytes_read / MB / seconds:.1f}" for one in now.elements]
    by_element = f" ({' + '.join(rates[:ELEMENTS_SHOWN_MAX])})" if len(rates) > 1 else ""
    words.append(f"{now.bytes_read / MB / seconds:.1f} MB/s read{by_element}")
    words += [f"{now.failed} failed"] if now.failed else []
    words += [f"{now.workers_lost} workers lost"] if now.workers_lost else []
    words += ["merging"] if now.phase == "merge" else ["writing"] if now.phase == "write" else []
    return "  ".join(words)
