"""WritableFile and WritableDirectory: mappings from names to objects that write each new item to a ROOT file."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

from branchline import _core
from branchline.base.codecs import DEFAULT_CODEC
from branchline.errors import (
    BadFileError,
    BranchlineError,
    BranchlineWarning,
    NoSuchKeyError,
    OptionError,
    StorageError,
    UnsupportedBranchError,
    warn,
)
from branchline.reading.trees.file import Directory, File
from branchline.reading.trees.tree import Tree
from branchline.writing.objects.written_object import object_bytes
from branchline.writing.recreate.copies import Differences, Input, ReadObject, foreign_file, opened_directory, source_of
from branchline.writing.recreate.destinations import Destination, begin_file, begin_update, destination_of
from branchline.writing.recreate.existing_tree import StreamedTree, not_copied_error, object_in_file
from branchline.writing.recreate.values import (
    Columns,
    Naming,
    description_of,
    given_counters,
    named_columns,
    table_of,
    types_or_data,
    whole_columns,
    without,
)
from branchline.writing.recreate.writable_tree import WritableTree, codec_of, new_table

_CYCLE = re.compile(r";(-?\d+)$")
_TABLES = ("ROOT::RNTuple", "TTree")
#: Files that are open for writing, by process ID and real path.
_OPEN: weakref.WeakValueDictionary[tuple[int, str], WritableFile] = weakref.WeakValueDictionary()


def recreate(path: object, *, compression: object = DEFAULT_CODEC) -> WritableFile:
    """Create a ROOT file. An existing file is replaced as soon as the first object or tree is written.

    ``path`` is a local path (parent folders are created), a URL for fsspec, or an open file. URLs and open files
    receive the content when the file is closed. A local file is valid and complete after each write, even if the
    process is killed or the disk is full; only the last entries of a tree that grows in small steps may be missing.
    ``compression`` is, for example, ``"zstd:5"``, ``"lz4"``, ROOT's ``505``, uproot's ``ZLIB(4)``, or None. Raises
    StorageError and OptionError.

        >>> with branchline.recreate("out.root") as file:
        ...     file["events"] = {"x": np.arange(3), "pt": ak.Array([[1.5], [], [2.5, 3.5]])}
        ...     file["plots/h"] = np.histogram([1, 2, 2])
    """
    codec, destination = codec_of(compression), _free_destination(path)
    return WritableFile(destination, begin_file(destination, codec, replace=True), codec=codec)


def create(path: object, *, compression: object = DEFAULT_CODEC) -> WritableFile:
    """Create a ROOT file like `recreate`, but never replace an existing file.

    Raises TakenNameError (a FileExistsError) if the file already exists, StorageError, and OptionError.

        >>> with branchline.create("new.root") as file:
        ...     file["events"] = {"x": [1.0, 2.0]}
    """
    codec, destination = codec_of(compression), _free_destination(path)
    return WritableFile(destination, begin_file(destination, codec, replace=False), codec=codec)


def update(path: object, *, compression: object = None) -> WritableFile:
    """Open a ROOT file to add objects to a copy of it. The copy replaces the file when the first object is written.

    The disk needs space for the file and the copy. After the replacement, the file is valid at any time.
    By default, new objects use the file's compression, and new trees zstd:5; ``compression`` applies to both.

    Raises MissingFileError, BadFileError, StorageError, OptionError, and UnsupportedBranchError for a file that cannot
    be extended.

        >>> with branchline.update("file.root") as file:
        ...     file["note"] = "calibrated again"
        >>> branchline.open("file.root").classnames(cycle=False)["note"]
        'TObjString'
    """
    codec = None if compression is None else codec_of(compression)
    destination = _free_destination(path)
    return WritableFile(destination, begin_update(destination, codec), codec=codec)


def _free_destination(path: object) -> Destination:
    """Return the destination of a file. If this process still has the path open, close the earlier file: this happens
    when a notebook cell is run again.
    """
    destination = destination_of(path)
    earlier = _OPEN.pop((os.getpid(), os.path.realpath(destination.path)), None)
    if earlier is not None:
        earlier.close()
    return destination


def _finish(core: _core.WritableFile, destination: Destination, process: int) -> None:
    """Close a file that the user never closed, unless this process is a fork that inherited the file."""
    if os.getpid() == process:
        try:
            core.finish()
            destination.deliver()
        except StorageError as error:
            warn(f"{destination.name} is not complete: {error}", BranchlineWarning)
        finally:
            destination.discard()


class WritableDirectory(Mapping[str, object]):
    """A directory in a file that is being written: a mapping from names to objects. Setting an item writes the object;
    if the name exists, the new object gets the next cycle, ``name;2``.

    Raises OptionError for objects that cannot be written, and StorageError once the file is closed.

        >>> with branchline.recreate("out.root") as file:
        ...     plots = file.mkdir("plots")
        ...     plots["note"] = "none yet"
        ...     file.keys(cycle=False)
        ['plots', 'plots/note']
    """

    __slots__ = ("_owner", "_path")  # setting any other attribute would have no effect, so it raises

    def __init__(self, file: WritableFile | None, path: str) -> None:
        self._owner = file
        self._path = path

    @property
    def file_path(self) -> str:
        """Path of the file."""
        return self.file.file_path

    @property
    def path(self) -> tuple[str, ...]:
        """Names of the parent directories and of this directory. The property has the same name in uproot."""
        return tuple(self._path.split("/")) if self._path else ()

    @property
    def file(self) -> WritableFile:
        """File that contains this directory."""
        assert self._owner is not None  # a file is its own owner
        return self._owner

    def __repr__(self) -> str:
        return f"<WritableDirectory {'/' + self._path!r} of {self.file_path!r}>"

    def _keys(self) -> Iterator[tuple[str, _core.WrittenKey]]:
        """Yield the relative path and the key of each object below this directory."""
        begin = f"{self._path}/" if self._path else ""
        for key in self.file.written().keys():
            if key.path.startswith(begin):
                yield key.path.removeprefix(begin), key

    def keys(self, *, recursive: bool = True, cycle: bool = True) -> list[str]:  # type: ignore[override]
        """Return the names of all objects in this directory and its subdirectories, with their cycles.

        >>> with branchline.recreate("out.root") as file:
        ...     file["plots/note"] = "none yet"
        ...     file.keys(), file.keys(recursive=False, cycle=False)
        (['plots;1', 'plots/note;1'], ['plots'])
        """
        found = [f"{path};{key.cycle}" if cycle else path for path, key in self._keys() if recursive or "/" not in path]
        return list(dict.fromkeys(found))

    def classnames(self, *, recursive: bool = True, cycle: bool = True) -> dict[str, str]:
        """Return the class names of all objects in this directory and its subdirectories, by object name.

        >>> with branchline.recreate("out.root") as file:
        ...     file["note"] = "none yet"
        ...     file.classnames()
        {'note;1': 'TObjString'}
        """
        return {
            f"{path};{key.cycle}" if cycle else path: key.class_name
            for path, key in self._keys()
            if recursive or "/" not in path
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def _find(self, name: str) -> _core.WrittenKey | None:
        """Return the key with this name; without a cycle in the name, the newest key."""
        wanted = _CYCLE.search(name)
        path = _CYCLE.sub("", name).strip("/")
        found = [key for one, key in self._keys() if one == path and (wanted is None or key.cycle == int(wanted[1]))]
        return found[-1] if found else None

    def _no_such(self, name: str) -> NoReturn:
        hint = f"there are {', '.join(self.keys()[:8])}" if len(self) else "nothing is written yet"
        raise NoSuchKeyError(f"no object {name!r}", path=self.file_path, hint=hint)

    def __getitem__(self, name: str) -> object:
        """Return a directory, a tree that is being filled, or an object or tree read from the file.

        Raises NoSuchKeyError and read errors.
        """
        key = self._find(name)
        if key is None:
            self._no_such(name)
        if key.class_name.startswith("TDirectory"):
            return WritableDirectory(self.file, key.path)
        return self.file.object_of(key)

    def __setitem__(self, name: str, value: object) -> None:
        """Write a table, a histogram, a string, or an object from a file. Names may be paths, such as ``"dir/h"``.

        A table becomes an RNTuple, as in uproot since version 5.7; use `mktree` for a TTree. An opened tree, as in
        ``file["t"] = other["t"]``, is copied with all its branches, basket by basket.
        Raises OptionError, UnsupportedBranchError, StorageError, and read errors.
        """
        self._write(name, value)
        self.file.written().publish()

    def _write(self, name: str, value: object) -> None:
        directories, own = self._place(name)
        if isinstance(value, Tree):
            self._copy_tree(name, value)
            return
        if (table := table_of(value)) is not None:
            columns, data = table
            self._filled(name, self._table(name, columns, description_of(value), Naming(), is_ntuple=True), data)
            return
        source = source_of(value)
        if source is not None and self.file.copied(source, directories, own):
            return
        with foreign_file(value, own, self.file_path) as foreign:
            if foreign is not None:
                self.file.written().copy(foreign._core, own, directories, own, Differences())
                return
        for one in object_bytes(value, own, self.file_path):
            places = [*directories, *((own, *one.below[:-1]) if one.below else ())]
            name_of_one = one.below[-1] if one.below else own
            self.file.written().add(places, one.class_name, name_of_one, one.title, one.content)

    def _copy_tree(self, name: str, source: Tree) -> None:
        """Copy a tree basket by basket; if this is not possible, write the tree's values."""
        opened = source.file
        if not isinstance(opened, File):
            self._stream(name, source)
            return
        directories, own = self._place(name)
        path = source.object_path.lstrip("/")
        try:
            left_out = self.file.written().copy_tree(opened._core, path, directories, own, self.file.codec)
        except (BadFileError, UnsupportedBranchError) as not_copied:
            try:
                self._stream(name, source)
            except (BadFileError, UnsupportedBranchError) as not_written:
                raise not_copied_error(source, not_copied, not_written) from not_written
            return
        if left_out:
            warn(f"not copied from tree {path} of {source.file_path}: {', '.join(left_out)}", BranchlineWarning)

    def _stream(self, name: str, source: Tree) -> None:
        """Write the values of a tree; if reading fails, the new tree is removed."""
        given = StreamedTree.of(source)
        written = self._table(name, given.columns, source.title, given.naming, is_ntuple=source.outline.nests)
        with self._removed_if_it_fails(name, written):
            for part in given.steps():
                written._extend(named_columns(part))

    def _filled(self, name: str, written: WritableTree, given: Columns) -> WritableTree:
        """Fill a new tree with the first entries; remove the tree if the entries cannot be written."""
        if given:
            with self._removed_if_it_fails(name, written):
                written._extend(given)
        self.file.written().publish()
        return written

    @contextmanager
    def _removed_if_it_fails(self, name: str, written: WritableTree) -> Iterator[None]:
        """Context manager that removes a new tree if filling the tree fails."""
        try:
            yield
        except BaseException:
            # Remove only the new cycle, because older cycles of the name may exist.
            cycles = [key.cycle for path, key in self._keys() if path == name.strip("/")]
            self.file.written().remove(written.path, cycles[-1])
            raise

    def __delitem__(self, name: str) -> None:
        """Remove an object or one cycle (``"h;1"``); the file keeps its size. Raises NoSuchKeyError, StorageError."""
        wanted = _CYCLE.search(name)
        if self._find(name) is None:
            self._no_such(name)
        path = "/".join([*self.path, _CYCLE.sub("", name).strip("/")])
        self.file.written().remove(path, int(wanted[1]) if wanted else None)
        self.file.forget(path)
        self.file.written().publish()

    def update(self, values: Mapping[str, object]) -> None:
        """Write several objects.

        >>> with branchline.recreate("out.root") as file:
        ...     file.update({"note": "none yet", "events": {"x": [1, 2]}})
        ...     file.keys(cycle=False)
        ['note', 'events']
        """
        for name, value in values.items():
            self[name] = value

    def mkdir(self, name: str) -> WritableDirectory:
        """Create a directory and its parents: ``"a/b"``. Raises StorageError if an object has that name.

        >>> with branchline.recreate("out.root") as file:
        ...     file.mkdir("a/b").path
        ('a', 'b')
        """
        directories, own = self._place(name)
        places = [*directories, own]
        self.file.written().add_directory(places)
        self.file.written().publish()
        return WritableDirectory(self.file, "/".join(places))

    def mktree(
        self,
        name: str,
        branch_types: object,
        title: str = "",
        *,
        counter_name: Callable[[str], str] | None = None,
        field_name: Callable[[str, str], str] | None = None,
        compression: object = ...,
    ) -> WritableTree:
        """Create a TTree. ``branch_types`` maps branch names to types, or contains the first data.

        Data can be any table that ``file[name] = ...`` accepts. Types are NumPy types (``"float32"``, ``("f4", (3,))``)
        or awkward types (``"var * float32"``, ``"string"``). ``counter_name`` returns the branch name for a list's
        counter (``nx`` for ``x``), ``field_name`` for a record's member (``jet_pt``). ``compression`` defaults to the
        file's compression. Raises UnsupportedBranchError, and OptionError for invalid arguments, such as a mix of types
        and data.

            >>> with branchline.recreate("out.root") as file:
            ...     tree = file.mktree("events", {"x": "float32", "hits": "var * int16"}, compression="lz4")
            ...     tree.extend({"x": [1.5, 2.5], "hits": [[1, 2], []]})
            ...     tree.keys()
            ['x', 'hits', 'nhits']
        """
        naming = Naming(counter_name or Naming().counter, field_name or Naming().member)
        columns, data = types_or_data(branch_types)
        columns = whole_columns(columns) if data else columns
        written = self._table(name, columns, title, naming, is_ntuple=False, compression=compression)
        return self._filled(name, written, data)

    def mkrntuple(
        self, name: str, field_types: object, description: str = "", *, compression: object = ...
    ) -> WritableTree:
        """Create an RNTuple. ``field_types`` maps field names to types, or contains the first data; see `mktree`.

        >>> with branchline.recreate("out.root") as file:
        ...     file.mkrntuple("events", {"jet": "var * {pt: float32}"}).classname
        'ROOT::RNTuple'
        """
        columns, data = types_or_data(field_types)
        title = description or description_of(field_types)
        written = self._table(name, columns, title, Naming(), is_ntuple=True, compression=compression)
        return self._filled(name, written, data)

    def copy_from(self, source: Input, *, filter_name: object = None, filter_classname: object = None) -> None:
        """Copy all objects except trees from another file, unchanged, with their directories and names.

        ``source`` is a path, or an open file or directory of Branchline or uproot. ``filter_name`` and
        ``filter_classname`` work as in ``source.keys``. Raises NoSuchKeyError if no object matches.

            >>> with branchline.recreate("copy.root") as file:
            ...     file.copy_from("file.root", filter_name="folder/*")
        """
        opened = source if isinstance(source, Directory) else opened_directory(source)
        chosen = {
            path: name
            for path, name in opened.classnames(filter_name=filter_name, filter_classname=filter_classname).items()
            if name not in _TABLES and not name.startswith("TDirectory")
        }
        if not chosen:
            hint = 'write trees with file["t"] = source["t"]'
            raise NoSuchKeyError("no object except trees matches the filters", path=opened.file_path, hint=hint)
        begin = opened.object_path.strip("/") if not isinstance(opened, File) else ""
        for path in chosen:
            directories, own = self._place(_CYCLE.sub("", path))
            inside = f"{begin}/{path}" if begin else path
            self.file.written().copy(opened.file._core, inside, directories, own, Differences())
        self.file.written().publish()

    def _place(self, name: str) -> tuple[list[str], str]:
        parts = [part for part in name.strip("/").split("/") if part]
        if not parts or _CYCLE.search(name):
            hint = "cycles are assigned automatically" if parts else "give a name such as 'h' or 'dir/h'"
            raise OptionError(f"invalid name for a new object: {name!r}", path=self.file_path, hint=hint)
        return [*self.path, *parts[:-1]], parts[-1]

    def _table(
        self, name: str, columns: Columns, title: str, naming: Naming, *, is_ntuple: bool, compression: object = ...
    ) -> WritableTree:
        directories, own = self._place(name)
        codec = self.file.codec if compression is ... else codec_of(compression)
        if not columns:
            raise OptionError(f"tree {name}: it has no branches", path=self.file_path, hint="give at least one column")
        written = self.file.written()
        if not is_ntuple:
            columns = without(columns, given_counters(columns, naming))
        try:
            table = new_table(own, title, columns, naming, codec, is_ntuple=is_ntuple)
            number = written.add_table(directories, table)
        except UnsupportedBranchError as error:
            # The engine's own hint may refer to a command-line option.
            hint = error.hint if error.hint and "--" not in error.hint else "leave the column out, or convert it"
            raise UnsupportedBranchError(error.what, path=self.file_path, hint=hint) from None
        except ValueError as error:
            raise OptionError(str(error)) from None
        path = "/".join([*directories, own])
        classname = "ROOT::RNTuple" if is_ntuple else "TTree"
        counters = dict.fromkeys(one for one in table.counters if one is not None)
        samples = {one: layout[:0] for one, layout in columns.items()}
        names = [*table.names, *counters]
        tree = WritableTree(
            path=path,
            file_path=self.file_path,
            classname=classname,
            title=title,
            _core_file=written,
            _number=number,
            _columns=samples,
            _naming=naming,
            _names=names,
            _counters=frozenset(counters),
            _table=table,
            _file=self.file,
        )
        self.file.remember(path, tree)
        return tree


