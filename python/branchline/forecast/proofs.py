"""Advice that was followed and measured: the pairs of forecast and measurement are kept, and say how right it was."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from branchline.forecast.kept import Proof
from branchline.report.whole_files import write_whole
from branchline.sensors.plain import from_plain

#: A measured gain below this part of a second says nothing about the error of its forecast.
MEASURED_S_MIN = 0.01


def proofs_folder() -> Path:
    """Where they are kept: below the folder for what programs remember, by the XDG base directory specification."""
    state = os.environ.get("XDG_STATE_HOME", "")
    # As the specification says, a path that is not absolute is ignored.
    return (Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state") / "branchline" / "proofs"


def keep_proof(proof: Proof, folder: Path | None = None) -> Path:
    """Writes a proof, by default to the folder of all. Raises StorageError."""
    where = folder or proofs_folder()
    where.mkdir(parents=True, exist_ok=True)
    path = where / f"proof-{proof.advice}-{time.time_ns()}.json"
    write_whole(path, json.dumps(proof.as_json(), indent=1).encode())
    return path


def proofs_in(folder: Path) -> list[Proof]:
    """The proofs of a folder; files that are none, or of a later version, are left out."""
    found = []
    for path in sorted(folder.glob("proof-*.json")):
        try:
            found.append(from_plain(Proof, json.loads(path.read_text(encoding="utf-8"))))
        except (OSError, ValueError, TypeError):
            continue
    return found


def errors_words(proofs: Sequence[Proof]) -> str:
    """By how much the saved time differed from what was said, for all that saved any; empty for fewer than two."""
    errors = [abs(one.said_s / one.measured_s - 1) for one in proofs if one.measured_s > MEASURED_S_MIN]
    if len(errors) < 2:
        return ""
    middle = statistics.median(errors)
    return (
        f"the time that {len(errors)} pieces of advice saved here differed from the forecast by {middle:.0%} (median)"
    )
