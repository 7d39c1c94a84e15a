"""Write a train's wagon file from the registry. Users can also run the wagon file themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from branchline.base.whole_files import write_whole
from branchline.control.registry.registry import WholeWagon
from branchline.errors import OptionError
from branchline.trains.wagons.known_changes import ATTRIBUTE

#: Name of a train's wagon file. The wagons' sources are in packages next to this file.
WAGONS_FILE = "wagons.py"


def compose(
    wagons: Sequence[WholeWagon],
    texts: Sequence[str],
    folder: Path,
    *,
    by_dataset: bool = False,
    changers: Mapping[str, str] | None = None,
) -> Path:
    """Write a train's wagon file, with the wagons' sources next to the file. Return the wagon file's path.

    ``texts`` has the source text of each wagon. With ``by_dataset``, results are separate for each dataset.
    ``changers`` has descriptions, by address, of the wagons that may change the results of other wagons. Raises
    OptionError if the wagons cannot be in one train, and StorageError.
    """
    names = names_in_train(wagons)
    for wagon, text in zip(wagons, texts, strict=True):
        package, module = _module(wagon).split(".")
        write_whole(folder / package / "__init__.py", b"")
        write_whole(folder / package / f"{module}.py", text.encode())
    path = folder / WAGONS_FILE
    write_whole(path, _text(wagons, names, changers or {}, by_dataset=by_dataset).encode())
    return path


def names_in_train(wagons: Sequence[WholeWagon]) -> list[str]:
    """Return each wagon's name in the train. Other wagons use this name in their requirements.

    A wagon keeps its own name, unless several wagons share the name. The owner is then appended. Raises OptionError if
    the wagons cannot be in one train.
    """
    own = [one.entry.name for one in wagons]
    required = {address for one in wagons for address in one.requires}
    names = []
    for one in wagons:
        is_alone = own.count(one.entry.name) == 1
        if not is_alone and one.entry.address in required:
            what = f"{one.entry.address} is required by another wagon, and a second wagon is named {one.entry.name}"
            raise OptionError(what, hint="rename one of them, or put them into different trains")
        names.append(one.entry.name if is_alone else f"{one.entry.name}_of_{one.entry.owner}")
    if len(set(names)) < len(names):
        raise OptionError("two wagons have the same name", hint="rename one of them")
    return names


def _text(wagons: Sequence[WholeWagon], names: Sequence[str], changers: Mapping[str, str], *, by_dataset: bool) -> str:
    lines = ['"""The wagons of a train, written by Branchline."""', ""]
    lines += [f"import {module}" for module in sorted({_module(one) for one in wagons})]
    lines += ["", "", "def _named(name, wagon, changes=None):", "    # Works for frozen classes, too."]
    lines += ['    object.__setattr__(wagon, "name", name)']
    if changers:
        lines += ["    if changes:", f'        object.__setattr__(wagon, "{ATTRIBUTE}", changes)']
    if by_dataset:
        lines += ["    # Merge groups are datasets.", '    object.__setattr__(wagon, "by_dataset", True)']
    lines += ["    return wagon", "", "", "wagons = ["]
    for one, name in zip(wagons, names, strict=True):
        # Values are JSON-compatible data, so their repr is valid Python.
        values = ", ".join(f"{key}={value!r}" for key, value in one.values.items())
        known = f", {changers[one.entry.address]!a}" if one.entry.address in changers else ""
        made = f"{_module(one)}.{one.wagon_class.name}({values})"
        lines.append(f"    _named({name!r}, {made}{known}),  # {one.entry.address}")
    return "\n".join([*lines, "]", ""])


def _module(wagon: WholeWagon) -> str:
    """Return the module name of a wagon's source: a package name with the source's hash, then the author's file name.

    Error messages contain the module name, so the author should recognize the file name.
    """
    stem = re.sub(r"\W", "_", Path(wagon.source_path).stem)
    return f"source_{wagon.source_sha256[:16]}.{stem if stem.isidentifier() and stem.isascii() else 'wagons'}"
