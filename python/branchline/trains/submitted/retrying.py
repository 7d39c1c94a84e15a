"""What tasks that died teach for those that are sent again: which nodes to leave out, and where to save memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from branchline.base.exit_codes import EXIT_INTERRUPTED, EXIT_OK
from branchline.base.limits import CHUNK_DIVISOR_MAX, CHUNK_SHRINK, NODE_FAILURES_MAX
from branchline.jobs.batch.memory import more_memory
from branchline.jobs.fold_tree import FoldNode
from branchline.trains.submitted.submission import JobsRecord, Submission
from branchline.trains.submitted.submission_folder import BatchFolder, write_again
from branchline.trains.submitted.unit_failures import Death

# Tasks that are ended from outside say nothing of their node: by SIGINT, SIGKILL or SIGTERM.
_FROM_OUTSIDE = (EXIT_INTERRUPTED, 137, 143)


@dataclass(frozen=True)
class LessMemory:
    """How a unit is run after its task died of memory: reading holds less, and chunks are ``chunk_divisor`` times
    smaller. 1 leaves the chunks, and so every bit of the result, as they were.
    """

    chunk_divisor: int = 1

    def write(self, folder: BatchFolder, unit: FoldNode) -> None:
        """Writes it for the next task of the unit. Raises StorageError."""
        write_again(folder.less(unit), json.dumps({"chunk_divisor": self.chunk_divisor}).encode())

    @classmethod
    def read(cls, folder: BatchFolder, unit: FoldNode) -> LessMemory | None:
        """That of a unit; None if it may take all."""
        try:
            return cls(int(json.loads(folder.less(unit).read_text())["chunk_divisor"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None


def save_memory(folder: BatchFolder, deaths: Mapping[FoldNode, Death]) -> None:
    """Has units whose tasks died of memory take less: first with the same chunks, then with smaller ones.

    A task that was killed for no reason that is known keeps its chunks: its death may have had another cause.
    """
    for unit, death in deaths.items():
        before = LessMemory.read(folder, unit)
        if before is None and death is not Death.OTHER:
            LessMemory().write(folder, unit)
        elif before is not None and death is Death.MEMORY:
            LessMemory(min(CHUNK_DIVISOR_MAX, before.chunk_divisor * CHUNK_SHRINK)).write(folder, unit)


def memory_to_request(folder: BatchFolder, submission: Submission, deaths: Mapping[FoldNode, Death]) -> str | None:
    """What tasks request that are sent again, by the deaths of those before; None if what the site says is enough."""
    first = submission.site.memory
    if first is None:
        return None
    grown = next((one.memory for one in reversed(JobsRecord.read_all(folder)) if one.memory), None)
    if Death.MEMORY not in deaths.values():
        return grown
    more = more_memory(grown or first, first, submission.site.memory_max)
    return None if more == first else more


def bad_nodes(folder: BatchFolder) -> tuple[str, ...]:
    """The nodes on which tasks failed, and none went well, while some did elsewhere."""
    failed: Counter[str] = Counter()
    good: set[str] = set()
    for path in folder.accounts.glob("*.node"):
        try:
            node = path.read_text().strip()
            code = int(path.with_suffix(".exit").read_text())
        except (OSError, ValueError):
            continue  # It was ended with its script, as by a cancellation.
        if code == EXIT_OK:
            good.add(node)
        elif code not in _FROM_OUTSIDE:
            failed[node] += 1
    # Where nothing goes well, it is not for the nodes.
    if not good:
        return ()
    return tuple(
        sorted(node for node, count in failed.items() if node and count >= NODE_FAILURES_MAX and node not in good)
    )
