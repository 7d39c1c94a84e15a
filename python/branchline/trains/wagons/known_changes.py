"""Wagons known to change the results of other wagons: trials record such wagons, and later trains with the same code
warn about them.

Each finding is stored in a file in the user's state folder, named after a digest of the wagon's code. A finding
therefore no longer applies after the code has changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from branchline.base.texts import one_line
from branchline.base.user_state import state_folder
from branchline.base.whole_files import read_plain, write_whole
from branchline.errors import BranchlineError
from branchline.records.sensors.this_process import code_sha256
from branchline.trains.wagons.wagons import Wagon

#: A wagon's attribute that contains a finding as text. A control room sets this attribute if another user ran the
#: trial.
ATTRIBUTE = "known_changes"
_FILE_MAX_BYTES = 65_536
_TEXT_MAX = 500


def keep_changes(changed: Mapping[str, Iterable[str]], wagons: Iterable[Wagon]) -> None:
    """Record the wagons that change the results of other wagons. ``changed`` maps the name of such a wagon to the names
    of the wagons whose results it changes. If the file cannot be written, nothing is recorded.
    """
    for wagon in wagons:
        others = sorted(changed.get(wagon.name, ()))
        with suppress(OSError, BranchlineError):
            if others and (path := _path_of(wagon)) is not None:
                found = {"wagon": wagon.name, "changed": others, "found": datetime.now(UTC).date().isoformat()}
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, json.dumps(found).encode())


def known_changes(wagons: Iterable[Wagon]) -> dict[str, str]:
    """Return the wagons known to change the results of other wagons, with a description of the finding."""
    return {one.name: what for one in wagons if (what := _known(one))}


def _known(wagon: Wagon) -> str:
    said = getattr(wagon.thing, ATTRIBUTE, "")
    if isinstance(said, str) and said:
        return one_line(said, _TEXT_MAX)
    with suppress(OSError, ValueError, LookupError, BranchlineError, TypeError):
        path = _path_of(wagon)
        if path is not None and path.exists():
            found = json.loads(read_plain(path, _FILE_MAX_BYTES))
            what = f"a trial of {found['found']} found that it changes the results of {' and '.join(found['changed'])}"
            return one_line(f"{what} ({path})", _TEXT_MAX)
    return ""


def _path_of(wagon: Wagon) -> Path | None:
    digest = code_sha256(wagon.code)
    if digest is None:
        return None
    name = hashlib.sha256(f"{digest} {getattr(wagon.code, '__qualname__', '')}".encode()).hexdigest()
    return state_folder() / "wagons-that-change-others" / f"{name}.json"
