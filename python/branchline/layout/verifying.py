"""Whether files hold exactly what others hold: compared basket by basket, or value by value for new baskets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from branchline import _core
from branchline.access import Access
from branchline.dataset import Dataset
from branchline.errors import BranchlineError, DatasetError, UnsupportedBranchError
from branchline.layout.filled import FilledBranch, filled_branches

if TYPE_CHECKING:
    from branchline.layout.digests import BranchDigest


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

    Branches that some inputs lack must be 0, false or empty for their entries, as ``merge`` fills them.

    Raises what opening and reading raise; what differs is in the answer.
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
    for name, (reason, is_same) in _compared(differing, found.path, made, given, access).items():
        if isinstance(is_same, UnsupportedBranchError):
            differences.append(f"branch {name}: {reason}, and its values are not compared: {is_same.what}")
        elif isinstance(is_same, BranchlineError):
            differences.append(f"branch {name}: {reason}, and its values cannot be read: {is_same}")
        elif is_same:
            equal.append(name)
        else:
            differences.append(f"branch {name} has other values: {reason}")
    copied = found.branches - len(differing) - len(found.same)
    return VerifiedTree(found.path, found.entries, found.baskets, copied, tuple(equal), tuple(differences))


def _compared(
    differing: dict[str, str], tree: str, made: list[str], given: list[str], access: Access | None
) -> dict[str, tuple[str, bool | BranchlineError]]:
    """Whether each of these branches has the same values, or the error that kept them from being compared."""
    found: dict[str, tuple[str, bool | BranchlineError]] = {}
    if not differing:
        return found
    try:
        both = [_values(files, tree, list(differing), access) for files in (made, given)]
        return {name: (reason, both[0][name] == both[1][name]) for name, reason in differing.items()}
    except BranchlineError as error:
        if len(differing) == 1:
            return {name: (reason, error) for name, reason in differing.items()}
    # One of them cannot be read.
    for name, reason in differing.items():
        found |= _compared({name: reason}, tree, made, given, access)
    return found


def _values(files: list[str], tree: str, branches: list[str], access: Access | None) -> dict[str, BranchDigest]:
    # Imported here since it imports awkward.
    from branchline.layout.digests import branch_digests

    return branch_digests(files, tree, branches, access)
