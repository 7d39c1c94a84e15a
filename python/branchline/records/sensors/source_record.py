"""Where the code of a job comes from: its files in the record."""

from __future__ import annotations

from dataclasses import dataclass

#: The state of a file of the user: as it was committed, changed since, or unknown to git.
COMMITTED, CHANGED, NOT_IN_GIT = "as committed", "changed since the commit", "not in git"
#: Git is not there, refuses the folder, or was too slow.
NOT_KNOWN = "not known, as git did not answer"


@dataclass
class SourceRecord:
    """A Python file of the user that wagons need, with the ``commit`` that was checked out; ``state`` says whether
    it is the file of that commit.
    """

    module: str
    path: str = ""
    sha256: str = ""
    size_bytes: int = 0
    commit: str = ""
    state: str = NOT_IN_GIT
