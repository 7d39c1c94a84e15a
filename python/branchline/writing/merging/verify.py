"""Verifies that outputs contain the same data as their inputs, basket by basket or, for new baskets, value by value."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import NamedTuple

from branchline import _core
from branchline.errors import BranchlineError, DatasetError, UnsupportedBranchError
from branchline.reading.access import Access
from branchline.reading.datasets.dataset import Dataset
from branchline.writing.merging.merge import FilledBranch, filled_branches


class VerifiedTree(NamedTuple):
    """A compared tree.

    - ``entries`` and ``baskets``: numbers of entries and baskets in the output.
    - ``copied``: number of branches whose baskets have the same bytes in inputs and output.
    - ``equal``: branches whose baskets differ, but whose values are equal.
    - ``differences``: sentences about branches that are not equal.
    """

    path: str
    entries: int
    baskets: int
    copied: int
    equal: tuple[str, ...]
    differences: tuple[str, ...]


class Verification(NamedTuple):
    """The result of a comparison.

    - ``trees``: the compared trees.
    - ``objects``: number of equal objects that are not trees.
    - ``differences``: sentences about objects that differ.
    - ``filled``: branches of the output that are missing in some inputs. Unless a difference says otherwise, their
      values are 0 or empty in the entries of these inputs.
    """

    trees: tuple[VerifiedTree, ...]
    objects: int
    differences: tuple[str, ...]
    filled: tuple[FilledBranch, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether outputs and inputs are equal."""
        return not self.differences and not any(tree.differences for tree in self.trees)


def verify(
    outputs: str | os.PathLike[str] | list[str],
    inputs: object,
    *,
    tree: str | None = None,
    access: Access | None = None,
) -> Verification:
    """Compare the outputs of ``merge``, ``reorder`` or any other program with their inputs.

    ``outputs`` is a file or a list of files that together form the output, in order. ``inputs`` is a dataset in the
    order in which it was merged. With ``tree``, only that tree is compared. The criteria are:

    - Baskets: each output basket has the same bytes and entries as an input basket; its position may differ.
    - Branches with new baskets: each entry has the same bytes, or the digests of the decoded values are equal.
    - Histograms and similar objects: each object in the output is the sum of the objects in the inputs.
    - All other objects: the output has the same versions as the inputs.

    If ``convert`` made an RNTuple from TTrees, the RNTuple must have each branch under the same name with the same
    values. It may also have collections of branches with a common counter. If ``convert`` made flat columns, the output
    must have a column with the same values for each member of objects that has a flat form.

    A branch that is missing in an input must be 0, false or empty in the entries of this input, as filled by ``merge``.

    Raises errors of opening and reading files; differences are not raised, but are part of the result.

    Example:
        >>> branchline.merge("data/*.root", "all.root").files
        2
        >>> branchline.verify("all.root", "data/*.root").is_same
        True

    """
    made = [os.fspath(path) for path in outputs] if isinstance(outputs, list) else [os.fspath(outputs)]
    given = list(dict.fromkeys(file.path for file in Dataset.of(inputs, access=access)))
    if not given:
        raise DatasetError("no inputs to compare with")
    compared = _core.compare(made, given, tree, access)
    trees = tuple(_tree(found, made, given, access) for found in compared.trees)
    filled = filled_branches(branch for found in compared.trees for branch in found.filled)
    return Verification(trees, compared.objects, tuple(compared.differences), filled)


def _tree(found: _core.ComparedTree, made: list[str], given: list[str], access: Access | None) -> VerifiedTree:
    """Return the comparison of a tree. Branches whose baskets differ are compared by value."""
    differing = {branch.name: branch.reason for branch in found.differing}
    equal: list[str] = list(found.same)
    differences = list(found.differences)
    if differences and (flat := _flat(found, made, given, access)) is not None:
        return flat
    # If TTrees were converted to an RNTuple, no basket was copied, and fields may be in a collection.
    is_converted = (
        bool(differences)
        and _opened(made[0], found.path, access).nests
        and not any(_opened(one, found.path, access).nests for one in given)
    )
    counters: frozenset[str] = frozenset()
    if is_converted:
        from branchline.reading.trees.file import File

        differing, differences = _by_names(made, given, found.path, access)
        outline = File(given[0], access).tree(found.path).outline
        # Counters: branches that store the array lengths of other branches.
        equal, counters = [], frozenset(outline.paths[one] for one in outline.counts if one is not None)
    for name, (reason, is_same) in _compared(differing, found.path, made, given, access, counters).items():
        if isinstance(is_same, UnsupportedBranchError):
            differences.append(f"branch {name}: {reason}, and its values are not compared: {is_same.what}")
        elif isinstance(is_same, BranchlineError):
            differences.append(f"branch {name}: {reason}, and its values cannot be read: {is_same}")
        elif is_same:
            equal.append(name)
        else:
            differences.append(f"branch {name} has different values: {reason}")
    copied = 0 if is_converted else found.branches - len(differing) - len(found.same)
    return VerifiedTree(found.path, found.entries, found.baskets, copied, tuple(equal), tuple(differences))


def _flat(found: _core.ComparedTree, made: list[str], given: list[str], access: Access | None) -> VerifiedTree | None:
    """Return the comparison of a tree of flat columns with a tree of objects; None for other trees."""
    # Imported lazily: importing awkward takes longer than verifying an exact copy.
    from branchline.reading.trees.iteration import iterate
    from branchline.writing.merging.flat_verify import compare_columns, flat_plan_of
    from branchline.writing.merging.value_digests import STEP_SIZE

    plan = flat_plan_of(made[0], given[0], found.path, access)
    if plan is None:
        return None
    sources = [f"{path}:{found.path}" for path in given]
    compared = compare_columns(
        plan,
        lambda plan: iterate(sources, plan.paths(), step_size=STEP_SIZE, access=access),
        made,
        found.path,
        access,
    )
    return VerifiedTree(found.path, found.entries, found.baskets, 0, compared.equal, compared.differences)


def _by_names(made: list[str], given: list[str], tree: str, access: Access | None) -> tuple[dict[str, str], list[str]]:
    """Return the branches to compare by value, and sentences on branches that only one of the two sides has."""
    # Imported lazily: importing awkward takes longer than verifying an exact copy.
    from branchline.reading.arrays.nesting import IMPORTED

    own, others = (_opened(files[0], tree, access).readable() for files in (made, given))
    gone = [name for name in others if name not in set(own)]
    new = [name for name in own if name not in set(others) and not name.startswith(IMPORTED)]
    differences = [f"branch {name} is not in the output" for name in gone]
    differences += [f"branch {name} is in none of the inputs" for name in new]
    return dict.fromkeys((name for name in others if name in set(own)), "it is a field now"), differences


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
    """Compare the values of the branches in ``differing``.

    Returns for each branch the reason from ``differing``, and whether the values are equal, or the error that prevented
    the comparison.
    """
    found: dict[str, tuple[str, bool | BranchlineError]] = {}
    if not differing:
        return found
    # Imported lazily, because importing awkward is slow.
    from branchline.writing.merging.value_digests import branch_digests

    try:
        both = [branch_digests(files, tree, list(differing), access, counters) for files in (made, given)]
        return {name: (reason, both[0][name] == both[1][name]) for name, reason in differing.items()}
    except BranchlineError as error:
        if len(differing) == 1:
            return {name: (reason, error) for name, reason in differing.items()}
    # At least one branch cannot be read, so compare the branches individually.
    for name, reason in differing.items():
        found |= _compared({name: reason}, tree, made, given, access, counters)
    return found
