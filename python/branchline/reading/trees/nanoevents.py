"""NanoEvents: coffea's schemas on top of lazily read branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import awkward as ak
import numpy as np

from branchline.errors import NotHereError, OptionError, UnsupportedBranchError
from branchline.reading.arrays.layouts import misses, whole, whole_form
from branchline.reading.arrays.lazy import AccessLog, lazy_array, without_blocks
from branchline.reading.arrays.nesting import IMPORTED, Group, nested_layout
from branchline.reading.request import check_entries
from branchline.reading.trees.file import open
from branchline.reading.trees.tree import Tree

if TYPE_CHECKING:
    from branchline._core import BranchFacts
    from branchline.reading.arrays.nesting import Shape

# Separators in coffea's notation for derived columns.
SIGNS_OF_KEYS = ",!"


def nanoevents(
    tree: Tree | str,
    schemaclass: object = None,
    *,
    entry_start: int | None = None,
    entry_stop: int | None = None,
    metadata: Mapping[str, Any] | None = None,
    access_log: AccessLog | None = None,
    workers: int | None = None,
    memory_limit: int | str = "1 GiB",
) -> ak.Array:
    """Return a range of entries of a tree as NanoEvents, whose branches are read on first access.

    ``tree`` is a Tree or ``"file.root:tree"``, ``schemaclass`` a schema of ``coffea.nanoevents`` (NanoAODSchema if
    None). Each read is recorded in ``access_log``. Raises OptionError for an invalid schema, NotHereError if coffea is
    not installed, and the errors of opening. Errors of reading are raised on first access to a column.

        >>> events = branchline.nanoevents("nano.root:Events", entry_stop=1000)
        >>> events.Muon[events.Muon.pt > 20].delta_r(events.Jet[:, :1])
    """
    if isinstance(tree, str):
        tree = open(tree)
    if not isinstance(tree, Tree):
        raise OptionError(f"{tree!r} is not a tree", hint='give a Tree, or "file.root:tree"')
    start, stop = check_entries(entry_start, entry_stop, tree.entries_count)
    opened = tree

    def column(path: str) -> ak.Array:
        return opened[path].array(None, start, stop, workers=workers, memory_limit=memory_limit)

    maker = NanoEventsMaker(schemaclass)
    place = (opened.file_path, opened.object_path)
    return maker.of(opened.shape, place, (start, stop), column, metadata=metadata, access_log=access_log)


class NanoEventsMaker:
    """Creates NanoEvents with one schema, which is computed once for all trees with the same branches and types."""

    def __init__(self, schemaclass: Any = None) -> None:
        coffea = _coffea()
        self._schemaclass = coffea.NanoAODSchema if schemaclass is None else schemaclass
        if not (isinstance(self._schemaclass, type) and issubclass(self._schemaclass, coffea.BaseSchema)):
            raise OptionError(
                f"{schemaclass!r} is not a schema", hint="give a class of coffea.nanoevents, such as NanoAODSchema"
            )
        self._shape: Shape | None = None
        self._records: dict[str, Group] = {}
        self._known: tuple[Any, Any] = (None, None)

    def of(
        self,
        shape: Shape,
        place: tuple[str, str],
        limits: tuple[int, int],
        column: Callable[[str], ak.Array],
        *,
        metadata: Mapping[str, Any] | None = None,
        access_log: AccessLog | None = None,
    ) -> ak.Array:
        """NanoEvents for a range of entries of a tree with this shape at ``place``, a pair of file and path.

        ``column`` returns the column of a branch path. Raises OptionError if the schema does not fit the tree.
        """
        schema = self._schema(shape, place)
        mapping = _mapping_class()(*limits, partial(_column, shape, self._records, column, limits), access_log)
        mapping.preload_column_source(*place, mapping)
        key = "/".join(quote(one, safe="") for one in (*place, f"{limits[0]}-{limits[1]}"))
        return _coffea().NanoEventsFactory(_WithMetadata(schema, metadata), mapping, key, "virtual").events()

    def _schema(self, shape: Shape, place: tuple[str, str]) -> Any:
        """Apply the schema to a tree's branches."""
        if shape is self._shape:
            return self._known[1]
        from coffea.nanoevents.mapping.uproot import UprootSourceMapping

        facts = shape.facts()
        records = records_of(shape, facts)
        forms = forms_of(shape, records)
        key = (tuple(forms.items()), tuple(facts.items()))
        if self._known[0] != key:
            typenames = {path: one.container_class or one.typename for path, one in facts.items()}
            branches = {path: _Interpreted(facts[path].title, typenames[path], form) for path, form in forms.items()}
            base_form = UprootSourceMapping._extract_base_form(_Interpretable(shape.title, branches))
            base_form["typenames"] = typenames
            try:
                schema = self._schemaclass(base_form)
            except (KeyError, ValueError, RuntimeError, TypeError) as error:
                what = f"{self._schemaclass.__name__} does not fit {place[1]}: {error!r}"
                raise OptionError(what, path=place[0], hint="BaseSchema fits every tree") from error
            self._known = (key, schema)
        self._shape, self._records = shape, records
        return self._known[1]


