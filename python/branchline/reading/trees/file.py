"""File and Directory: the objects of an open ROOT file, as mappings, and the keys by which they are found."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from uuid import UUID
from weakref import WeakValueDictionary

from branchline.base.limits import TREES_KEPT
from branchline.base.notebook import HTML_ROWS, html_table
from branchline.base.quantities import counted
from branchline.errors import NoSuchKeyError, OptionError, RecoveredFileWarning, UnsupportedBranchError, warn
from branchline.reading.access import Access, access_of
from branchline.reading.expressions.name_filters import name_filter, near_names_hint, with_near_names
from branchline.reading.locations import split_location, text_of
from branchline.reading.parquet.open_parquet import opened
from branchline.reading.trees.compression import Compression

if TYPE_CHECKING:
    from branchline import _core
    from branchline.reading.arrays.nesting import Shape
    from branchline.reading.trees.tree import Tree

DIRECTORIES = frozenset({"TDirectory", "TDirectoryFile"})
# Classes of objects that others are found in by their names.
LISTS = frozenset({"TList", "THashList", "TSortedList", "TObjArray", "TMap"})
# The cycle of a directory that is passed through.
CYCLE_BEFORE_SLASH = re.compile(r";\d+(?=/)")


class Directory:
    """Objects by their names, with or without cycle: ``directory["tree;2"]``, ``directory["inner/tree/branch"]``.

    Trees come as Tree, directories as Directory, histograms, graphs and lists as what `branchline.reading.objects` has
    for them, and objects of any other class as a Record of their members. Filters are a name, a text with wildcards, a
    ``/regular expression/i``, a function, or several of these; anything else raises OptionError.

    ``directory["name"]`` raises NoSuchKeyError with the nearest names, UnsupportedBranchError for an object that is not
    read, BadFileError for a damaged one, and StorageError where the file cannot be read.

        >>> folder = branchline.open("file.root")["folder"]
        >>> folder.keys(filter_classname="TH1*")
        ['mass;1', 'momentum;1']
        >>> folder["mass"].values()
    """

    def __init__(self, file: File, path: str) -> None:
        self._file = file
        self._path = path

    def __repr__(self) -> str:
        return f"<Directory {self.object_path} of {self.file_path}>"

    def _repr_html_(self) -> str:
        found = list(self._entries())
        rows = [(f"{name};{entry.cycle}", entry.classname, entry.title) for name, entry in found[:HTML_ROWS]]
        more = len(found) - len(rows)
        rest = f"{counted(more, 'more object')}: keys() has all of them" if more else ""
        return html_table(f"{self.file_path} {self.object_path}", ("object", "class", "title"), rows, rest)

    def __reduce__(self) -> tuple[Any, ...]:
        return Directory, (self._file, self._path)

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; trees that are open can still be read."""
        self.file.close()

    @property
    def closed(self) -> bool:
        """Whether the file was closed."""
        return self.file.closed

    @property
    def file(self) -> File:
        """The file that it is in, which a file is itself."""
        return self._file

    @property
    def file_path(self) -> str:
        """Path of the file."""
        return self.file.path

    @property
    def object_path(self) -> str:
        """Where it is in the file, as uproot writes it: ``/`` for the file itself, else ``/folder/``."""
        return f"/{self._path}/" if self._path else "/"

    @property
    def cache_key(self) -> str:
        """A text that no other directory of any file has but a copy: the identifier of the file, and the place."""
        return f"{self.file.uuid}:{self.object_path}"

    @property
    def parent(self) -> Directory | None:
        """The directory that it is in; None for the file itself."""
        return self.file.directory_of(self._path) if self._path else None

    def _entries(
        self, recursive: bool = True, filter_name: Any = None, filter_classname: Any = None
    ) -> Iterator[tuple[str, Entry]]:
        """Names relative to it and entries, a directory before what is in it."""
        named, classed = name_filter(filter_name), name_filter(filter_classname, "filter_classname")
        seen = set()
        for entry in self.file.entries.below(self._path) if recursive else self.file.entries.inside(self._path):
            name = entry.path[len(self._path) + 1 :] if self._path else entry.path
            if (named is None or named(name)) and (classed is None or classed(entry.classname)):
                if (name, entry.cycle) not in seen:
                    yield name, entry
                seen.add((name, entry.cycle))

    def iterkeys(
        self, *, recursive: bool = True, cycle: bool = True, filter_name: Any = None, filter_classname: Any = None
    ) -> Iterator[str]:
        """An iterator over ``keys``."""
        return iter(
            self.keys(recursive=recursive, cycle=cycle, filter_name=filter_name, filter_classname=filter_classname)
        )

    def keys(
        self, *, recursive: bool = True, cycle: bool = True, filter_name: Any = None, filter_classname: Any = None
    ) -> list[str]:
        """Names of the objects, with their cycles as ``name;1`` and with ``recursive`` those in directories too.

        Raises OptionError for an invalid filter.

            >>> folder.keys(cycle=False)
            ['mass', 'momentum']
        """
        found = self._entries(recursive, filter_name, filter_classname)
        return list(dict.fromkeys(f"{name};{entry.cycle}" if cycle else name for name, entry in found))

    def iteritems(
        self, *, recursive: bool = True, cycle: bool = True, filter_name: Any = None, filter_classname: Any = None
    ) -> Iterator[tuple[str, Any]]:
        """Names and objects; without ``cycle`` those of the highest. Raises UnsupportedBranchError at one that is not
        read.
        """
        for key in self.keys(
            recursive=recursive, cycle=cycle, filter_name=filter_name, filter_classname=filter_classname
        ):
            yield key, self.file.object_of(self._entry(key))

    def items(self, **filters: Any) -> list[tuple[str, Any]]:
        """What ``iteritems`` gives, as a list. Raises what it raises."""
        return list(self.iteritems(**filters))

    def itervalues(self, **filters: Any) -> Iterator[Any]:
        """An iterator over ``values``."""
        return (value for _, value in self.iteritems(**filters, cycle=False))

    def values(self, **filters: Any) -> list[Any]:
        """The objects, with the filters of ``iteritems``, and its errors."""
        return list(self.itervalues(**filters))

    def classnames(
        self, *, recursive: bool = True, cycle: bool = True, filter_name: Any = None, filter_classname: Any = None
    ) -> dict[str, str]:
        """Classes of the objects by the names that ``keys`` gives.

        Raises OptionError for an invalid filter.

            >>> folder.classnames()
            {'mass;1': 'TH1D', 'momentum;1': 'TH1D'}
        """
        names: dict[str, str] = {}
        for name, entry in self._entries(recursive, filter_name, filter_classname):
            names.setdefault(f"{name};{entry.cycle}" if cycle else name, entry.classname)
        return names

    def iterclassnames(self, **filters: Any) -> Iterator[tuple[str, str]]:
        """What ``classnames`` gives, pair by pair."""
        return iter(self.classnames(**filters).items())

    def classname_of(self, name: str) -> str:
        """The class of an object. Raises NoSuchKeyError."""
        return self._entry(name).classname

    def title_of(self, name: str) -> str:
        """The title of an object. Raises NoSuchKeyError."""
        return self._entry(name).title

    def trees(self) -> list[str]:
        """Paths of the trees, relative to it."""
        return list(dict.fromkeys(name for name, entry in self._entries() if entry.is_tree))

    def __iter__(self) -> Iterator[str]:
        return self.iterkeys()

    def __len__(self) -> int:
        return len(self.keys())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._found(name) is not None

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()

    def __getitem__(self, name: str) -> Any:
        """An object, or with ``tree/branch`` (or ``tree:branch``) a branch of a tree, and with ``list/name`` an object
        of a list.

        Raises NoSuchKeyError with the nearest names, UnsupportedBranchError for an object that is not read.
        """
        entry = self._found(name)
        if entry is not None:
            return self.file.object_of(entry)
        text = str(name)
        for place in (found.start() for found in reversed(list(re.finditer("[/:]", text)))):
            entry = self._found(text[:place])
            if entry is not None and (entry.is_tree or entry.classname in LISTS):
                rest = text[place + 1 :].strip("/")
                return self.file.object_of(entry)[rest]
            if entry is not None and not entry.is_directory:
                what = f"{text[:place]} is a {entry.classname} and has nothing in it"
                raise NoSuchKeyError(what, path=self.file_path, hint=near_names_hint(text, self.trees()))
        return self.file.object_of(self._entry(name))

    def record(self, name: str) -> Any:
        """An object as the members that are stored of it, also where it would come as a histogram or the like.

        Raises NoSuchKeyError, and UnsupportedBranchError for a tree or a directory.
        """
        return self.file.record_of(self._entry(name))

    def get(self, name: str, default: Any = None) -> Any:
        """An object, or a default where there is none. Raises the other errors of ``directory[name]``."""
        try:
            return self[name]
        except NoSuchKeyError:
            return default

    def _found(self, name: object) -> Entry | None:
        if not isinstance(name, str):
            return None
        relative = CYCLE_BEFORE_SLASH.sub("", re.sub("/+", "/", name).strip("/"))
        return self.file.entries.find(f"{self._path}/{relative}" if self._path else relative)

    def _entry(self, name: object) -> Entry:
        entry = self._found(name)
        if entry is None:
            # Trees first: they are most often meant.
            names = list(dict.fromkeys([*self.trees(), *self.keys(cycle=False)]))
            where = f" in {self.object_path}" if self._path else ""
            raise NoSuchKeyError(
                f"there is no object {name!r}{where}", path=self.file_path, hint=near_names_hint(str(name), names)
            )
        return entry


