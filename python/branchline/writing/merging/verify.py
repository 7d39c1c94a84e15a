"""Whether files hold exactly what others hold: compared basket by basket, or value by value for new baskets."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from branchline import _core
from branchline.errors import BranchlineError, DatasetError, UnsupportedBranchError
from branchline.reading.access import Access
from branchline.reading.datasets.dataset import Dataset
from branchline.writing.merging.merge import FilledBranch, filled_branches

if TYPE_CHECKING:
    from branchline.writing.merging.value_digests import BranchDigest


class VerifiedTree(NamedTuple):
    """A tree that was compared: ``copied`` are branches whose baskets have the same bytes, ``equal`` others with the
    same values, and ``differences`` sentences on all else. ``entries`` and ``baskets`` are those of the output.
    """

    path: str
    entries: int
    baskets: int
    copied: int
    equal: tuple[str, ...]
    differences: tuple[str, ...]


class Verification(NamedTuple):
    """The result: trees, the number of other ``objects`` that are the same, and how others differ.

    ``filled`` are branches of the output that some inputs lack. For the entries of these inputs they have 0 or nothing,
    unless a difference says otherwise.
    """

    trees: tuple[VerifiedTree, ...]
    objects: int
    differences: tuple[str, ...]
    filled: tuple[FilledBranch, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not self.differences and not any(tree.differences for tree in self.trees)


def verify(
    outputs: str | os.PathLike[str] | list[str], inputs: Any, *, tree: str | None = None, access: Access | None = None
) -> Verification:
    """Compares the outputs of ``merge``, ``reorder`` or any other program with their inputs.

    ``outputs`` is a file or a list of files that belong behind each other, ``inputs`` a dataset in the order in which
    it was merged. Each basket of the outputs must have the bytes of one of the inputs, with the same entries; only
    where it lies may differ. Branches of which that is not so must have the same bytes in each entry, or the same
    values, by a digest of what is read. Histograms and the like must be the sums of those of the inputs, and of other
    objects there must be the same versions. With a ``tree`` only that is compared.

    Where TTrees became an RNTuple, as by ``convert``, each branch must be there under its name with the same values.
    The collections of those with one counter come in addition.

    Branches that some inputs lack must be 0, false or empty for their entries, as ``merge`` fills them.

    Raises what opening and reading raise; what differs is in the answer.

    Example:
        >>> branchline.merge("data/*.root", "all.root").files
        2
        >>> branchline.verify("all.root", "data/*.root").is_same
        True

    """
    made = [os.fspath(path) for path in outputs] if isinstance(outputs, list) else [os.fspath(outputs)]
    given = _paths(inputs)
    compared = _core.compare(made, given, tree, access)
    trees = tuple(_tree(found, made, given, access) for found in compared.trees)
    filled = filled_branches(branch for found in compared.trees for branch in found.filled)
    return Verification(trees, compared.objects, tuple(compared.differences), filled)


def _paths(inputs: Any) -> list[str]:
    files = tuple(Dataset.of(inputs))
    if not files:
        raise DatasetError("there are no inputs to compare with")
    return [file.path for file in files]


def _tree(found: _core.ComparedTree, made: list[str], given: list[str], access: Access | None) -> VerifiedTree:
    """Compares the values of branches whose baskets differ."""
    differing = {branch.name: branch.reason for branch in found.differing}
    equal: list[str] = list(found.same)
    differences = list(found.differences)
    is_converted = bool(differences) and _is_converted(made, given, found.path, access)
    counters: frozenset[str] = frozenset()
    if is_converted:
        differing, differences = _by_names(made, given, found.path, access)
        equal, counters = [], _counters(given[0], found.path, access)
    for name, (reason, is_same) in _compared(differing, found.path, made, given, access, counters).items():
        if isinstance(is_same, UnsupportedBranchError):
            differences.append(f"branch {name}: {reason}, and its values are not compared: {is_same.what}")
        elif isinstance(is_same, BranchlineError):
            differences.append(f"branch {name}: {reason}, and its values cannot be read: {is_same}")
        elif is_same:
            equal.append(name)
        else:
            differences.append(f"branch {name} has other values: {reason}")
    copied = 0 if is_converted else found.branches - len(differing) - len(found.same)
    return VerifiedTree(found.path, found.entries, found.baskets, copied, tuple(equal), tuple(differences))


def _is_converted(made: list[str], given: list[str], tree: str, access: Access | None) -> bool:
    """Whether TTrees became an RNTuple: no basket is copied, and fields may lie in a collection."""
    return _opened(made[0], tree, access).nests and not any(_opened(one, tree, access).nests for one in given)


def _by_names(made: list[str], given: list[str], tree: str, access: Access | None) -> tuple[dict[str, str], list[str]]:
    """The branches that are compared by their values, and what is said of those that only one side has."""
    # Imported here since it imports awkward, which takes longer than to verify a true copy.
    from branchline.reading.arrays.nesting import IMPORTED

    own, others = (_opened(files[0], tree, access).readable() for files in (made, given))
    gone = [name for name in others if name not in set(own)]
    new = [name for name in own if name not in set(others) and not name.startswith(IMPORTED)]
    differences = [f"branch {name} is not in the output" for name in gone]
    differences += [f"branch {name} is in none of the inputs" for name in new]
    return dict.fromkeys((name for name in others if name in set(own)), "it is a field now"), differences


def _counters(path: str, tree: str, access: Access | None) -> frozenset[str]:
    """The branches that count the elements of others."""
    from branchline.reading.trees.file import File

    outline = File(path, access).tree(tree).outline
    return frozenset(outline.paths[one] for one in outline.counts if one is not None)


def _opened(path: str, tree: str, access: Access | None) -> _core.Tree:
    return _core.File(path, access).tree(tree)


def _compared(
    differing: dict[str, str],
    tree: str,
    made: list[str],
    given: list[str],
    access: Access | None,
    counters: Collection[str] = (),
) -> dict[str, tuple[str, bool | BranchlineError]]:
    """Whether each of these branches has the same values, or the error that kept them from being compared."""
    found: dict[str, tuple[str, bool | BranchlineError]] = {}
    if not differing:
        return found
    try:
        both = [_values(files, tree, list(differing), access, counters) for files in (made, given)]
        return {name: (reason, both[0][name] == both[1][name]) for name, reason in differing.items()}
    except BranchlineError as error:
        if len(differing) == 1:
            return {name: (reason, error) for name, reason in differing.items()}
    # One of them cannot be read.
    for name, reason in differing.items():
        found |= _compared({name: reason}, tree, made, given, access, counters)
    return found


def _values(
    files: list[str], tree: str, branches: list[str], access: Access | None, counters: Collection[str]
) -> dict[str, BranchDigest]:
    # Imported here since it imports awkward.
    from branchline.writing.merging.value_digests import branch_digests

    return branch_digests(files, tree, branches, access, counters)
