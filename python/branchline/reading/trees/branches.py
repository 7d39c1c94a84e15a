"""Base class of trees and branches: a mapping of sub-branches that can be read together and shown as a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from branchline.base.notebook import HTML_ROWS, html_table
from branchline.base.quantities import count, counted, parse_bytes, size
from branchline.base.texts import escaped, print_lines
from branchline.errors import NoSuchKeyError, OptionError
from branchline.reading.arrays.lazy import AccessLog
from branchline.reading.expressions.name_filters import name_filter, pattern, with_near_names
from branchline.reading.request import ReadRequest, check_virtual
from branchline.reading.trees.handles import BranchHandle
from branchline.reading.trees.selection import Selection, Selector
from branchline.reading.trees.tree_reader import read, read_lazily
from branchline.reading.trees.tree_steps import Steps

if TYPE_CHECKING:
    from branchline.reading.trees.handles import TreeHandle

# Options of `arrays` that select branches and entries.
_SELECTING = frozenset(
    {"filter_name", "filter_typename", "filter_branch", "aliases", "language", "entry_start", "entry_stop"}
)
# Internal attributes of trees and branches, which `dir` leaves out.
_INTERNAL = frozenset(
    {
        "branch",
        "check_readable",
        "core",
        "empty_columns",
        "find",
        "hint_of_friends",
        "index_of",
        "indices",
        "is_part",
        "no_such_branch",
        "number",
        "outline",
        "plain_bytes_per_entry",
        "selection",
        "shape",
        "source",
        "warned_unreadable",
    }
)
# Columns of the table that `show` prints.
HEAD = ("branch", "type", "entries", "baskets", "compressed", "plain", "factor")
TYPE_WIDTH_MAX = 44

BranchT = TypeVar("BranchT", bound=BranchHandle)


class Branches(ABC, Generic[BranchT]):
    """A mapping of sub-branches by their relative paths; iteration yields the direct children.

    The filters work as in uproot: ``filter_name`` and ``filter_typename`` take a name, a glob pattern, a ``/regular
    expression/i``, a function, or a list of these; ``filter_branch`` (or ``filter_field``) is a function of a Branch.
    """

    @property
    @abstractmethod
    def tree(self) -> TreeHandle:
        """The tree; a tree returns itself."""

    @property
    @abstractmethod
    def number(self) -> int | None:
        """Index of the branch in the tree, in depth-first order with parents first; None for the tree."""

    def __dir__(self) -> list[str]:
        # Hide internal attributes, which would clutter tab completion.
        return [name for name in object.__dir__(self) if name not in _INTERNAL]

    def _repr_html_(self) -> str:
        own = [] if self.number is None else [self.number]
        return html_of(self.tree, [self._branch(index) for index in (*own, *self.tree.outline.below(self.number))])

    @abstractmethod
    def _branch(self, index: int) -> BranchT:
        """The branch with this index in the tree."""

    # Filtering

    def indices(
        self,
        filter_name: object = None,
        filter_typename: object = None,
        filter_branch: Callable[[BranchT], object] | None = None,
        *,
        recursive: bool = True,
    ) -> list[int]:
        """Return the indices in the tree of the sub-branches that pass the filters. Raises OptionError."""
        outline = self.tree.outline
        found = list(outline.below(self.number) if recursive else outline.children(self.number))
        named = name_filter(filter_name)
        if named is not None:
            found = [one for one in found if self._is_named(one, named)]
        typed = name_filter(filter_typename, "filter_typename")
        if typed is not None:
            found = [one for one in found if typed(self._branch(one).typename)]
        if filter_branch is not None:
            if not callable(filter_branch):
                raise OptionError(f"filter_branch cannot be {filter_branch!r}", hint="give a function of a Branch")
            found = [one for one in found if _is_kept(filter_branch(self._branch(one)))]
        return found

    def _is_named(self, index: int, test: Callable[[str], bool]) -> bool:
        outline = self.tree.outline
        name, path = outline.names[index], outline.path_from(index, self.number)
        return bool(test(name) or (path != name and test(path)) or test(f"/{path}"))

    def iteritems(
        self,
        *,
        filter_name: object = None,
        filter_typename: object = None,
        filter_branch: Callable[[BranchT], object] | None = None,
        filter_field: Callable[[BranchT], object] | None = None,
        recursive: bool = True,
        full_paths: bool = True,
        ignore_duplicates: bool = False,
    ) -> Iterator[tuple[str, BranchT]]:
        """Iterate over pairs of name and branch. Names are relative paths; with ``full_paths=False``, they do not
        include the names of parents.

        Raises OptionError for invalid filters.
        """
        seen = set()
        for index in self.indices(
            filter_name, filter_typename, _one_of(filter_branch, filter_field), recursive=recursive
        ):
            key = self._key(index, full_paths=full_paths)
            if not ignore_duplicates or key not in seen:
                yield key, self._branch(index)
            seen.add(key)

    def _key(self, index: int, *, full_paths: bool) -> str:
        outline = self.tree.outline
        return outline.path_from(index, self.number) if full_paths else outline.names[index]

    def items(self, **filters: Any) -> list[tuple[str, BranchT]]:
        """Like ``iteritems``, as a list."""
        return list(self.iteritems(**filters))

    def keys(
        self,
        *,
        filter_name: object = None,
        filter_typename: object = None,
        filter_branch: Callable[[BranchT], object] | None = None,
        filter_field: Callable[[BranchT], object] | None = None,
        recursive: bool = True,
        full_paths: bool = True,
        ignore_duplicates: bool = False,
    ) -> list[str]:
        """Paths of the branches, or names without parents with ``full_paths=False``. Parents precede their children.

        >>> tree.keys(filter_name="Muon_*")
        ['Muon_pt', 'Muon_eta', 'Muon_phi']
        """
        indices = self.indices(filter_name, filter_typename, _one_of(filter_branch, filter_field), recursive=recursive)
        keys = [self._key(index, full_paths=full_paths) for index in indices]
        return list(dict.fromkeys(keys)) if ignore_duplicates else keys

    def iterkeys(self, **filters: Any) -> Iterator[str]:
        """Like ``keys``, as an iterator."""
        return iter(self.keys(**filters))

    def values(self, **filters: Any) -> list[BranchT]:
        """List of the branches that pass the filters of ``iteritems``."""
        return [branch for _, branch in self.iteritems(**filters)]

    def itervalues(self, **filters: Any) -> Iterator[BranchT]:
        """Like ``values``, as an iterator."""
        return (branch for _, branch in self.iteritems(**filters))

    def typenames(self, **filters: object) -> dict[str, str]:
        """C++ types of the branches by path, with the filters of ``iteritems``."""
        return dict(self.itertypenames(**filters))

    def itertypenames(self, **filters: Any) -> Iterator[tuple[str, str]]:
        """Iterator over the items of ``typenames``."""
        return ((key, branch.typename) for key, branch in self.iteritems(**filters))

    @property
    def branches(self) -> list[BranchT]:
        """The direct children."""
        return [self._branch(index) for index in self.tree.outline.children(self.number)]

    @property
    def fields(self) -> list[BranchT]:
        """The direct children, for compatibility with RNTuples of uproot."""
        return self.branches

    @property
    def all_fields(self) -> list[BranchT]:
        """All sub-branches, for compatibility with uproot."""
        return self.values()

    @property
    def field_names(self) -> list[str]:
        """Names of the direct children, for compatibility with uproot."""
        return [branch.name for branch in self.branches]

    @property
    def ntuple(self) -> TreeHandle:
        """The tree, for compatibility with RNTuples of uproot."""
        return self.tree

    def __iter__(self) -> Iterator[BranchT]:
        return iter(self.branches)

    def __len__(self) -> int:
        return len(self.tree.outline.children(self.number))

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()

    # Lookup

    def find(self, name: str) -> int | None:
        """Return the index of the branch with this name, or None. Raises NoSuchKeyError for an ambiguous
        name.
        """
        outline = self.tree.outline
        chain, wanted = outline.chain(self.number), name.lstrip("/")
        index = self.tree.index_of(f"{chain}{outline.separator}{wanted}" if chain else wanted)
        if index is None or not outline.is_below(index, self.number):
            return None
        is_exact = outline.path_from(index, self.number) == wanted
        return index if is_exact or not name.startswith("/") else None

    def __getitem__(self, name: str | int) -> BranchT:
        """Look up a branch by path, by an unambiguous shorter name or pattern, or by position among the direct
        children.

        Raises NoSuchKeyError with the nearest names.
        """
        if isinstance(name, str):
            with with_near_names(name, self.keys):
                index = self.find(name)
                if index is None:
                    index = self._matched(name)
            return self._branch(index)
        try:
            return self.branches[name]
        except (TypeError, IndexError):
            what = f"{self.tree.path} has {len(self)} branches at this level; {name!r} is not one of them"
            raise NoSuchKeyError(what, path=self.tree.file_path, hint="give a branch name or a smaller index") from None

    def _matched(self, name: str) -> int:
        """Return the only branch that matches a pattern. Raises NoSuchKeyError."""
        matched = self.indices(filter_name=name) if pattern(name) is not None else []
        if len(matched) == 1:
            return matched[0]
        if not matched:
            hint = self.tree.hint_of_friends(name, self.keys)
            raise NoSuchKeyError(self.tree.no_such_branch(name), path=self.tree.file_path, hint=hint)
        what = f"{name!r} matches {len(matched)} branches of tree {self.tree.path}"
        raise NoSuchKeyError(what, path=self.tree.file_path, hint=f"read them together: tree.arrays({name!r})")

    def get(self, name: str | int, default: object = None) -> Any:
        """Return a branch, or the default if it does not exist."""
        try:
            return self[name]
        except NoSuchKeyError:
            return default

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str | int) and self.get(name) is not None

    # Reading

    def show(
        self,
        *,
        filter_name: Any = None,
        filter_typename: Any = None,
        filter_branch: Callable[[BranchT], object] | None = None,
        filter_field: Callable[[BranchT], object] | None = None,
        recursive: bool = True,
        full_paths: bool = True,
        name_width: int | None = None,
        typename_width: int | None = None,
        interpretation_width: int | None = None,
        stream: Any = None,
    ) -> None:
        """Print a table of the branches that pass the filters to ``stream`` (default: the terminal): type, entries,
        baskets, compressed and plain size. Without filters a branch lists itself first.

        ``full_paths`` and uproot's width options are accepted and ignored: names are indented below their parents, and
        columns adapt to their content.
        """
        del full_paths, name_width, typename_width, interpretation_width
        indices = self.indices(filter_name, filter_typename, _one_of(filter_branch, filter_field), recursive=recursive)
        if self.number is not None and all(
            one is None for one in (filter_name, filter_typename, filter_branch, filter_field)
        ):
            indices.insert(0, self.number)
        print_lines(table(self.tree, [self._branch(index) for index in indices]), stream)

    def selection(self, request: ReadRequest) -> Selection:
        """The fields that ``arrays`` returns for a request.

        Raises NoSuchKeyError, ExpressionError, OptionError, UnsupportedBranchError.
        """
        return Selector(self, request.aliases).select(request)

    def arrays(
        self,
        expressions: str | Sequence[str] | None = None,
        cut: str | None = None,
        *,
        filter_name: object = None,
        filter_typename: object = None,
        filter_branch: Callable[[BranchT], object] | None = None,
        filter_field: Callable[[BranchT], object] | None = None,
        aliases: Mapping[str, str] | None = None,
        language: object = None,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        decompression_executor: object = None,
        interpretation_executor: object = None,
        array_cache: object = "inherit",
        library: str = "ak",
        ak_add_doc: bool | Mapping[str, str] = False,
        how: object = None,
        virtual: bool = False,
        access_log: AccessLog | None = None,
        workers: int | None = None,
        memory_limit: int | str = "1 GiB",
    ) -> Any:
        """Read branches and computed expressions over a range of entries.

        ``expressions`` are names, expressions such as ``"sqrt(px**2 + py**2)"`` over branches and ``aliases``, and
        patterns as in a filter. None means all readable branches that pass the filters; a single warning names the
        unreadable ones. ``cut`` is an expression that is true for the entries to keep.

        Returns a record array of shape (entries,) with a field per expression for ``library="ak"``, a dict of arrays
        for ``"np"``, a table for ``"arrow"``, a DataFrame for ``"pd"``. ``how`` may be ``dict``, ``list``, ``tuple``,
        ``"zip"`` (lists of equal lengths become one list of records) or ``"nested"`` (branches related by names and
        counters become records, such as ``Muon`` from ``Muon_pt`` and ``Muon_eta``). With ``ak_add_doc`` awkward arrays
        carry the branch titles. A ``virtual`` awkward array reads each branch when one of its values is first accessed,
        and records the access in ``access_log``.

        ``workers`` is the number of decoding threads. Peak memory is at most the memory limit plus the result. If the
        stored bytes exceed the limit, the result is concatenated from parts, which needs memory for two copies.
        Executors and caches of uproot are accepted and ignored. Raises NoSuchKeyError, ExpressionError, OptionError,
        UnsupportedBranchError, BadFileError, StorageError.

            >>> tree.arrays(["Muon_pt", "Muon_eta"], cut="nMuon == 2", entry_stop=1000)
            <Array [{Muon_pt: [...], Muon_eta: [...]}, ...] type='214 * {...}'>
        """
        del decompression_executor, interpretation_executor, array_cache
        request = ReadRequest.of(
            expressions=expressions,
            cut=cut,
            filter_name=filter_name,
            filter_typename=filter_typename,
            filter_branch=_one_of(filter_branch, filter_field),
            aliases=aliases,
            language=language,
            entry_start=entry_start,
            entry_stop=entry_stop,
            library=library,
            ak_add_doc=ak_add_doc,
            how=how,
            workers=workers,
            memory_limit=memory_limit,
        )
        selection = self.selection(request)
        if virtual:
            check_virtual(request.library, how, expressions, cut, aliases)
            return read_lazily(self.tree, selection, request, access_log)
        if access_log is not None:
            raise OptionError("access_log cannot be used with 'virtual=False'", hint="give virtual=True")
        return read(self.tree, selection, request, self).group()

    def iterate(
        self,
        expressions: str | Sequence[str] | None = None,
        cut: str | None = None,
        *,
        filter_name: object = None,
        filter_typename: object = None,
        filter_branch: Callable[[BranchT], object] | None = None,
        filter_field: Callable[[BranchT], object] | None = None,
        aliases: Mapping[str, str] | None = None,
        language: object = None,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        step_size: int | str = "100 MB",
        decompression_executor: object = None,
        interpretation_executor: object = None,
        library: str = "ak",
        ak_add_doc: bool | Mapping[str, str] = False,
        how: object = None,
        report: bool = False,
        workers: int | None = None,
        memory_limit: int | str = "1 GiB",
    ) -> Iterator[Any]:
        """Like ``arrays``, but in steps of a number of entries (int) or of bytes after decompression (such as "100
        MB"); steps in bytes end at cluster boundaries of the tree. With ``report`` each step is a pair of arrays and a
        Report of the entries that it covers. Raises the errors of ``arrays``.

            >>> for step in tree.iterate("Muon_pt", step_size=10_000):
            ...     histogram.fill(ak.flatten(step.Muon_pt))
        """
        del decompression_executor, interpretation_executor
        request = ReadRequest.of(
            expressions=expressions,
            cut=cut,
            filter_name=filter_name,
            filter_typename=filter_typename,
            filter_branch=_one_of(filter_branch, filter_field),
            aliases=aliases,
            language=language,
            entry_start=entry_start,
            entry_stop=entry_stop,
            step_size=step_size,
            library=library,
            ak_add_doc=ak_add_doc,
            how=how,
            workers=workers,
            memory_limit=memory_limit,
        )
        tree = self.tree
        source = tree.source(*request.range_in(tree.entries_count))
        steps = Steps([source], self.selection(request), request, tree.file.another, self)
        return steps.run(report=report)

    def num_entries_for(
        self,
        memory_size: int | str,
        expressions: str | Sequence[str] | None = None,
        cut: str | None = None,
        **wanted: Any,
    ) -> int:
        """Return the number of entries whose values take about ``memory_size`` ("100 MB") after decompression,
        estimated from basket sizes; at least 1. ``wanted`` are the options of ``arrays`` that select branches and
        entries: filters, aliases, entry range. Raises the errors of ``arrays``, and OptionError for an invalid size.
        """
        for name in wanted.keys() - _SELECTING:
            raise OptionError(f"unknown option {name!r}", hint=f"choose from {', '.join(sorted(_SELECTING))}")
        request = ReadRequest.of(expressions=expressions, cut=cut, **wanted)
        plain_per_entry = self.tree.plain_bytes_per_entry(self.selection(request).paths())
        return max(1, round(parse_bytes(memory_size) / plain_per_entry)) if plain_per_entry else 1

    def common_entry_offsets(
        self,
        *,
        filter_name: object = None,
        filter_typename: object = None,
        filter_branch: Callable[[BranchT], object] | None = None,
        filter_field: Callable[[BranchT], object] | None = None,
        recursive: bool = True,
    ) -> list[int]:
        """Return the entries at which all of these branches have a basket boundary; ignore branches without baskets."""
        indices = self.indices(filter_name, filter_typename, _one_of(filter_branch, filter_field), recursive=recursive)
        if self.number is not None:
            indices.insert(0, self.number)
        offsets = [set(own) for index in indices if len(own := self.tree.entry_offsets(index)) > 1]
        return sorted(set.intersection(*offsets)) if offsets else [0]


def _one_of(filter_branch: object, filter_field: object) -> Any:
    """Return the branch filter, which uproot calls ``filter_branch`` in TTrees and ``filter_field`` in RNTuples."""
    if filter_branch is not None and filter_field is not None:
        raise OptionError("filter_branch and filter_field are the same option", hint="give one of them")
    return filter_field if filter_branch is None else filter_branch


def _is_kept(answer: object) -> bool:
    if answer is not None and not isinstance(answer, int | np.bool_):
        raise OptionError(f"filter_branch returned {answer!r}", hint="return True for the branches to keep, else False")
    return bool(answer)


def table(tree: TreeHandle, branches: Sequence[BranchHandle]) -> list[str]:
    """Return the lines of the table, followed by totals and the branches that cannot be read."""
    rows = [HEAD, *(tuple(map(escaped, _row(branch))) for branch in branches)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    shown = {branch.number for branch in branches}
    owners = [one for one in branches if not (one.is_part and tree.outline.parents[one.number] in shown)]
    compressed = sum(branch.compressed_bytes for branch in owners)
    plain = sum(branch.plain_bytes for branch in owners)
    lines.append(
        f"{tree.path}: {counted(tree.entries_count, 'entry', 'entries')}, "
        f"{counted(len(branches), 'branch', 'branches')}, {size(compressed)} compressed, {size(plain)} plain"
    )
    unread = [branch for branch in branches if not branch.readable and not branch.is_group]
    if unread:
        lines.append(f"{counted(len(unread), 'branch', 'branches')} cannot be read yet:")
        lines += [f"  {branch.path} ({branch.typename}): {branch.reason}" for branch in unread]
    return [line.rstrip() for line in lines]


def html_of(tree: TreeHandle, branches: Sequence[BranchHandle]) -> str:
    """Return the table for a notebook: the first branches, and the number of omitted branches."""
    rows = [_row(branch) for branch in branches[:HTML_ROWS]]
    title = f"{tree.path}: {counted(tree.entries_count, 'entry', 'entries')}"
    more = len(branches) - len(rows)
    rest = f"{counted(more, 'more branch', 'more branches')}: show() prints all of them" if more else ""
    return html_table(title, HEAD, rows, rest)


def _row(branch: BranchHandle) -> tuple[str, ...]:
    outline = branch.tree.outline
    parent = outline.parents[branch.number]
    typename = branch.typename
    if len(typename) > TYPE_WIDTH_MAX:
        typename = typename[: TYPE_WIDTH_MAX - 3] + "..."
    name = "  " * outline.depth(branch.number) + outline.path_from(branch.number, parent)
    if branch.is_group:
        return (name, typename, "", "", "", "", "")
    factor = branch.plain_bytes / branch.compressed_bytes if branch.compressed_bytes else 1.0
    sizes = (size(branch.compressed_bytes), size(branch.plain_bytes), f"{factor:.2f}")
    return (name, typename, count(branch.entries_count), count(branch.baskets_count), *sizes)


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    texts = [text.rjust(width) for text, width in zip(row, widths, strict=True)]
    texts[:2] = [text.ljust(width) for text, width in zip(row[:2], widths, strict=False)]
    return "  ".join(texts)