class File(Directory):
    """An open ROOT file: ``file["tree"]`` is a Tree, ``file["folder"]`` a Directory. Raises what ``open`` raises.

    A Parquet file is one with a single tree, whose branches are the columns. ``size_bytes`` is its size.
    It keeps the trees that were opened last, so that opening them again costs nothing.

        >>> with branchline.open("file.root") as file:
        ...     pt = file["Events/Muon_pt"].array()
    """

    def __init__(self, path: str | bytes | os.PathLike[str], access: Access | str | None = None) -> None:
        self.access = access_of(access)
        core = opened(text_of(path), self.access)
        self._core = core
        # It refers to the engine's file alone: with this object in it, both would live until Python looks for circles.
        self._shape_of = lru_cache(maxsize=TREES_KEPT)(partial(_shape_of, core))
        self._open_trees: WeakValueDictionary[str, Tree] = WeakValueDictionary()
        self._path = ""
        self.entries = Entries(core)
        self._is_closed = False
        self.path: str = self._core.path
        self.size_bytes: int = self._core.size_bytes
        # Keys that had to be found again, as the file was never closed.
        self.recovered_count: int = self._core.recovered_count

    def __repr__(self) -> str:
        return f"<File {self.path}: {', '.join(self.trees()) or 'no trees'}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # Whoever unpickles it opens the file again, by its path.
        return File, (self.path, self.access)

    def __enter__(self) -> File:
        return self

    def close(self) -> None:
        """Closes the file; trees that are open can still be read."""
        self._is_closed = True
        self._shape_of.cache_clear()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._is_closed

    @property
    def file(self) -> File:
        """The file itself."""
        return self

    @property
    def root_directory(self) -> File:
        """The file itself, which is its top directory."""
        return self

    @property
    def root_version(self) -> str:
        """The version of ROOT that wrote it, as ``6.32/02``."""
        return "{}.{:02d}/{:02d}".format(*self.root_version_tuple)

    @property
    def root_version_tuple(self) -> tuple[int, int, int]:
        """The version of ROOT that wrote it."""
        version = self._core.root_version % 1_000_000
        return version // 10_000, version // 100 % 100, version % 100

    @property
    def uuid(self) -> UUID:
        """The identifier that ROOT gave the file when it was made; zeros if it has none."""
        return UUID(bytes=bytes(self._core.uuid))

    @property
    def hex_uuid(self) -> str:
        """The same as hexadecimal digits in groups, under uproot's name."""
        return str(self.uuid)

    @property
    def compression(self) -> Compression | None:
        """The setting of compression that the file was written with; None for no compression."""
        return Compression.of(self._core.compress)

    def directory_of(self, path: str) -> Directory:
        """The directory that an object is in."""
        directory = path.rpartition("/")[0]
        entry = self.entries.find(directory)
        while directory and (entry is None or not entry.is_directory):
            directory = directory.rpartition("/")[0]
            entry = self.entries.find(directory)
        return Directory(self, directory) if directory else self

    def object_of(self, entry: Entry) -> Any:
        """The object of a key. Raises UnsupportedBranchError for one that is not read, and what opening raises."""
        if entry.is_directory:
            return Directory(self, entry.path)
        if not entry.is_tree:
            from branchline.reading.objects.object_record import made

            return made(self.record_of(entry))
        with _other_objects_still_read():
            return self._tree_of(entry)

    def _tree_of(self, entry: Entry) -> Tree:
        """The tree of a key: the same object for as long as somebody holds it."""
        key = f"{entry.path};{entry.cycle}"
        tree = self._open_trees.get(key)
        if tree is None:
            from branchline.reading.trees.tree import Tree

            tree = self._open_trees[key] = Tree(self._shape_of(key), self, entry.cycle)
        return tree

    def record_of(self, entry: Entry) -> Any:
        """The object of a key as its members. Raises UnsupportedBranchError for a tree or a directory, and for what is
        not read.
        """
        # Those who only read trees start sooner without histograms.
        from branchline.reading.objects.object_record import KeyPlace, Origin, record_of

        key = f"{entry.path};{entry.cycle}"
        with _other_objects_still_read():
            column = self._core.object(key)
        return record_of(column, Origin(self.path, entry.path, self._core.lineage, KeyPlace(self.path, key)))

    def members_of_tree(self, object_path: str) -> Any:
        """A TTree as the members that are stored of it."""
        from branchline.reading.objects.object_record import Origin, record_of

        column = self._core.tree_members(object_path.lstrip("/"))
        return record_of(column, Origin(self.path, object_path.strip("/").partition(";")[0], self._core.lineage))

    @classmethod
    def another(cls, path: str) -> File:
        """Another file, opened with the usual access. Raises what opening raises."""
        return cls(path)

    def tree(self, name: str | None = None) -> Tree:
        """A tree by its name, or the only one of the file. Raises NoSuchKeyError."""
        from branchline.reading.trees.tree import Tree

        entry = self._found(name) if name else None
        with with_near_names(name or "", self.trees):
            if entry is not None and entry.is_tree:
                return self._tree_of(entry)
            return Tree(self._shape_of(name), self)


