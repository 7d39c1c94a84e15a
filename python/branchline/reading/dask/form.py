"""The form of a collection: a record of columns whose buffers say which branch they are read from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import awkward as ak
import numpy as np

from branchline.errors import BranchlineError, OptionError
from branchline.reading.arrays.layouts import BACKEND, layout_of
from branchline.reading.arrays.lazy import without_blocks
from branchline.reading.trees.selection import BranchField, Field, GroupField
from branchline.reading.trees.stream import Chunk
from branchline.reading.trees.tree import Tree

BUFFER_KEY = "{form_key}-{attribute}"
Buffers = dict[str, np.ndarray[Any, Any]]


class Mapped(Protocol):
    """Which columns the buffers of a form need: ours, or what a form mapping of uproot and coffea gives."""

    @property
    def behavior(self) -> Any:
        """The behaviour of the arrays."""
        ...

    @property
    def buffer_key(self) -> Any:
        """The names of buffers, as awkward takes them."""
        ...

    def parse_buffer_key(self, buffer_key: str) -> tuple[str, str]:
        """The key of the form and the attribute that a buffer's name is made of."""
        ...

    def keys_for_buffer_keys(self, buffer_keys: frozenset[str]) -> frozenset[str]:
        """The columns that are needed for buffers."""
        ...


class StoredColumns:
    """Columns of a tree by their names, each made of one branch or of several.

    ``form`` is that of a record array with a field for each; its buffers are read branch by branch.
    """

    behavior = None
    buffer_key = BUFFER_KEY

    def __init__(
        self, form: ak.forms.RecordForm, forms: Mapping[str, ak.forms.Form], fields: Mapping[str, tuple[str, ...]]
    ) -> None:
        self.form = form
        self._forms = dict(forms)
        self._branches_of_field = dict(fields)
        self._branch_by_key = {key: path for path, one in self._forms.items() for key in _keys_in(one)}

    @classmethod
    def of_tree(cls, tree: Tree, fields: Mapping[str, Field], texts: Mapping[str, str]) -> StoredColumns:
        """Those of fields of a tree; ``texts`` are attributes of branches under the names that forms have for them.
        Raises OptionError for attributes that they do not have.
        """
        maker = _FormMaker(tree, texts)
        form = maker.whole(fields)
        return cls(form, maker.forms, {name: tuple(field.paths()) for name, field in fields.items()})

    @classmethod
    def of_form(cls, form: ak.forms.Form) -> StoredColumns:
        """Those of a record of branches that somebody knows. Raises OptionError for another form."""
        if not form.is_record or form.is_tuple:
            raise OptionError("known_base_form is no record of branches", hint="give a RecordForm with their names")
        forms = {name: ak.forms.form_with_unique_keys(form.content(name), (name,)) for name in form.fields}
        record = ak.forms.RecordForm(list(forms.values()), form.fields, parameters=form.parameters, form_key="@events")
        return cls(record, forms, {name: (name,) for name in form.fields})

    def parse_buffer_key(self, buffer_key: str) -> tuple[str, str]:
        """The key of the form and the attribute that a buffer's name is made of."""
        form_key, _, attribute = buffer_key.rpartition("-")
        return form_key, attribute

    def keys_for_buffer_keys(self, buffer_keys: frozenset[str]) -> frozenset[str]:
        """The branches that are needed for buffers."""
        return frozenset(self._branch_by_key[self.parse_buffer_key(one)[0]] for one in buffer_keys)

    def branches(self, columns: frozenset[str] | None = None) -> frozenset[str]:
        """The branches that are meant by names of columns or by their own paths, or all. Raises OptionError for other
        names.
        """
        if columns is None:
            return frozenset(self._forms)
        meant: set[str] = set()
        for name in columns:
            if name not in self._forms and name not in self._branches_of_field:
                raise OptionError(f"there is no column {name!r}", hint="give names of fields of the collection")
            meant.update(self._branches_of_field.get(name, (name,)))
        return frozenset(meant)

    def empty(self, path: str) -> ak.contents.Content:
        """The column of a branch without entries."""
        return self._forms[path].length_zero_array()

    def buffers(self, layouts: Mapping[str, ak.contents.Content], path: str) -> Buffers:
        """The buffers of branches that were read of a file. Raises BranchlineError for another type than in the first
        file.
        """
        found: Buffers = {}
        for branch, layout in layouts.items():
            known = self._forms[branch]
            form, _, buffers = ak.to_buffers(without_blocks(layout))
            given = form.expected_from_buffers()
            wanted = known.expected_from_buffers(buffer_key=BUFFER_KEY)
            if form.type != known.type or list(given.values()) != list(wanted.values()):
                what = f"branch {branch} holds {form.type} here and {known.type} in the first file"
                raise BranchlineError(what, path=path, hint="make a collection of files of one kind")
            found |= {new: buffers[old] for old, new in zip(given, wanted, strict=True)}
        return found

    def filled(self, entries_count: int, needed: frozenset[str], found: Mapping[str, Any]) -> ak.Array:
        """The array of some entries; buffers of branches that are not needed are there by name only."""
        return filled(self, self.form, entries_count, needed, found)


