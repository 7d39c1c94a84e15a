"""Index columns of AO2D files: branches such as ``fIndexCollisions`` with row numbers of another tree of the folder.

A merge that joined two folders of the same name, and a skim that dropped rows of a tree, would leave wrong row numbers.
Both are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from branchline import _core
from branchline.errors import FILE_ERRORS, BranchlineError, DatasetError
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.dataset import some_names
from branchline.reading.datasets.joins import folder_of

if TYPE_CHECKING:
    # Only for types: a merge does not import awkward.
    from branchline.reading.trees.file import File

# Prefix of index columns in the data model of ALICE (O2).
_PREFIX = "fIndex"


def refuse_tree_patterns(files: Sequence[DataFile]) -> None:
    """Raise DatasetError if the tree of a file was given as a pattern: whole files are merged."""
    for one in files:
        if one.trees:
            hint = "leave out the pattern: a merge keeps all folders"
            raise DatasetError("a pattern of trees cannot be merged", path=one.path, hint=hint)


def refuse_shared_folders(files: Sequence[DataFile], access: Access | None) -> None:
    """Raise DatasetError if a tree with index columns is in the same folder of several files."""
    if len(files) < 2 or not _has_index_columns(files, access):
        return
    # Imported lazily, because other files do not need this module.
    from branchline.reading.datasets.server_files import in_threads

    owners: dict[str, str] = {}
    for file, trees in zip(files, in_threads(lambda one: _trees_of(one, access), files), strict=True):
        for tree in trees:
            other = owners.setdefault(tree, file.path)
            if other is file.path or not (names := _index_columns_of(_core.File(file.opens, access).tree, tree)):
                continue
            what = (
                f"{folder_of(tree)} is also in {other}, and index columns such as {names[0]} of {tree} would be wrong"
            )
            raise DatasetError(what, path=file.path, hint="merge files that have different folders")


def refuse_dropped_rows(file: File, tree: str) -> None:
    """Raise DatasetError if other trees in the folder of a tree have index columns, which may refer to its rows."""
    beside = [one for one in file.trees() if one != tree and folder_of(one) == folder_of(tree)]
    columns = {one: _index_columns_of(lambda name: file.tree(name).core, one) for one in beside}
    found = [f"{one} ({', '.join(names)})" for one, names in columns.items() if names]
    if found:
        what = f"rows of {tree} cannot be dropped, because index columns of other trees would be wrong: "
        hint = "select events in a train, or keep only this tree with --only-tree or only_tree=True"
        raise DatasetError(f"{what}{some_names(found)}", path=file.path, hint=hint)


def index_columns(names: Iterable[str]) -> list[str]:
    """Return the branches with row numbers of other trees."""
    return [name for name in names if name.startswith(_PREFIX)]


def _index_columns_of(open_tree: Callable[[str], _core.Tree], name: str) -> list[str]:
    """Return the index columns of a tree; empty for a tree that cannot be read."""
    try:
        return index_columns(open_tree(name).paths())
    except BranchlineError:
        return []


def _has_index_columns(files: Sequence[DataFile], access: Access | None) -> bool:
    """Whether a tree in a folder of the first readable file has index columns."""
    for one in files:
        try:
            file = _core.File(one.opens, access)
            return any(_index_columns_of(file.tree, tree) for tree in _folder_trees(file))
        except FILE_ERRORS:
            continue
    return False


def _trees_of(one: DataFile, access: Access | None) -> list[str]:
    """Return the paths of the trees in folders; empty for a file that cannot be read, for which the merge raises."""
    try:
        return _folder_trees(_core.File(one.opens, access))
    except FILE_ERRORS:
        return []


def _folder_trees(file: _core.File) -> list[str]:
    # Most files have no folders, and listing everything would read more.
    if not any(key.class_name.startswith("TDirectory") for key in file.keys_in("")):
        return []
    return list(dict.fromkeys(key.path for key in file.keys_below("") if key.is_tree and "/" in key.path))
