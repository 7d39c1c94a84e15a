"""File and Directory: mappings of the objects in an open ROOT file, and lookup of its keys."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from uuid import UUID
from weakref import WeakValueDictionary

from branchline.base.codecs import Compression
from branchline.base.limits import TREES_KEPT
from branchline.base.notebook import HTML_ROWS, html_table
from branchline.base.quantities import counted
from branchline.errors import NoSuchKeyError, OptionError, RecoveredFileWarning, UnsupportedBranchError, warn
from branchline.reading.access import Access, access_of
from branchline.reading.expressions.name_filters import name_filter, near_names_hint, with_near_names
from branchline.reading.locations import path_in_file, split_location, text_of
from branchline.reading.parquet.open_parquet import opened

if TYPE_CHECKING:
    from branchline import _core
    from branchline.reading.arrays.nesting import Shape
    from branchline.reading.trees.tree import Tree

DIRECTORIES = frozenset({"TDirectory", "TDirectoryFile"})
# Classes of collections whose items can be looked up by name.
LISTS = frozenset({"TList", "THashList", "TSortedList", "TObjArray", "TMap"})


class Directory:
    """Objects by name, with or without cycle: ``directory["tree;2"]``, ``directory["inner/tree/branch"]``.

    Trees are returned as Tree, directories as Directory, histograms, graphs and lists as classes of
    `branchline.reading.objects`, and objects of any other class as a Record of their members. Filters are a name, a
    glob pattern, a ``/regular expression/i``, a function, or a list of these; anything else raises OptionError.

    ``directory["name"]`` raises NoSuchKeyError with the nearest names, UnsupportedBranchError for an object of an
    unsupported class, BadFileError for a damaged one, and StorageError if the file cannot be read.

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
        found = list(self._keys())
        rows = [(f"{name};{key.cycle}", key.class_name, key.title) for name, key in found[:HTML_ROWS]]
        more = len(found) - len(rows)
        rest = f"{counted(more, 'more object')}: keys() lists all of them" if more else ""
        return html_table(f"{self.file_path} {self.object_path}", ("object", "class", "title"), rows, rest)

    def __reduce__(self) -> tuple[object, ...]:
        return Directory, (self._file, self._path)

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; trees that are already open can still be read."""
        self.file.close()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self.file.closed

    @property
    def file(self) -> File:
        """The file that contains the directory; a file returns itself."""
        return self._file

    @property
    def file_path(self) -> str:
        """Path of the file."""
        return self.file.path

    @property
    def object_path(self) -> str:
        """Path of the directory in the file, in uproot's notation: ``/`` for the file itself, else ``/folder/``."""
        return f"/{self._path}/" if self._path else "/"

    @property
    def cache_key(self) -> str:
        """A key that identifies this directory and its copies: the UUID of the file, and the path."""
        return f"{self.file.uuid}:{self.object_path}"

    @property
    def parent(self) -> Directory | None:
        """The parent directory; None for the file itself."""
        return self.file.directory_of(self._path) if self._path else None

    def _keys(
        self, recursive: bool = True, filter_name: object = None, filter_classname: object = None
    ) -> Iterator[tuple[str, _core.Key]]:
        """Iterate over pairs of relative name and key, directories before their content."""
        named, classed = name_filter(filter_name), name_filter(filter_classname, "filter_classname")
        seen = set()
        for key in self.file.keys_in(self._path, recursive=recursive):
            name = key.path[len(self._path) + 1 :] if self._path else key.path
            if (named is None or named(name)) and (classed is None or classed(key.class_name)):
                if (name, key.cycle) not in seen:
                    yield name, key
                seen.add((name, key.cycle))

    def iterkeys(
        self, *, recursive: bool = True, cycle: bool = True, filter_name: object = None, filter_classname: object = None
    ) -> Iterator[str]:
        """Like ``keys``, as an iterator."""
        return iter(
            self.keys(recursive=recursive, cycle=cycle, filter_name=filter_name, filter_classname=filter_classname)
        )

    def keys(
        self, *, recursive: bool = True, cycle: bool = True, filter_name: object = None, filter_classname: object = None
    ) -> list[str]:
        """Names of the objects, with their cycles as ``name;1``. ``recursive`` includes subdirectories.

        Raises OptionError for an invalid filter.

            >>> folder.keys(cycle=False)
            ['mass', 'momentum']
        """
        found = self._keys(recursive, filter_name, filter_classname)
        return list(dict.fromkeys(f"{name};{key.cycle}" if cycle else name for name, key in found))

    def iteritems(
        self, *, recursive: bool = True, cycle: bool = True, filter_name: object = None, filter_classname: object = None
    ) -> Iterator[tuple[str, Any]]:
        """Iterate over names and objects; with ``cycle=False`` only over the highest cycles. Raises
        UnsupportedBranchError at an object of an unsupported class.
        """
        for key in self.keys(
            recursive=recursive, cycle=cycle, filter_name=filter_name, filter_classname=filter_classname
        ):
            yield key, self.file.object_of(self._key(key))

    def items(self, **filters: Any) -> list[tuple[str, Any]]:
        """Like ``iteritems``, as a list, with the same errors."""
        return list(self.iteritems(**filters))

    def itervalues(self, **filters: Any) -> Iterator[Any]:
        """Like ``values``, as an iterator."""
        return (value for _, value in self.iteritems(**filters, cycle=False))

    def values(self, **filters: object) -> list[Any]:
        """List of the objects, with the filters and errors of ``iteritems``."""
        return list(self.itervalues(**filters))

    def classnames(
        self, *, recursive: bool = True, cycle: bool = True, filter_name: object = None, filter_classname: object = None
    ) -> dict[str, str]:
        """Class names of the objects by the names that ``keys`` returns.

        Raises OptionError for an invalid filter.

            >>> folder.classnames()
            {'mass;1': 'TH1D', 'momentum;1': 'TH1D'}
        """
        names: dict[str, str] = {}
        for name, key in self._keys(recursive, filter_name, filter_classname):
            names.setdefault(f"{name};{key.cycle}" if cycle else name, key.class_name)
        return names

    def iterclassnames(self, **filters: Any) -> Iterator[tuple[str, str]]:
        """Iterator over the items of ``classnames``."""
        return iter(self.classnames(**filters).items())

    def classname_of(self, name: str) -> str:
        """The class name of an object. Raises NoSuchKeyError."""
        return self._key(name).class_name

    def title_of(self, name: str) -> str:
        """The title of an object. Raises NoSuchKeyError."""
        return self._key(name).title

    def trees(self) -> list[str]:
        """Relative paths of the trees."""
        return list(dict.fromkeys(name for name, key in self._keys() if key.is_tree))

    def __iter__(self) -> Iterator[str]:
        return self.iterkeys()

    def __len__(self) -> int:
        return len(self.keys())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._found(name) is not None

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()

    def __getitem__(self, name: str) -> Any:
        """Return an object, or with ``tree/branch`` (or ``tree:branch``) a branch of a tree, or with ``list/name`` an
        item of a list.

        Raises NoSuchKeyError with the nearest names, UnsupportedBranchError for an object of an unsupported class.
        """
        key = self._found(name)
        if key is not None:
            return self.file.object_of(key)
        text = str(name)
        for place in (found.start() for found in reversed(list(re.finditer("[/:]", text)))):
            key = self._found(text[:place])
            if key is not None and (key.is_tree or key.class_name in LISTS):
                rest = text[place + 1 :].strip("/")
                return self.file.object_of(key)[rest]
            if key is not None and key.class_name not in DIRECTORIES:
                what = f"{text[:place]} is a {key.class_name} and contains no other objects"
                raise NoSuchKeyError(what, path=self.file_path, hint=near_names_hint(text, self.trees()))
        return self.file.object_of(self._key(name))

    def record(self, name: str) -> Any:
        """Return the stored members of an object, even if its class has a dedicated type such as Histogram.

        Raises NoSuchKeyError, and UnsupportedBranchError for a tree or a directory.
        """
        return self.file.record_of(self._key(name))

    def get(self, name: str, default: object = None) -> Any:
        """Return an object, or the default if it does not exist. Raises the other errors of ``directory[name]``."""
        try:
            return self[name]
        except NoSuchKeyError:
            return default

    def _found(self, name: object) -> _core.Key | None:
        if not isinstance(name, str):
            return None
        relative = path_in_file(name)
        return self.file.key_of(f"{self._path}/{relative}" if self._path else relative)

    def _key(self, name: object) -> _core.Key:
        key = self._found(name)
        if key is None:
            # Suggest trees first: they are the most likely target.
            names = list(dict.fromkeys([*self.trees(), *self.keys(cycle=False)]))
            where = f" in {self.object_path}" if self._path else ""
            raise NoSuchKeyError(
                f"no object {name!r}{where}", path=self.file_path, hint=near_names_hint(str(name), names)
            )
        return key