def filled(
    mapped: Mapped, form: ak.forms.Form, entries_count: int, needed: frozenset[str], found: Mapping[str, Any]
) -> ak.Array:
    """The array of some entries; buffers that need other columns are there by name only."""
    container = {}
    for key, dtype in form.expected_from_buffers(buffer_key=mapped.buffer_key).items():
        if mapped.keys_for_buffer_keys(frozenset({key})) <= needed:
            container[key] = found[key]
        else:
            shape = (ak.typetracer.unknown_length,)
            container[key] = ak.typetracer.PlaceholderArray(nplike=BACKEND.nplike, shape=shape, dtype=dtype)
    return ak.from_buffers(
        form, entries_count, container, behavior=mapped.behavior, buffer_key=mapped.buffer_key, backend=BACKEND.name
    )


def joined(chunks: Sequence[Chunk], paths: Sequence[str]) -> dict[str, ak.contents.Content]:
    """The columns of chunks that follow each other, one after the other."""
    parts = [{path: layout_of(chunk.column(path)) for path in paths} for chunk in chunks]
    if len(parts) == 1:
        return parts[0]
    return {path: ak.concatenate([ak.Array(part[path]) for part in parts], highlevel=False) for path in paths}


class _FormMaker:
    """Makes the form of fields of a tree, and notes those of the branches in them."""

    def __init__(self, tree: Tree, texts: Mapping[str, str]) -> None:
        self._tree = tree
        self._texts = texts
        self.forms: dict[str, ak.forms.Form] = {}

    def whole(self, fields: Mapping[str, Field]) -> ak.forms.RecordForm:
        """The form of an array of these fields. Raises OptionError."""
        self._tree.shape.learn_types([path for field in fields.values() for path in field.paths()])
        form = self._record(fields, "@events")
        # A tree has no type, for one.
        texts = {key: getattr(self._tree, name, None) for key, name in self._texts.items()}
        return form.copy(parameters={key: text for key, text in texts.items() if text is not None} or None)

    def _record(self, fields: Mapping[str, Field], key: str) -> ak.forms.RecordForm:
        contents = []
        for name, field in fields.items():
            assert isinstance(field, BranchField | GroupField)
            if isinstance(field, GroupField):
                form: ak.forms.Form = self._record(field.members, f"{key}/{name}")
            else:
                stored = without_blocks(self._tree.shape.empty(field.path)).form
                form = self.forms[field.path] = ak.forms.form_with_unique_keys(stored, (field.path,))
            contents.append(self._documented(form, field.path) if self._texts else form)
        return ak.forms.RecordForm(contents, list(fields), form_key=key)

    def _documented(self, form: ak.forms.Form, path: str) -> ak.forms.Form:
        """A form with the attributes of a branch."""
        branch = self._tree[path]
        try:
            texts = {key: getattr(branch, name) for key, name in self._texts.items()}
        except (AttributeError, TypeError) as error:
            raise OptionError(f"ak_add_doc: {error}", hint='give a dict such as {"unit": "title"}') from None
        return form.copy(parameters={**form.parameters, **texts})


def _keys_in(form: ak.forms.Form) -> Iterator[str]:
    """The keys of a form and of all forms in it."""
    yield form.form_key
    if form.is_record or form.is_union:
        contents = form.contents
    else:
        contents = [] if form.is_numpy or form.is_unknown else [form.content]
    for content in contents:
        yield from _keys_in(content)


#: What a user gives to change a form: it gives the new one, and where its buffers come from.
FormMapping = Callable[[ak.forms.Form], tuple[ak.forms.Form, Any]]
