"""Something that may help a job or the reading of files, and the words that all proposals share."""

from __future__ import annotations

from dataclasses import dataclass

from branchline.base.quantities import size
from branchline.lab.advice.changes import AdvisedChange
from branchline.lab.forecast.subject import Subject
from branchline.records.diagnosis.ideas import inputs_words, tree_words

#: From this round trip on files are far away.
FAR_S = 1e-3


@dataclass(frozen=True)
class Proposal:
    """Something that may help. ``what`` is how it is, ``words`` the command or option that changes it. ``then_s`` are
    the seconds that the work takes with it, where the record of a job shows them and no try would.
    """

    id: str
    what: str
    words: str
    cost: str
    whom: str
    change: AdvisedChange
    then_s: float | None = None


def is_far(subject: Subject) -> bool:
    """Whether files are behind a round trip: at a server, or on a mounted file system. A local disk that is busy has
    none, however long it takes to answer.
    """
    is_remote = bool(subject.access.throttle) or any(not one.is_near for one in subject.laid)
    return is_remote and subject.rates.round_trip_s > FAR_S


def inputs_of(subject: Subject) -> str:
    """The files as the input of a command."""
    return inputs_words([one.path for one in subject.files])


def tree_of(subject: Subject) -> str:
    """The option that names their tree."""
    return tree_words([one.tree for one in subject.files])


def written_cost(subject: Subject) -> str:
    """What writing all files again costs."""
    total = size(subject.scale * sum(one.size_bytes for one in subject.laid))
    return f"{total} are read and written, once"
