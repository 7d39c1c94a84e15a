"""The process that sends again what is missing, on the machine from which a train was submitted:
``python -m branchline.trains.submitted.afterwards OUT STEP``, after the last step.

Nodes of some systems cannot submit. It ends with 1 if nothing could be sent: the last step then runs once more, and
writes what there is.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from branchline.base.exit_codes import EXIT_ERROR, EXIT_OK
from branchline.errors import BranchlineError
from branchline.trains.submitted.resume import retry, to_retry
from branchline.trains.submitted.submission import Submission
from branchline.trains.submitted.submission_folder import BatchFolder
from branchline.trains.submitted.task_log import log


def main(words: list[str]) -> int:
    """Sends what is missing again, once for a last step."""
    out, label = words
    folder = BatchFolder(Path(out))
    if folder.retry_refused(label).exists():
        return EXIT_OK  # The step ran once more and has written what there is.
    try:
        submission = Submission.read(folder)
        units = to_retry(folder, submission)
        if units:
            log(f"sent again: {retry(folder, submission, units)} sub-jobs")
    except BranchlineError as error:
        log(f"error: {error}")
        with suppress(OSError):
            folder.retry_refused(label).write_text(f"{error}\n", encoding="utf-8")
        return EXIT_ERROR
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
