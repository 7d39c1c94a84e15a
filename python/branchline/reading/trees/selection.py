"""The selection of a request: fields made of branches, groups and expressions, and a cut."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np

from branchline.errors import (
    BranchlineWarning,
    ExpressionError,
    NoSuchKeyError,
    UnreadableBranchWarning,
    UnsupportedBranchError,
    warn,
)
from branchline.reading.arrays.layouts import layout_of, record_of
from branchline.reading.arrays.nesting import LEFT_OUT
from branchline.reading.expressions.expressions import PYTHON, Expression, Language
from branchline.reading.expressions.formulas import FORMULA
from branchline.reading.expressions.name_filters import REGULAR, near_names_hint, pattern

if TYPE_CHECKING:
    from branchline._core import Column
    from branchline.reading.arrays.layouts import LaidColumn
    from branchline.reading.request import ReadRequest
    from branchline.reading.trees.handles import BranchesHandle, FriendHandle

# Characters that occur in expressions but hardly ever in branch names.
OPERATORS = re.compile(r"[-\s()+*<>=&|^~,%@\"']")
# Matches names and patterns. Any other text is parsed as an expression.
GLOB = re.compile(r"(?:[\w./:*?!@#-]|\[[^\[\]]+\]|<[^<>]+>)+")
# Maximum number of branches that a warning lists.
NAMES_LISTED = 10


class Columns:
    """The columns that were read for a range of entries, as awkward layouts, and a cache of computed values."""

    def __init__(self, entry_start: int, entries_count: int, columns: Mapping[str, Column | LaidColumn]) -> None:
        self.entry_start = entry_start
        self.entries_count = entries_count
        self._columns = columns
        self._layouts: dict[str, ak.contents.Content] = {}
        self.computed: dict[int, ak.Array] = {}

    def layout(self, path: str) -> ak.contents.Content:
        """The column of a branch."""
        if path not in self._layouts:
            self._layouts[path] = layout_of(self._columns[path])
        return self._layouts[path]


@dataclass(frozen=True)
class BranchField:
    """A single branch, unchanged."""

    path: str

    def paths(self) -> Iterator[str]:
        """The branches to read."""
        yield self.path

    def layout(self, columns: Columns) -> ak.contents.Content:
        """The column."""
        return columns.layout(self.path)


@dataclass(frozen=True)
class GroupField:
    """A branch without data of its own: a record of its sub-branches."""

    path: str
    members: dict[str, Field]

    def paths(self) -> Iterator[str]:
        """The branches to read."""
        for member in self.members.values():
            yield from member.paths()

    def layout(self, columns: Columns) -> ak.contents.Content:
        """The records."""
        contents = [member.layout(columns) for member in self.members.values()]
        return record_of(contents, list(self.members), columns.entries_count)


@dataclass(frozen=True)
class ExpressionField:
    """The value of an expression over the fields that it refers to."""

    expression: Expression
    operands: dict[str, Field]

    def paths(self) -> Iterator[str]:
        """The branches to read."""
        for operand in self.operands.values():
            yield from operand.paths()

    def layout(self, columns: Columns) -> ak.contents.Content:
        """The values. Raises ExpressionError."""
        return self.value(columns).layout

    def value(self, columns: Columns) -> ak.Array:
        """The values, cached in ``columns``."""
        if id(self) not in columns.computed:

            def value_of(name: str) -> ak.Array:
                return ak.Array(self.operands[name].layout(columns))

            columns.computed[id(self)] = self.expression.value(value_of, columns.entries_count)
        return columns.computed[id(self)]


@dataclass(frozen=True)
class FriendField:
    """A branch of a friend of the tree."""

    friend: FriendHandle
    path: str

    def paths(self) -> Iterator[str]:
        """No branches of the main tree."""
        return iter(())

    def layout(self, columns: Columns) -> ak.contents.Content:
        """The column of the friend, for the entries of the main tree."""
        return self.friend.layout(self.path, columns.entry_start, columns.entries_count)


Field = BranchField | GroupField | ExpressionField | FriendField


@dataclass(frozen=True)
class Selected:
    """The fields of a range of entries as one record, and the entry numbers of its rows."""

    record: ak.contents.RecordArray
    entries: Any


@dataclass(frozen=True)
class Selection:
    """Fields by name, and an optional cut."""

    fields: dict[str, Field]
    cut: ExpressionField | None = None

    def paths(self) -> list[str]:
        """The branches to read."""
        fields = [*self.fields.values(), *([self.cut] if self.cut is not None else [])]
        return list(dict.fromkeys(path for field in fields for path in field.paths()))

    def of(self, columns: Columns) -> Selected:
        """Evaluate the fields for some entries and apply the cut. Raises ExpressionError."""
        count = columns.entries_count
        contents = [field.layout(columns) for field in self.fields.values()]
        entries = range(columns.entry_start, columns.entry_start + count)
        if self.cut is not None:
            mask = self.cut.value(columns)
            mask = ak.fill_none(mask, value=False, axis=-1) != 0
            contents = [self._kept(name, content, mask) for name, content in zip(self.fields, contents, strict=True)]
            if mask.ndim == 1:
                entries = np.asarray(entries)[np.asarray(mask)]
                count = len(entries)
        names = list(self.fields)
        return Selected(record_of(contents, names, count), entries)

    def _kept(self, name: str, content: ak.contents.Content, mask: ak.Array) -> ak.contents.Content:
        assert self.cut is not None
        try:
            return ak.to_packed(ak.Array(content)[mask], highlevel=False)
        except (ValueError, TypeError, IndexError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ExpressionError(f"the cut {self.cut.expression.text!r} does not fit {name}: {reason}") from error


class Selector:
    """Resolves names, expressions, patterns and filters relative to a tree or branch."""

    def __init__(self, under: BranchesHandle, aliases: Mapping[str, str] | None = None) -> None:
        self._under = under
        self._tree = under.tree
        self._outline = under.tree.outline
        given = dict(aliases or {})
        self._given = given
        self._aliases = {**under.tree.aliases, **given}
        self._being_resolved: list[str] = []
        self._resolved: dict[str, Field | None] = {}
        self._left_out: list[str] = []
        shared = [name for name in given if under.find(name) is not None]
        if shared:
            warn(f"{', '.join(shared)}: both alias and branch; the branch is read", BranchlineWarning)

    def select(self, request: ReadRequest) -> Selection:
        """Return the request's cut and the fields of its expressions; without expressions, the fields of all branches
        that pass the filters.

        Raises NoSuchKeyError, ExpressionError, OptionError, UnsupportedBranchError.
        """
        fields: dict[str, Field] = {}
        if request.expressions is None:
            fields = self._all_of(self._kept(request))
        else:
            for text in request.expressions:
                fields |= self._fields_of(text)
        selection = Selection(fields, None if request.cut is None else self._expression(request.cut))
        warned = self._tree.warned_unreadable
        new = [path for path in dict.fromkeys(self._left_out) if path not in warned]
        if new:
            warned.update(new)
            warn(left_out(self._tree.path, self._tree.file_path, new), UnreadableBranchWarning)
        return selection

    def _kept(self, request: ReadRequest) -> list[int]:
        """The branches that pass the filters; a branch without sub-branches selects itself."""
        under = self._under
        kept = under.indices(request.filter_name, request.filter_typename, request.filter_branch)
        return [under.number] if not kept and under.number is not None and len(under) == 0 else kept

    def _expression(self, text: str, language: Language = PYTHON) -> ExpressionField:
        path = self._tree.file_path
        expression = Expression(text, lambda name: self._known(name) is not None, self._names, path, language)
        operands = {name: field for name in expression.names if (field := self._known(name)) is not None}
        return ExpressionField(expression, operands)

    def _names(self) -> list[str]:
        of_friends = [f"{name}.{key}" for name, friend in self._tree.friends.items() for key in friend.keys()]
        return [*self._under.keys(), *self._aliases, *of_friends]

    def _known(self, name: str) -> Field | None:
        """The field of the branch or alias with this name, or None."""
        if name not in self._resolved:
            index = self._under.find(name)
            if index is not None:
                self._resolved[name] = self._field(index)
            elif name in self._aliases:
                self._resolved[name] = self._alias(name)
            else:
                self._resolved[name] = self._of_friend(name)
        return self._resolved[name]

    def _of_friend(self, name: str) -> Field | None:
        """Find the branch ``friend.branch`` of a friend. If the name does not start with a friend's name, the first
        friend with this branch is used.
        """
        friends = self._tree.friends if self._under is self._tree else {}
        alias, _, rest = name.partition(".")
        wanted = [(friends[alias], rest)] if rest and alias in friends else [(one, name) for one in friends.values()]
        for friend, branch in wanted:
            path = friend.find_path(branch)
            if path is not None:
                return FriendField(friend, path)
        return None

    def _alias(self, name: str) -> Field:
        if name in self._being_resolved:
            circle = " -> ".join([*self._being_resolved, name])
            raise ExpressionError(f"the alias {name!r} refers to itself: {circle}", path=self._tree.file_path)
        self._being_resolved.append(name)
        try:
            text = self._aliases[name]
            if name in self._given:
                return self._known(text) or self._expression(text)
            return self._formula(text)
        finally:
            self._being_resolved.pop()

    def _formula(self, text: str) -> Field:
        """Resolve a formula of ROOT: a plain branch is returned unchanged, anything else is computed in double
        precision.
        """
        is_name = "[" not in text  # brackets select an element, even if a branch name contains the same text
        return (self._known(text.strip()) if is_name else None) or self._expression(text, FORMULA)

    def formula(self, text: str) -> Selection:
        """A selection with the formula of ROOT as its only field. Raises NoSuchKeyError, ExpressionError,
        UnsupportedBranchError.
        """
        return Selection({text: self._formula(text)})

    def _field(self, index: int) -> Field:
        """The field of a branch; for a group, all readable sub-branches as a record."""
        branch = self._tree.branch(index)
        if branch.is_group:
            field = self._group(index)
            if field is not None:
                return field
            if self._outline.children(index):
                raise UnsupportedBranchError(
                    f"none of the branches below {branch.path} can be read",
                    path=self._tree.file_path,
                    hint="tree.show() lists the reasons",
                )
        self._tree.check_readable(branch.path)
        return BranchField(branch.path)

    def _group(self, index: int) -> GroupField | None:
        members: dict[str, Field] = {}
        for child in self._outline.children(index):
            kind, name = self._outline.kinds[child], self._outline.names[child]
            if name in members:
                name = self._outline.paths[child]
            if kind == "data":
                members[name] = BranchField(self._outline.paths[child])
            elif kind in LEFT_OUT:
                self._left_out.append(self._outline.paths[child])
            elif (group := self._group(child)) is not None:
                members[name] = group
        return GroupField(self._outline.paths[index], members) if members else None

    def _fields_of(self, text: str) -> dict[str, Field]:
        """The field of a name or expression, or the fields of all branches that match a pattern."""
        known = self._known(text)
        if known is not None:
            return {text: known}
        try:
            return {text: self._expression(text)}
        except (ExpressionError, NoSuchKeyError) as error:
            test = pattern(text)
            matched = [] if test is None else self._under.indices(filter_name=text)
            if matched:
                return self._all_of(matched)
            is_pattern = test is not None and (GLOB.fullmatch(text) or REGULAR.fullmatch(text))
            if is_pattern and isinstance(error, ExpressionError):
                raise NoSuchKeyError(
                    f"no branch of {self._tree.path} matches {text!r}",
                    path=self._tree.file_path,
                    hint=near_names_hint(text, self._names()),
                ) from None
            raise self._error_for_name(text, error) from None

    def _error_for_name(self, text: str, error: ExpressionError | NoSuchKeyError) -> Exception:
        """Return the error to raise. If the text looks like a name, this is a NoSuchKeyError for the branch."""
        if OPERATORS.search(text) or ("[" in text and isinstance(error, ExpressionError)):
            return error
        what = f"tree {self._tree.path} has no branch {text!r}"
        return NoSuchKeyError(what, path=self._tree.file_path, hint=near_names_hint(text, self._names()))

    def _all_of(self, indices: Sequence[int]) -> dict[str, Field]:
        """Fields of branches under their own names, or under their paths if names clash; in RNTuples always under
        paths.

        A selected group becomes a record and replaces its selected branches. But if all of its branches are selected,
        they replace the group.
        """
        meant = {index for index in indices if self._outline.kinds[index] == "data"}
        if self._outline.nests:
            meant = {index for index in meant if not self._is_within(index, meant)}
        self._left_out += [self._outline.paths[one] for one in indices if self._outline.kinds[one] in LEFT_OUT]
        groups = [index for index in indices if self._outline.kinds[index] == "group"]
        groups = [index for index in groups if not meant.issuperset(self._outline.data_below(index))]
        top = {one for one in groups if not any(self._outline.is_below(one, other) for other in groups)}
        meant = {index for index in meant if not any(self._outline.is_below(index, group) for group in top)}
        counts = Counter(self._outline.names[index] for index in [*meant, *top])
        fields: dict[str, Field] = {}
        for index in [*sorted(meant), *sorted(top)]:
            name = self._outline.names[index]
            is_alone = counts[name] == 1 and not self._outline.nests
            key = name if is_alone else self._outline.path_from(index, self._under.number)
            field = self._group(index) if index in top else BranchField(self._outline.paths[index])
            if field is not None:
                fields[key] = field
        return fields

    def _is_within(self, index: int, others: set[int]) -> bool:
        """Whether one of the ``others`` is an ancestor of the branch."""
        parent = self._outline.parents[index]
        return parent is not None and (parent in others or self._is_within(parent, others))


def left_out(tree: str, path: str, names: Sequence[str]) -> str:
    """The warning about branches that were left out."""
    more = f" and {len(names) - NAMES_LISTED} more" if len(names) > NAMES_LISTED else ""
    which = "branch" if len(names) == 1 else "branches"
    return (
        f"{path}: {len(names)} {which} of {tree} cannot be read with the other branches, left out: "
        f"{', '.join(names[:NAMES_LISTED])}{more} (show() lists the reasons)"
    )
