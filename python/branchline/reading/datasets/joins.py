"""Joins by index column: rows of other trees of a folder, as lists of records in the events of the main tree.

``O2track_iu by fIndexCollisions`` are the rows of the tree ``O2track_iu`` for which the branch ``fIndexCollisions``
holds the number of the event's row. ``O2track_iu + O2trackextra_002 by fIndexCollisions`` adds the branches of a second
tree with the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from branchline.errors import DatasetError

#: Placeholder for the folder of the main tree.
FOLDER = "{folder}"
_HINT = 'write TREE by BRANCH, such as "O2track_iu by fIndexCollisions", or TREE + TREE by BRANCH'


@dataclass(frozen=True)
class Join:
    """A join: the name of the field in the events, the trees, and the index column, which is a branch of the first
    tree. All trees are in the folder of the main tree and have the same number of rows.
    """

    name: str
    trees: tuple[str, ...]
    index: str

    def __str__(self) -> str:
        return f"{' + '.join(self.trees)} by {self.index}"

    def trees_in(self, folder: str) -> tuple[str, ...]:
        """Return the paths of the trees for a main tree in this folder; the empty folder is the file itself."""
        return tuple(in_folder(one, folder) for one in self.trees)


#: Accepted types for joins: a mapping of names to ``TREE by BRANCH``, or strings ``NAME=TREE by BRANCH``.
JoinsLike = str | Join | Mapping[str, str] | Iterable[str | Join] | None


def joins_of(given: JoinsLike) -> tuple[Join, ...]:
    """Create joins from a mapping of names to joins, or from strings ``NAME=TREE by BRANCH``. Raises DatasetError."""
    if given is None:
        return ()
    if isinstance(given, str | Join):
        given = [given]
    if isinstance(given, Mapping):
        found = [_join_of(str(name), text) for name, text in given.items()]
    elif isinstance(given, Iterable):
        found = [one if isinstance(one, Join) else _named_join(one) for one in given]
    else:
        raise DatasetError(f"joins cannot be {given!r:.80}", hint='give {"Tracks": "O2track_iu by fIndexCollisions"}')
    names = [one.name for one in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DatasetError(f"several joins have the same name: {', '.join(twice)}", hint="give each its own name")
    return tuple(found)


def _named_join(text: object) -> Join:
    if not isinstance(text, str) or "=" not in text:
        hint = 'write NAME=TREE by BRANCH, such as "Tracks=O2track_iu by fIndexCollisions"'
        raise DatasetError(f"{text!r:.80} is not a join", hint=hint)
    name, _, rest = text.partition("=")
    return _join_of(name.strip(), rest)


def _join_of(name: str, text: object) -> Join:
    if not name.isidentifier():
        raise DatasetError(f"{name!r:.80} is not a name for a join", hint="use letters, digits and _")
    trees, separator, index = text.rpartition(" by ") if isinstance(text, str) else ("", "", "")
    wanted = tuple(one.strip().removeprefix(f"{FOLDER}/") for one in trees.split("+"))
    if not separator or not index.strip() or not all(wanted):
        raise DatasetError(f"{text!r:.80} is not a join", hint=_HINT)
    return Join(name, wanted, index.strip())


def in_folder(tree: str, folder: str) -> str:
    """Return the path of a tree in a folder; the empty folder is the file itself."""
    return f"{folder}/{tree}" if folder else tree


def folder_of(tree: str | None) -> str:
    """Return the folder of a tree; empty for a tree that is in no folder, or unknown."""
    return (tree or "").rpartition("/")[0]