def _shape_of(core: Any, name: str | None) -> Shape:
    """The shape of a tree. Only trees need awkward, which takes half a second to import."""
    from branchline.reading.arrays.nesting import Shape

    return Shape(core.tree(name))


@contextmanager
def _other_objects_still_read() -> Iterator[None]:
    """The hint for an object that cannot be read: which objects of the file can."""
    try:
        yield
    except UnsupportedBranchError as error:
        error.hint = "branchline cannot read this object yet; the other objects and trees of the file still read"
        raise


@dataclass(frozen=True)
class Entry:
    """An object of a file, by the path of the directories that lead to it."""

    path: str
    cycle: int
    classname: str
    title: str
    is_tree: bool

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return self.classname in DIRECTORIES


class Entries:
    """The objects of a file, in its order. A directory is read at its first use."""

    def __init__(self, core: _core.File) -> None:
        self._core = core

    def inside(self, directory: str) -> list[Entry]:
        """The objects right in a directory; the file itself is ``""``."""
        return [_entry(key) for key in self._core.keys_in(directory)]

    def below(self, directory: str) -> list[Entry]:
        """All objects in a directory and in those within it, a directory before what is in it."""
        return [_entry(key) for key in self._core.keys_below(directory)]

    def find(self, name: str) -> Entry | None:
        """The object with this path, of the cycle after ``;`` or the newest."""
        newest = next(iter(self._core.find(name)), None)
        if newest is not None:
            return _entry(newest)
        path, _, cycle = name.rpartition(";")
        same = [_entry(key) for key in self._core.find(path)] if cycle.removeprefix("-").isdecimal() else []
        return next((entry for entry in same if entry.cycle == int(cycle)), None)