def records_of(shape: Shape, facts: Mapping[str, BranchFacts]) -> dict[str, Group]:
    """Return the branches of objects and containers whose sub-branches can all be read. coffea expects these branches
    as records of their sub-branches. TClonesArrays are left out: for the branch of a
    TClonesArray, coffea expects the number of elements.
    """
    outline = shape.outline
    if outline.nests:
        return {}
    shape.learn_types(shape.readable)
    whole = {path for path in shape.readable if _has_values(shape.empty(path).form)}
    records: dict[str, Group] = {}
    for index in reversed(range(len(outline.paths))):
        path, children = outline.paths[index], outline.children(index)
        is_record = outline.kinds[index] == "group" or facts[path].container_class not in ("", "TClonesArray")
        below = {outline.names[child]: outline.paths[child] for child in children}
        if below and is_record and all(one in records or one in whole for one in below.values()):
            records[path] = Group({name: records.get(one, one) for name, one in below.items()})
    return records


def forms_of(shape: Shape, records: Mapping[str, Group]) -> dict[str, ak.forms.Form]:
    """The forms of the readable branches whose names coffea can handle."""
    outline = shape.outline
    shape.learn_types(shape.readable)
    forms: dict[str, ak.forms.Form] = {}
    for index, path in enumerate(outline.paths):
        # Schemas use the first of several branches with the same name.
        if any(sign in path for sign in SIGNS_OF_KEYS) or path != outline.chain(index):
            continue
        if path in records:
            forms[path] = nested_layout(records[path], shape.empty, 0).form
        elif path in shape.readable_set and not (outline.nests and path.startswith(IMPORTED)):
            # coffea does not support option types.
            forms[path] = whole_form(without_blocks(shape.empty(path)).form)
    return {path: form for path, form in forms.items() if _has_values(form)}


def _has_values(form: ak.forms.Form) -> bool:
    """Whether a form contains any values. coffea misreads records without members."""
    if form.is_record:
        return any(_has_values(content) for content in form.contents)
    return _has_values(form.content) if form.is_list or form.is_option else True


def _column(
    shape: Shape,
    records: Mapping[str, Group],
    column: Callable[[str], ak.Array],
    limits: tuple[int, int],
    path: str,
) -> ak.Array:
    """The column of a branch, or lazy records whose members are read on first access."""
    if path not in records:
        layout = whole(without_blocks(column(path).layout))
        if misses(layout):
            hint = "read it with Tree.arrays, or rewrite the file with default values"
            raise UnsupportedBranchError(
                f"branch {path} has missing values, which NanoEvents does not support", hint=hint
            )
        if isinstance(layout, ak.contents.ListOffsetArray):
            # Some transforms require that the offsets can be viewed as a writable array.
            layout = layout.copy(offsets=ak.index.Index64(np.array(layout.offsets)))
        return ak.Array(layout)
    return lazy_array(records[path].members, limits[1] - limits[0], shape.empty, lambda one: column(one).layout)


class _WithMetadata:
    """A schema with the metadata of a single chunk."""

    def __init__(self, schema: Any, metadata: Mapping[str, Any] | None) -> None:
        self.behavior = schema.behavior
        self.form = {**schema.form, "parameters": {**schema.form["parameters"], "metadata": dict(metadata or {})}}


class _Interpreted:
    """A branch with the attributes of an uproot branch that coffea uses: title, type, and the form of its arrays."""

    def __init__(self, title: str, typename: str, form: ak.forms.Form) -> None:
        self.title = title
        self.typename = typename
        self._form = form

    @property
    def interpretation(self) -> _Interpreted:
        return self

    def awkward_form(self, _: object) -> ak.forms.Form:
        return self._form


class _Interpretable:
    """A tree with the attributes of an uproot tree that coffea uses."""

    def __init__(self, title: str, branches: dict[str, _Interpreted]) -> None:
        self.title = title
        self._branches = branches

    def iteritems(self) -> Iterator[tuple[str, _Interpreted]]:
        return iter(self._branches.items())


def _coffea() -> Any:
    try:
        import coffea.nanoevents
    except ImportError as error:
        hint = "pip install 'branchline[coffea]', or use events.Muon.pt and how='nested', which do not need it"
        raise NotHereError(f"NanoEvents require coffea, which is not installed: {error}", hint=hint) from None
    return coffea.nanoevents


@lru_cache(maxsize=1)
def _mapping_class() -> Any:
    """Return the class that maps coffea's buffer keys to columns; a function provides the columns."""
    from coffea.nanoevents.mapping.base import BaseSourceMapping

    class Columns(BaseSourceMapping):
        def __init__(
            self, start: int, stop: int, column: Callable[[str], ak.Array], access_log: AccessLog | None
        ) -> None:
            super().__init__(None, start, stop, cache={}, access_log=access_log, virtual=True)
            self._column = column

        @classmethod
        def _extract_base_form(cls, source: object) -> object:
            raise NotImplementedError(source)

        def key_root(self) -> str:
            return "BranchlineSourceMapping:"

        def preload_column_source(self, file: str, tree: str, source: object) -> None:
            self._cache[self.key_root() + "/".join(quote(one, safe="") for one in (file, tree))] = source

        def get_column_handle(self, columnsource: object, name: str, allow_missing: bool) -> str:
            del columnsource, allow_missing
            return name

        def extract_column(
            self, columnhandle: str, start: int, stop: int, allow_missing: bool, **_: object
        ) -> ak.Array:
            del start, stop, allow_missing
            return self._column(columnhandle)

        def __len__(self) -> int:
            return int(self._stop - self._start)

        def __iter__(self) -> Iterator[str]:
            raise NotImplementedError

    return Columns
