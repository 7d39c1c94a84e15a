"""Which files code of users may read in the sandbox: those below the folders of data of a shared control room."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from branchline.errors import OptionError
from branchline.reading.locations import BETWEEN_REPLICAS, split_location


def on_data(files: Sequence[str], data: Sequence[Path], network_hint: str) -> list[str]:
    """Lines of a dataset that lead to no link outside of ``data``, which is all that the sandbox has. Lists and
    patterns are read in there: what the server may read or ask besides is nothing for others, not even whether it is
    there. Raises OptionError for data elsewhere, with ``network_hint`` for those at a server: there is no network.
    """
    return [
        BETWEEN_REPLICAS.join(
            _placed(one, *split_location(one), data, network_hint) for one in line.split(BETWEEN_REPLICAS)
        )
        for line in files
    ]


def _placed(shown: str, path: str, tree: str | None, data: Sequence[Path], network_hint: str) -> str:
    """A location without links."""
    if "://" in path or "::" in path:
        raise OptionError(f"{shown!r:.200} is at a server, and the sandbox has no network", hint=network_hint)
    place = os.path.realpath(path)
    if not os.path.isabs(path) or not any(Path(place).is_relative_to(one) for one in data):
        where = ", ".join(map(str, data)) or "none"
        what = f"{shown!r:.200} is not in a folder of data that code of wagons may read here: {where}"
        raise OptionError(what, hint="whoever runs the server names such folders with --data")
    # A slash at the end says that it is a folder.
    place = f"{place}/" if path.endswith("/") else place
    return f"{place}:{tree}" if tree else place