class WritableFile(WritableDirectory):
    """A ROOT file that is being written; see `recreate`.

    Raises StorageError if the file cannot be written, or is already closed.

        >>> with branchline.recreate("out.root", compression="lz4") as file:
        ...     file["events"] = {"x": [1, 2, 3]}
        >>> branchline.open("out.root")["events"].num_entries
        3
    """

    __slots__ = ("__weakref__", "_codec", "_core", "_destination", "_finalizer", "_key", "_name", "_trees")

    def __init__(self, destination: Destination, core: _core.WritableFile, *, codec: str | None) -> None:
        self._core: _core.WritableFile | None = core
        self._destination = destination
        self._name = destination.name
        self._codec = codec
        self._trees: dict[str, WritableTree] = {}
        self._finalizer = weakref.finalize(self, _finish, core, destination, os.getpid())
        super().__init__(None, "")
        self._key = (os.getpid(), os.path.realpath(destination.path))
        _OPEN[self._key] = self

    @property
    def file(self) -> WritableFile:
        """The file itself."""
        return self

    @property
    def file_path(self) -> str:
        """Path of the complete file."""
        return self._name

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._core is None

    @property
    def codec(self) -> str:
        """Codec of new trees."""
        return self._codec or DEFAULT_CODEC

    @property
    def compression(self) -> str:
        """Codec of new trees, which can be set. Other objects always use the codec with which the file was created."""
        return self.codec

    @compression.setter
    def compression(self, compression: object) -> None:
        self._codec = codec_of(compression)

    def __repr__(self) -> str:
        return f"<WritableFile {self._name!r}{' (closed)' if self.closed else ''}>"

    def written(self) -> _core.WritableFile:
        """Return the engine's handle of the file. Raises StorageError if the file is closed."""
        if self._core is None:
            raise StorageError("the file is closed", path=self._name, hint="open it again with branchline.update")
        return self._core

    def remember(self, path: str, tree: WritableTree) -> None:
        """Register a tree that is being filled."""
        self._trees[path] = tree

    def forget(self, path: str) -> None:
        """Unregister a tree that was removed."""
        self._trees.pop(path, None)

    def remembered(self, path: str) -> WritableTree | None:
        """Return the tree that `remember` registered at ``path``, if any."""
        return self._trees.get(path)

    def object_of(self, key: _core.WrittenKey) -> object:
        """Return the object of a key: a tree that is being filled, or an object read from the file."""
        if key.path in self._trees:
            return self._trees[key.path]
        return object_in_file(self, self._key[1], key)

    def copied(self, source: ReadObject, directories: list[str], name: str) -> bool:
        """Copy an object from its file and apply modifications to the copy; return False if this is not possible."""
        try:
            opened = File(source.place.file_path)
            differences = source.differences(opened)
            self.written().copy(opened._core, source.place.key, directories, name, differences)
            return True
        except StorageError:
            raise
        except ValueError as error:
            if source.is_computed:
                return False
            reason = str(error)
        except BranchlineError as error:
            reason = error.what
        if source.is_needed:
            raise UnsupportedBranchError(
                f"{name} cannot be copied: {reason}",
                path=self._name,
                hint="do not change or remove the object's file before the output is closed",
            )
        warn(f"{name} is written as a new histogram from its bins alone: {reason}", BranchlineWarning)
        return False

    def close(self) -> None:
        """Write all remaining entries and close the file. Raises StorageError if the file cannot be written.

        >>> file = branchline.recreate("out.root")
        >>> file["note"] = "none yet"
        >>> file.closed, file.close(), file.closed
        (False, None, True)
        """
        if self._core is None:
            return
        core = self._released()
        try:
            core.finish()
            self._destination.deliver()
        finally:
            self._destination.discard()

    def abandon(self) -> None:
        """Close the file in its last published state. If nothing was published, an existing file stays unchanged.

        >>> file = branchline.recreate("out.root")
        >>> file.abandon(), file.closed
        (None, True)
        """
        if self._core is not None:
            self._released().abandon()
            self._destination.discard()

    def _released(self) -> _core.WritableFile:
        core, self._core = self.written(), None
        self._finalizer.detach()
        self._trees.clear()
        if _OPEN.get(self._key) is self:
            del _OPEN[self._key]
        return core

    def __enter__(self) -> WritableFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if self._key[0] != os.getpid():
            return  # In a forked child process, the file belongs to the parent.
        if kind is None or (self._core is not None and self._core.is_published()):
            self.close()
        else:
            self.abandon()
