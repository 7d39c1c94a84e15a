"""The form of a collection, and the mapping from its buffers to branches."""

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
Buffers = dict[str, np.ndarray]


class MappedForm(Protocol):
    """Maps the buffers of a form to columns, like `StoredColumns` and the form mappings of uproot and coffea."""

    @property
    def behavior(self) -> Any:
        """The awkward behavior of the arrays."""
        ...

    @property
    def buffer_key(self) -> Any:
        """The template of buffer names, as in awkward."""
        ...

    def parse_buffer_key(self, buffer_key: str) -> tuple[str, str]:
        """Split a buffer name into form key and attribute."""
        ...

    def keys_for_buffer_keys(self, buffer_keys: frozenset[str]) -> frozenset[str]:
        """Return the columns that are needed to create the buffers."""
        ...


class StoredColumns:
    """A tree's columns by name, each of which is created from one or more branches.

    ``form`` is a record form with one field per column. Buffers are read branch by branch.
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
        """Describe the columns for a tree's fields.

        ``texts`` maps the name of each form parameter to the branch attribute that contains its value. Raises
        OptionError for attributes that branches do not have.
        """
        maker = _FormMaker(tree, texts)
        form = maker.whole(fields)
        return cls(form, maker.forms, {name: tuple(field.paths()) for name, field in fields.items()})

    @classmethod
    def of_form(cls, form: ak.forms.Form) -> StoredColumns:
        """Create the columns for a known form with one field per branch. Raises OptionError for any other form."""
        if not form.is_record or form.is_tuple:
            raise OptionError(
                "known_base_form is not a record of branches", hint="give a RecordForm with a field for each branch"
            )
        forms = {name: ak.forms.form_with_unique_keys(form.content(name), (name,)) for name in form.fields}
        record = ak.forms.RecordForm(list(forms.values()), form.fields, parameters=form.parameters, form_key="@events")
        return cls(record, forms, {name: (name,) for name in form.fields})

    def parse_buffer_key(self, buffer_key: str) -> tuple[str, str]:
        """Split a buffer name into form key and attribute."""
        form_key, _, attribute = buffer_key.rpartition("-")
        return form_key, attribute

    def keys_for_buffer_keys(self, buffer_keys: frozenset[str]) -> frozenset[str]:
        """Return the branches that are needed to create the buffers."""
        return frozenset(self._branch_by_key[self.parse_buffer_key(one)[0]] for one in buffer_keys)

    def branches(self, columns: frozenset[str] | None = None) -> frozenset[str]:
        """Return the branches of the columns with these names or branch paths; for None, of all columns.

        Raises OptionError for unknown names.
        """
        if columns is None:
            return frozenset(self._forms)
        meant: set[str] = set()
        for name in columns:
            if name not in self._forms and name not in self._branches_of_field:
                raise OptionError(f"unknown column {name!r}", hint="give names of fields of the collection")
            meant.update(self._branches_of_field.get(name, (name,)))
        return frozenset(meant)

    def empty(self, path: str) -> ak.contents.Content:
        """Return a branch's column with zero entries."""
        return self._forms[path].length_zero_array()

    def buffers(self, layouts: Mapping[str, ak.contents.Content], path: str) -> Buffers:
        """Return the buffers of branches that were read from a file.

        Raises BranchlineError if a branch has a different type than in the first file.
        """
        found: Buffers = {}
        for branch, layout in layouts.items():
            known = self._forms[branch]
            form, _, buffers = ak.to_buffers(without_blocks(layout))
            given = form.expected_from_buffers()
            wanted = known.expected_from_buffers(buffer_key=BUFFER_KEY)
            if form.type != known.type or list(given.values()) != list(wanted.values()):
                what = f"branch {branch} has type {form.type}, but type {known.type} in the first file"
                raise BranchlineError(
                    what, path=path, hint="create separate collections for files with different types"
                )
            found |= {new: buffers[old] for old, new in zip(given, wanted, strict=True)}
        return found

    def filled(self, entries_count: int, needed: frozenset[str], found: Mapping[str, object]) -> ak.Array:
        """Create an array with placeholders for the buffers of branches that are not needed."""
        return filled(self, self.form, entries_count, needed, found)


def filled(
    mapped: MappedForm, form: ak.forms.Form, entries_count: int, needed: frozenset[str], found: Mapping[str, object]
) -> ak.Array:
    """Create an array with placeholders for the buffers that depend on columns that are not needed."""
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
    """Concatenate the columns of consecutive chunks."""
    parts = [{path: layout_of(chunk.column(path)) for path in paths} for chunk in chunks]
    if len(parts) == 1:
        return parts[0]
    return {path: ak.concatenate([ak.Array(part[path]) for part in parts], highlevel=False) for path in paths}


class _FormMaker:
    """Creates the form of a tree's fields, and collects the forms of the fields' branches."""

    def __init__(self, tree: Tree, texts: Mapping[str, str]) -> None:
        self._tree = tree
        self._texts = texts
        self.forms: dict[str, ak.forms.Form] = {}

    def whole(self, fields: Mapping[str, Field]) -> ak.forms.RecordForm:
        """Return the form of an array with the given fields. Raises OptionError."""
        self._tree.shape.learn_types([path for field in fields.values() for path in field.paths()])
        form = self._record(fields, "@events")
        # The default is None, because a tree lacks some attributes of branches, such as the type.
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
        """Add a branch's attributes to the form of the branch."""
        branch = self._tree[path]
        try:
            texts = {key: getattr(branch, name) for key, name in self._texts.items()}
        except (AttributeError, TypeError) as error:
            raise OptionError(f"ak_add_doc: {error}", hint='give a dict such as {"unit": "title"}') from None
        return form.copy(parameters={**form.parameters, **texts})


def _keys_in(form: ak.forms.Form) -> Iterator[str]:
    """Yield the keys of a form and of all nested forms."""
    yield form.form_key
    if form.is_record or form.is_union:
        contents = form.contents
    else:
        contents = [] if form.is_numpy or form.is_unknown else [form.content]
    for content in contents:
        yield from _keys_in(content)


#: Function provided by the user that maps a form to a new form and an object that locates the buffers of the new form.
FormMapping = Callable[[ak.forms.Form], tuple[ak.forms.Form, Any]]
