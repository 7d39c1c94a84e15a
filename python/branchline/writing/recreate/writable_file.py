"""WritableFile and WritableDirectory: ROOT files that are being written, as mappings of names and objects."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn

from branchline import _core
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
from branchline.writing.recreate.copies import Differences, foreign_file, opened_directory, source_of
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
from branchline.writing.recreate.writable_tree import USUAL, WritableTree, codec_of, new_table

_CYCLE = re.compile(r";(-?\d+)$")
_TABLES = ("ROOT::RNTuple", "TTree")
#: Files that are open for writing, by their real paths.
_OPEN: weakref.WeakValueDictionary[tuple[int, str], WritableFile] = weakref.WeakValueDictionary()


def recreate(path: Any, *, compression: Any = USUAL) -> WritableFile:
    """Begins a ROOT file. An existing file is replaced as soon as the first object or tree is written.

    ``path`` is a local path, whose folders are created, a URL for fsspec, or an open file. URLs and open files get the
    content when the file is closed. Until then a local path is a valid file with everything written so far, even after
    a kill or on a full disk; only the last entries of a tree that grows in small steps may be missing. ``compression``
    is ``"zstd:5"``, ``"lz4"``, ROOT's ``505``, uproot's ``ZLIB(4)``, or None. Raises StorageError, OptionError.

        >>> with branchline.recreate("out.root") as file:
        ...     file["events"] = {"x": np.arange(3), "pt": ak.Array([[1.5], [], [2.5, 3.5]])}
        ...     file["plots/h"] = np.histogram([1, 2, 2])
    """
    codec, destination = codec_of(compression), _free_destination(path)
    return WritableFile(destination, begin_file(destination, codec, replace=True), codec=codec)


def create(path: Any, *, compression: Any = USUAL) -> WritableFile:
    """Begins a ROOT file like `recreate`, and replaces none.

    Raises TakenNameError, a FileExistsError, if there is a file of this name already, StorageError and OptionError.

        >>> with branchline.create("new.root") as file:
        ...     file["events"] = {"x": [1.0, 2.0]}
    """
    codec, destination = codec_of(compression), _free_destination(path)
    return WritableFile(destination, begin_file(destination, codec, replace=False), codec=codec)


def update(path: Any, *, compression: Any = None) -> WritableFile:
    """Begins a copy of a ROOT file to which things are added. The copy replaces the file when the first of them is
    written, and is a valid file from then on.

    The disk needs room for both. New objects are compressed as the file is and new trees with zstd:5, or both as
    ``compression`` says.

    Raises MissingFileError, BadFileError, StorageError, OptionError, and UnsupportedBranchError for a file to which
    nothing can be added.

        >>> with branchline.update("file.root") as file:
        ...     file["note"] = "calibrated again"
        >>> branchline.open("file.root").classnames(cycle=False)["note"]
        'TObjString'
    """
    codec = None if compression is None else codec_of(compression)
    destination = _free_destination(path)
    return WritableFile(destination, begin_update(destination, codec), codec=codec)


def _free_destination(path: Any) -> Destination:
    """Return the destination of a file. One of the same path that this process left open, as when a cell of a notebook
    is run again, is closed.
    """
    destination = destination_of(path)
    earlier = _OPEN.pop((os.getpid(), os.path.realpath(destination.path)), None)
    if earlier is not None:
        earlier.close()
    return destination


def _finish(core: _core.WritableFile, destination: Destination, process: int) -> None:
    """Closes a file that was never closed, unless this is a child process that inherited it."""
    if os.getpid() == process:
        try:
            core.finish()
            destination.deliver()
        except StorageError as error:
            warn(f"{destination.name} is not complete: {error}", BranchlineWarning)
        finally:
            destination.discard()


class WritableDirectory(Mapping[str, Any]):
    """A directory of a file that is being written: a mapping of names to objects. Setting an item writes it; a name
    that is there already gets the next cycle, ``name;2``.

    Raises OptionError for what cannot be written, and StorageError once the file is closed.

        >>> with branchline.recreate("out.root") as file:
        ...     plots = file.mkdir("plots")
        ...     plots["note"] = "none yet"
        ...     file.keys(cycle=False)
        ['plots', 'plots/note']
    """

    __slots__ = ("_owner", "_path")  # any other attribute that a script sets would have no effect, and raises

    def __init__(self, file: WritableFile | None, path: str) -> None:
        self._owner = file
        self._path = path

    @property
    def file_path(self) -> str:
        """The path of the file."""
        return self.file.file_path

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the directories that lead here, under uproot's name."""
        return tuple(self._path.split("/")) if self._path else ()

    @property
    def file(self) -> WritableFile:
        """The file."""
        assert self._owner is not None  # a file is its own
        return self._owner

    def __repr__(self) -> str:
        return f"<WritableDirectory {'/' + self._path!r} of {self.file_path!r}>"

    def _keys(self) -> Iterator[tuple[str, _core.WrittenKey]]:
        """What is below, by its path from here."""
        begin = f"{self._path}/" if self._path else ""
        for key in self.file.written().keys():
            if key.path.startswith(begin):
                yield key.path.removeprefix(begin), key

    def keys(self, *, recursive: bool = True, cycle: bool = True) -> list[str]:  # type: ignore[override]
        """The names of what is in it and below, with their cycles.

        >>> with branchline.recreate("out.root") as file:
        ...     file["plots/note"] = "none yet"
        ...     file.keys(), file.keys(recursive=False, cycle=False)
        (['plots;1', 'plots/note;1'], ['plots'])
        """
        found = [f"{path};{key.cycle}" if cycle else path for path, key in self._keys() if recursive or "/" not in path]
        return list(dict.fromkeys(found))

    def classnames(self, *, recursive: bool = True, cycle: bool = True) -> dict[str, str]:
        """The classes of what is in it and below, by its names.

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
        """The key of this name, the newest if it gives no cycle."""
        wanted = _CYCLE.search(name)
        path = _CYCLE.sub("", name).strip("/")
        found = [key for one, key in self._keys() if one == path and (wanted is None or key.cycle == int(wanted[1]))]
        return found[-1] if found else None

    def _no_such(self, name: str) -> NoReturn:
        hint = f"there are {', '.join(self.keys()[:8])}" if len(self) else "nothing is written yet"
        raise NoSuchKeyError(f"there is no object {name!r}", path=self.file_path, hint=hint)

    def __getitem__(self, name: str) -> Any:
        """A directory, a tree that is being filled, or an object or tree as it is read from the file.

        Raises NoSuchKeyError, and what reading raises.
        """
        key = self._find(name)
        if key is None:
            self._no_such(name)
        if key.class_name.startswith("TDirectory"):
            return WritableDirectory(self.file, key.path)
        return self.file.object_of(key)

    def __setitem__(self, name: str, value: Any) -> None:
        """Writes a table, a histogram, a text or an object that was read, under a name such as ``"h"`` or ``"dir/h"``.

        A table becomes an RNTuple, as in uproot from version 5.7 on; `mktree` makes a TTree of it. A tree that was
        opened, ``file["t"] = other["t"]``, is copied with all its branches, basket by basket.
        Raises OptionError, UnsupportedBranchError, StorageError, and what reading raises.
        """
        self._write(name, value)
        self.file.written().publish()

    def _write(self, name: str, value: Any) -> None:
        directories, own = self._place(name)
        if isinstance(value, Tree):
            self._copy_tree(name, value)
            return
        table = table_of(value)
        if table is not None:
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
        """Copies a tree basket by basket; one of which that is not possible is written by its values."""
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
            warn(f"of tree {path} of {source.file_path} {', '.join(left_out)} is not copied", BranchlineWarning)

    def _stream(self, name: str, source: Tree) -> None:
        """Writes the values of a tree; of one that cannot be read to its end nothing is kept."""
        given = StreamedTree.of(source)
        written = self._table(name, given.columns, source.title, given.naming, is_ntuple=source.outline.nests)
        with self._removed_if_it_fails(name, written):
            for part in given.steps():
                written._extend(named_columns(part))

    def _filled(self, name: str, written: WritableTree, given: Columns) -> WritableTree:
        """A tree that was just made, with its first entries; it is removed where they cannot be written."""
        if given:
            with self._removed_if_it_fails(name, written):
                written._extend(given)
        self.file.written().publish()
        return written

    @contextmanager
    def _removed_if_it_fails(self, name: str, written: WritableTree) -> Iterator[None]:
        """Inside the block the tree that was just made is filled; if that fails, it is removed."""
        try:
            yield
        except BaseException:
            # Only this cycle: there may be others of that name.
            cycles = [key.cycle for path, key in self._keys() if path == name.strip("/")]
            self.file.written().remove(written.path, cycles[-1])
            raise

    def __delitem__(self, name: str) -> None:
        """Removes an object, one cycle (``"h;1"``) or all; its bytes stay. Raises NoSuchKeyError, StorageError."""
        wanted = _CYCLE.search(name)
        if self._find(name) is None:
            self._no_such(name)
        path = "/".join([*self.path, _CYCLE.sub("", name).strip("/")])
        self.file.written().remove(path, int(wanted[1]) if wanted else None)
        self.file.forget(path)
        self.file.written().publish()

    def update(self, values: Mapping[str, Any]) -> None:
        """Writes several objects.

        >>> with branchline.recreate("out.root") as file:
        ...     file.update({"note": "none yet", "events": {"x": [1, 2]}})
        ...     file.keys(cycle=False)
        ['note', 'events']
        """
        for name, value in values.items():
            self[name] = value

    def mkdir(self, name: str) -> WritableDirectory:
        """Makes a directory, with those around it: ``"a/b"``. Raises StorageError if an object has that name.

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
        branch_types: Any,
        title: str = "",
        *,
        counter_name: Callable[[str], str] | None = None,
        field_name: Callable[[str, str], str] | None = None,
        compression: Any = ...,
    ) -> WritableTree:
        """Makes a TTree; ``branch_types`` are types by the names of branches, or the data that the tree begins with.

        Data are what ``file[name] = ...`` takes. Types are those of NumPy (``"float32"``, ``("f4", (3,))``) or awkward
        (``"var * float32"``, ``"string"``). ``counter_name`` names the branch that counts the elements of lists (``nx``
        of ``x``), ``field_name`` those of the members of records (``jet_pt``). ``compression`` is that of the file
        unless it is given. Raises UnsupportedBranchError, and OptionError, also for types among data.

            >>> with branchline.recreate("out.root") as file:
            ...     tree = file.mktree("events", {"x": "float32", "hits": "var * int16"}, compression="lz4")
            ...     tree.extend({"x": [1.5, 2.5], "hits": [[1, 2], []]})
            ...     tree.keys()
            ['x', 'hits', 'nhits']
        """
        usual = Naming()
        naming = Naming(counter_name or usual.counter, field_name or usual.member)
        columns, data = types_or_data(branch_types)
        columns = whole_columns(columns) if data else columns
        written = self._table(name, columns, title, naming, is_ntuple=False, compression=compression)
        return self._filled(name, written, data)

    def mkrntuple(self, name: str, field_types: Any, description: str = "", *, compression: Any = ...) -> WritableTree:
        """Makes an RNTuple; ``field_types`` are types by the names of fields, or its first data, as for `mktree`.

        >>> with branchline.recreate("out.root") as file:
        ...     file.mkrntuple("events", {"jet": "var * {pt: float32}"}).classname
        'ROOT::RNTuple'
        """
        columns, data = types_or_data(field_types)
        description = description or description_of(field_types)
        written = self._table(name, columns, description, Naming(), is_ntuple=True, compression=compression)
        return self._filled(name, written, data)

    def copy_from(self, source: Any, *, filter_name: Any = None, filter_classname: Any = None) -> None:
        """Copies objects of another file as they are, with their directories and names; trees are left out.

        ``source`` is a path, or a file or directory that was opened by Branchline or uproot. ``filter_name`` and
        ``filter_classname`` choose them as in ``source.keys``; a tree is written by
        ``file["t"] = source["t"]``. Raises NoSuchKeyError if there are none.

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
            hint = 'trees are written by file["t"] = source["t"]'
            raise NoSuchKeyError("there is no such object to copy", path=opened.file_path, hint=hint)
        begin = opened.object_path.strip("/") if not isinstance(opened, File) else ""
        for path in chosen:
            directories, own = self._place(_CYCLE.sub("", path))
            inside = f"{begin}/{path}" if begin else path
            self.file.written().copy(opened.file._core, inside, directories, own, Differences())
        self.file.written().publish()

    def _place(self, name: str) -> tuple[list[str], str]:
        parts = [part for part in name.strip("/").split("/") if part]
        if not parts or _CYCLE.search(name):
            hint = "cycles are counted by themselves" if parts else "names are like 'h' or 'dir/h'"
            raise OptionError(f"{name!r} is no name of a new object", path=self.file_path, hint=hint)
        return [*self.path, *parts[:-1]], parts[-1]

    def _table(
        self, name: str, columns: Any, title: str, naming: Naming, *, is_ntuple: bool, compression: Any = ...
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
            # The engine's own hint names an option of a command.
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

    Raises StorageError where it cannot be written, and once it is closed.

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
        """The path that it gets."""
        return self._name

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._core is None

    @property
    def codec(self) -> str:
        """How it is compressed."""
        return self._codec or USUAL

    @property
    def compression(self) -> str:
        """The codec of trees that are made from now on. Other objects keep the codec that the file began with."""
        return self.codec

    @compression.setter
    def compression(self, compression: Any) -> None:
        self._codec = codec_of(compression)

    def __repr__(self) -> str:
        return f"<WritableFile {self._name!r}{' (closed)' if self.closed else ''}>"

    def written(self) -> _core.WritableFile:
        """The file as the engine has it. Raises StorageError if it is closed."""
        if self._core is None:
            raise StorageError("the file is closed", path=self._name, hint="open it again with branchline.update")
        return self._core

    def remember(self, path: str, tree: WritableTree) -> None:
        """Keeps a tree that is being filled."""
        self._trees[path] = tree

    def forget(self, path: str) -> None:
        """The trees of this path are removed."""
        self._trees.pop(path, None)

    def remembered(self, path: str) -> WritableTree | None:
        """Return the tree that `remember` keeps."""
        return self._trees.get(path)

    def object_of(self, key: _core.WrittenKey) -> Any:
        """The tree that is being filled, or the object as it is read from the file."""
        if key.path in self._trees:
            return self._trees[key.path]
        return object_in_file(self, self._key[1], key)

    def copied(self, source: Any, directories: list[str], name: str) -> bool:
        """Copies an object that was read, with what was changed since, if its file still has it."""
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
                f"{name} cannot be copied: {reason}", path=self._name, hint="keep its file until this one is closed"
            )
        warn(f"{name} is written as a new histogram, of its bins alone: {reason}", BranchlineWarning)
        return False

    def close(self) -> None:
        """Ends the file, with all entries of its trees. Raises StorageError where it cannot be written.

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
        """Closes the file as it was published last. If nothing was published, what was there before stays.

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._key[0] != os.getpid():
            return  # A child process that was forked leaves the file to its parent.
        if kind is None or (self._core is not None and self._core.is_published()):
            self.close()
        else:
            self.abandon()
