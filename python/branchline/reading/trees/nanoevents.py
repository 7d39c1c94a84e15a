"""Trees as NanoEvents: coffea's schemas over branches that are read when something looks into them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableSequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import awkward as ak
import numpy as np

from branchline.errors import NotHereError, OptionError, UnsupportedBranchError
from branchline.reading.arrays.layouts import misses, whole, whole_form
from branchline.reading.arrays.lazy import lazy_array, without_blocks
from branchline.reading.arrays.nesting import IMPORTED, Group, nested_layout
from branchline.reading.request import check_entries
from branchline.reading.trees.file import open
from branchline.reading.trees.tree import Tree

if TYPE_CHECKING:
    from branchline._core import BranchFacts
    from branchline.reading.arrays.nesting import Shape

# Signs with which coffea writes down how a column is made of others.
SIGNS_OF_KEYS = ",!"


def nanoevents(
    tree: Tree | str,
    schemaclass: Any = None,
    *,
    entry_start: int | None = None,
    entry_stop: int | None = None,
    metadata: Mapping[str, Any] | None = None,
    access_log: MutableSequence[Any] | None = None,
    workers: int | None = None,
    memory_limit: int | str = "1 GiB",
) -> ak.Array:
    """A range of entries of a tree as NanoEvents; a branch is read when something looks into it.

    ``tree`` is a Tree or ``"file.root:tree"``, ``schemaclass`` one of ``coffea.nanoevents`` (NanoAODSchema if None).
    What is read is added to ``access_log``. Raises OptionError for what is no schema, NotHereError where coffea is not
    installed, and what opening raises. What reading raises is raised at the first use of a column.

        >>> events = branchline.nanoevents("nano.root:Events", entry_stop=1000)
        >>> events.Muon[events.Muon.pt > 20].delta_r(events.Jet[:, :1])
    """
    if isinstance(tree, str):
        tree = open(tree)
    if not isinstance(tree, Tree):
        raise OptionError(f"{tree!r} is no tree", hint='give a Tree, or "file.root:tree"')
    start, stop = check_entries(entry_start, entry_stop, tree.entries_count)
    opened = tree

    def column(path: str) -> ak.Array:
        return opened[path].array(None, start, stop, workers=workers, memory_limit=memory_limit)

    maker = NanoEventsMaker(schemaclass)
    place = (opened.file_path, opened.object_path)
    return maker.of(opened.shape, place, (start, stop), column, metadata=metadata, access_log=access_log)


class NanoEventsMaker:
    """Makes NanoEvents with one schema, which is worked out once for all trees of the same branches and types."""

    def __init__(self, schemaclass: Any = None) -> None:
        coffea = _coffea()
        self._schemaclass = coffea.NanoAODSchema if schemaclass is None else schemaclass
        if not (isinstance(self._schemaclass, type) and issubclass(self._schemaclass, coffea.BaseSchema)):
            raise OptionError(f"{schemaclass!r} is no schema", hint="give one of coffea.nanoevents, as NanoAODSchema")
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
        access_log: MutableSequence[Any] | None = None,
    ) -> ak.Array:
        """NanoEvents of a range of entries of a tree of this shape at ``place``, a file and a path in it.

        ``column`` gives the columns by the paths of branches. Raises OptionError if the schema does not fit the tree.
        """
        schema = self._schema(shape, place)
        mapping = _mapping_class()(*limits, partial(_column, shape, self._records, column, limits), access_log)
        mapping.preload_column_source(*place, mapping)
        key = "/".join(quote(one, safe="") for one in (*place, f"{limits[0]}-{limits[1]}"))
        return _coffea().NanoEventsFactory(_WithMetadata(schema, metadata), mapping, key, "virtual").events()

    def _schema(self, shape: Shape, place: tuple[str, str]) -> Any:
        """What the schema makes of a tree's branches."""
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
    """The branches that coffea looks at as records of those below them, if all of these can be read: objects, and
    containers but for a TClonesArray, of which it sees the number of elements.
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
    """The forms of the branches that can be read and whose names coffea can handle."""
    outline = shape.outline
    shape.learn_types(shape.readable)
    forms: dict[str, ak.forms.Form] = {}
    for index, path in enumerate(outline.paths):
        # Of branches of the same name schemas take the first.
        if any(sign in path for sign in SIGNS_OF_KEYS) or path != outline.chain(index):
            continue
        if path in records:
            forms[path] = nested_layout(records[path], shape.empty, 0).form
        elif path in shape.readable_set and not (outline.nests and path.startswith(IMPORTED)):
            # Coffea knows no values that may be missing.
            forms[path] = whole_form(without_blocks(shape.empty(path)).form)
    return {path: form for path, form in forms.items() if _has_values(form)}


def _has_values(form: ak.forms.Form) -> bool:
    """Whether a form has more than records without members, which coffea misreads."""
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
    """The column of a branch, or records of which a member is read when something looks into it."""
    if path not in records:
        layout = whole(without_blocks(column(path).layout))
        if misses(layout):
            hint = "read it by Tree.arrays, or write the file again with values in their place"
            raise UnsupportedBranchError(f"values of branch {path} are missing, and NanoEvents have none", hint=hint)
        if isinstance(layout, ak.contents.ListOffsetArray):
            # Some transforms hand offsets over in a way that must be free to write to them.
            layout = layout.copy(offsets=ak.index.Index64(np.array(layout.offsets)))
        return ak.Array(layout)
    return lazy_array(records[path].members, limits[1] - limits[0], shape.empty, lambda one: column(one).layout)


class _WithMetadata:
    """A schema with the metadata of one chunk."""

    def __init__(self, schema: Any, metadata: Mapping[str, Any] | None) -> None:
        self.behavior = schema.behavior
        self.form = {**schema.form, "parameters": {**schema.form["parameters"], "metadata": dict(metadata or {})}}


class _Interpreted:
    """A branch as coffea looks at one of uproot: its title, its type, and the form of its arrays."""

    def __init__(self, title: str, typename: str, form: ak.forms.Form) -> None:
        self.title = title
        self.typename = typename
        self._form = form

    @property
    def interpretation(self) -> _Interpreted:
        return self

    def awkward_form(self, _: Any) -> ak.forms.Form:
        return self._form


class _Interpretable:
    """A tree as coffea looks at one of uproot."""

    def __init__(self, title: str, branches: dict[str, _Interpreted]) -> None:
        self.title = title
        self._branches = branches

    def iteritems(self) -> Iterator[tuple[str, _Interpreted]]:
        return iter(self._branches.items())


def _coffea() -> Any:
    try:
        import coffea.nanoevents
    except ImportError as error:
        hint = "pip install 'branchline[coffea]', or use events.Muon.pt and how='nested', which need nothing else"
        raise NotHereError(f"NanoEvents are made by coffea, which is not installed: {error}", hint=hint) from None
    return coffea.nanoevents


@lru_cache(maxsize=1)
def _mapping_class() -> Any:
    """Coffea's way from the keys of buffers to columns, with columns that come from a function."""
    from coffea.nanoevents.mapping.base import BaseSourceMapping

    class Columns(BaseSourceMapping):
        def __init__(
            self, start: int, stop: int, column: Callable[[str], ak.Array], access_log: MutableSequence[Any] | None
        ) -> None:
            super().__init__(None, start, stop, cache={}, access_log=access_log, virtual=True)
            self._column = column

        @classmethod
        def _extract_base_form(cls, source: Any) -> Any:
            raise NotImplementedError(source)

        def key_root(self) -> str:
            return "BranchlineSourceMapping:"

        def preload_column_source(self, file: str, tree: str, source: Any) -> None:
            self._cache[self.key_root() + "/".join(quote(one, safe="") for one in (file, tree))] = source

        def get_column_handle(self, columnsource: Any, name: str, allow_missing: bool) -> str:
            del columnsource, allow_missing
            return name

        def extract_column(self, columnhandle: str, start: int, stop: int, allow_missing: bool, **_: Any) -> ak.Array:
            del start, stop, allow_missing
            return self._column(columnhandle)

        def __len__(self) -> int:
            return int(self._stop - self._start)

        def __iter__(self) -> Iterator[str]:
            raise NotImplementedError

    return Columns
