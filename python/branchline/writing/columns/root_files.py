"""What every ROOT file that is written must keep to: its name, and the number of entries of a tree."""

from __future__ import annotations

import os
from pathlib import Path

from branchline.errors import OptionError

#: Entries of a tree are counted below this.
ENTRIES_END = 2**63
#: Endings of files that are no ROOT files.
OTHER_ENDINGS = {
    *(
        ".arrow",
        ".avro",
        ".csv",
        ".feather",
        ".h5",
        ".hdf5",
        ".ipc",
        ".json",
        ".jsonl",
        ".npy",
        ".npz",
        ".orc",
        ".parquet",
    ),
    *(".bz2", ".gz", ".tar", ".xz", ".zip", ".zst", ".pickle", ".pkl", ".py", ".toml", ".xml", ".yaml", ".yml"),
    *(".htm", ".html", ".log", ".md", ".pdf", ".png", ".svg", ".txt"),
}


def check_root_name(output: str | os.PathLike[str]) -> Path:
    """The path of a ROOT file to write. Raises `OptionError` for a name with the ending of another format."""
    path = Path(output)
    ending = path.suffix.lower()
    if ending in OTHER_ENDINGS:
        hint = "name it OUT.root" + (", and convert that file to Parquet" if ending == ".parquet" else "")
        raise OptionError(f"the output is a ROOT file, and {path} has the ending of another format", hint=hint)
    return path