def _entry(key: _core.Key) -> Entry:
    return Entry(key.path, key.cycle, key.class_name, key.title, key.is_tree)


def open(location: Any, *, access: Access | str | None = None, **options: Any) -> Any:  # noqa: A001 - uproot's name, so that scripts move over
    """Opens ``file.root`` (a File), or ``file.root:tree`` or ``{"file.root": "tree"}`` (a Tree).

    A location is a path, or a URL: ``root://``, ``https://``, ``s3://``, ``file:/path`` or any that fsspec knows.
    ``access`` says how the file is read: a mode such as "planned", or a `branchline.Access`. Options of uproot for how
    it reads and what it keeps are accepted and not used. Raises MissingFileError, BadFileError, StorageError,
    NoSuchKeyError, OptionError. A file that was never closed is recovered, with a RecoveredFileWarning.

        >>> branchline.open("file.root").keys()
        ['Events;1', 'folder;1', 'folder/mass;1', 'folder/momentum;1']
        >>> branchline.open("file.root:Events").num_entries
        3
    """
    if options:
        from branchline.reading.request import check_opening_options

        check_opening_options(options)
    if isinstance(location, Mapping) and len(location) == 1:
        path, tree = next(iter(location.items()))
        path = text_of(path)
    elif isinstance(location, str | bytes | os.PathLike):
        path, tree = split_location(text_of(location))
    else:
        raise OptionError(
            f"{type(location).__name__} cannot be opened",
            hint='give a path, "file.root:tree", or {"file.root": "tree"}',
        )
    file = File(path, access)
    if file.recovered_count:
        from branchline.reading.trees.tree_steps import recovered

        warn(recovered(file.path, file.recovered_count), RecoveredFileWarning)
    return file if tree is None else file[tree]