class File(Directory):
    """An open ROOT file: ``file["tree"]`` is a Tree, ``file["folder"]`` a Directory. Raises the errors of ``open``.

    A Parquet file looks like a file with a single tree, whose branches are its columns. ``size_bytes`` is the file
    size. Recently used trees are cached, so that opening them again costs nothing.

        >>> with branchline.open("file.root") as file:
        ...     pt = file["Events/Muon_pt"].array()
    """

    def __init__(self, path: str | bytes | os.PathLike[str], access: Access | str | None = None) -> None:
        self.access = access_of(access)
        core = opened(text_of(path), self.access)
        self._core = core
        # The cached function must not refer to this object: such a cycle would keep the file open until garbage
        # collection.
        self._shape_of = lru_cache(maxsize=TREES_KEPT)(partial(_shape_of, core))
        self._open_trees: WeakValueDictionary[str, Tree] = WeakValueDictionary()
        self._path = ""
        self._is_closed = False
        self.path: str = self._core.path
        self.size_bytes: int = self._core.size_bytes
        # Number of keys that were recovered because the file was never closed.
        self.recovered_count: int = self._core.recovered_count

    def __repr__(self) -> str:
        return f"<File {self.path}: {', '.join(self.trees()) or 'no trees'}>"

    def __reduce__(self) -> tuple[object, ...]:
        # Unpickling opens the file again, by its path.
        return File, (self.path, self.access)

    def __enter__(self) -> File:
        return self

    def close(self) -> None:
        """Close the file; trees that are already open can still be read."""
        self._is_closed = True
        self._shape_of.cache_clear()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._is_closed

    @property
    def file(self) -> File:
        """The file itself, for the common interface of directories."""
        return self

    @property
    def root_directory(self) -> File:
        """The file itself, which is its root directory."""
        return self

    @property
    def root_version(self) -> str:
        """The version of ROOT that wrote the file, such as ``6.32/02``."""
        return "{}.{:02d}/{:02d}".format(*self.root_version_tuple)

    @property
    def root_version_tuple(self) -> tuple[int, int, int]:
        """The version of ROOT that wrote the file, as (major, minor, patch)."""
        version = self._core.root_version % 1_000_000
        return version // 10_000, version // 100 % 100, version % 100

    @property
    def uuid(self) -> UUID:
        """The UUID that ROOT gave the file when it was created; zeros if the file has no UUID."""
        return UUID(bytes=bytes(self._core.uuid))

    @property
    def hex_uuid(self) -> str:
        """The UUID as hexadecimal digits in groups, for compatibility with uproot."""
        return str(self.uuid)

    @property
    def compression(self) -> Compression | None:
        """The compression setting of the file; None for no compression."""
        return Compression.of(self._core.compress)

    def keys_in(self, directory: str, *, recursive: bool = False) -> list[_core.Key]:
        """The keys in a directory, in file order; ``""`` is the root directory. With ``recursive``, the keys in its
        subdirectories are included, directories before their content.
        """
        return self._core.keys_below(directory) if recursive else self._core.keys_in(directory)

    def key_of(self, name: str) -> _core.Key | None:
        """Return the key of an object by its path, with the cycle after ``;``, or by default the newest cycle."""
        newest = next(iter(self._core.find(name)), None)
        if newest is not None:
            return newest
        path, _, cycle = name.rpartition(";")
        same = self._core.find(path) if cycle.removeprefix("-").isdecimal() else []
        return next((key for key in same if key.cycle == int(cycle)), None)

    def directory_of(self, path: str) -> Directory:
        """The directory that contains an object."""
        directory = path.rpartition("/")[0]
        key = self.key_of(directory)
        while directory and (key is None or key.class_name not in DIRECTORIES):
            directory = directory.rpartition("/")[0]
            key = self.key_of(directory)
        return Directory(self, directory) if directory else self

    def object_of(self, key: _core.Key) -> Any:
        """Return the object of a key. Raises UnsupportedBranchError for an unsupported class, and the errors of
        opening.
        """
        if key.class_name in DIRECTORIES:
            return Directory(self, key.path)
        if not key.is_tree:
            from branchline.reading.objects import object_record

            return object_record.made(self.record_of(key))
        with _other_objects_still_read():
            return self._tree_of(key)

    def _tree_of(self, key: _core.Key) -> Tree:
        """Return the tree of a key: the same object while a reference to it exists."""
        name = f"{key.path};{key.cycle}"
        tree = self._open_trees.get(name)
        if tree is None:
            from branchline.reading.trees.tree import Tree

            tree = self._open_trees[name] = Tree(self._shape_of(name), self, key.cycle)
        return tree

    def record_of(self, key: _core.Key) -> Any:
        """Return the object of a key as its members. Raises UnsupportedBranchError for a tree, a directory or an
        unsupported class.
        """
        # Imported lazily, because reading trees does not need histograms. Import the package, not one of its modules.
        # If another thread is importing the package, this waits until the package has registered its classes, which is
        # the last step of its import.
        from branchline.reading.objects import object_record

        name = f"{key.path};{key.cycle}"
        with _other_objects_still_read():
            column = self._core.object(name)
        origin = object_record.Origin(self.path, key.path, self._core.lineage, object_record.KeyPlace(self.path, name))
        return object_record.record_of(column, origin)

    def members_of_tree(self, object_path: str) -> Any:
        """The stored members of a TTree."""
        from branchline.reading.objects import object_record

        column = self._core.tree_members(object_path.lstrip("/"))
        origin = object_record.Origin(self.path, object_path.strip("/").partition(";")[0], self._core.lineage)
        return object_record.record_of(column, origin)

    @classmethod
    def another(cls, path: str) -> File:
        """Open another file with the default access mode. Raises the errors of opening."""
        return cls(path)

    def tree(self, name: str | None = None) -> Tree:
        """Return a tree by name, or by default the only tree of the file. Raises NoSuchKeyError."""
        from branchline.reading.trees.tree import Tree

        key = self._found(name) if name else None
        with with_near_names(name or "", self.trees):
            if key is not None and key.is_tree:
                return self._tree_of(key)
            return Tree(self._shape_of(name), self)


def _shape_of(core: Any, name: str | None) -> Shape:
    """Return the shape of a tree. Imports awkward, which takes half a second and is not needed for other objects."""
    from branchline.reading.arrays.nesting import Shape

    return Shape(core.tree(name))


@contextmanager
def _other_objects_still_read() -> Iterator[None]:
    """Add a hint to errors about unreadable objects: the rest of the file can still be read."""
    try:
        yield
    except UnsupportedBranchError as error:
        error.hint = "branchline cannot read this object yet; the other objects and trees of the file can still be read"
        raise


def open(location: object, *, access: Access | str | None = None, **options: object) -> Any:  # noqa: A001 - the name in uproot
    """Open ``file.root`` (a File), or ``file.root:tree`` or ``{"file.root": "tree"}`` (a Tree).

    A location is a path, or a URL: ``root://``, ``https://``, ``s3://``, ``file:/path`` or any scheme that fsspec
    supports. ``access`` selects how the file is read: a mode such as "planned", or a `branchline.Access`. Options of
    uproot for sources and caches are accepted and ignored. Raises MissingFileError, BadFileError, StorageError,
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
