"""Directory: the objects of a file, or of a directory in it, as a mapping."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from branchline.errors import NoSuchKeyError
from branchline.tree.names import name_filter, near_names_hint

if TYPE_CHECKING:
    from branchline.tree.entries import Entry
    from branchline.tree.file import File

# Classes of objects that others are found in by their names.
LISTS = frozenset({"TList", "THashList", "TSortedList", "TObjArray", "TMap"})
# The cycle of a directory that is passed through.
CYCLE_BEFORE_SLASH = re.compile(r";\d+(?=/)")


class Directory:
    """Objects by their names, with or without cycle: ``directory["tree;2"]``, ``directory["inner/tree/branch"]``.

    Trees come as Tree, directories as Directory, histograms, graphs and lists as what `branchline.objects` has for
    them, and objects of any other class as a Record of their members. Filters are a name, a text with wildcards, a
    ``/regular expression/i``, a function, or several of these.
    """

    def __init__(self, file: File, path: str) -> None:
        self._file = file
        self._path = path

    def __repr__(self) -> str:
        return f"<Directory {self.object_path} of {self.file_path}>"

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the file; trees that are open still read."""
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
        """What ``keys`` gives, one by one."""
        return iter(
            self.keys(recursive=recursive, cycle=cycle, filter_name=filter_name, filter_classname=filter_classname)
        )

    def keys(
        self, *, recursive: bool = True, cycle: bool = True, filter_name: Any = None, filter_classname: Any = None
    ) -> list[str]:
        """Names of the objects, with their cycles as ``name;1`` and with ``recursive`` those in directories too."""
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
        """What ``iteritems`` gives, as a list."""
        return list(self.iteritems(**filters))

    def itervalues(self, **filters: Any) -> Iterator[Any]:
        """What ``values`` gives, one by one."""
        return (value for _, value in self.iteritems(**filters, cycle=False))

    def values(self, **filters: Any) -> list[Any]:
        """The objects, with the filters of ``iteritems``."""
        return list(self.itervalues(**filters))

    def classnames(
        self, *, recursive: bool = True, cycle: bool = True, filter_name: Any = None, filter_classname: Any = None
    ) -> dict[str, str]:
        """Classes of the objects by the names that ``keys`` gives."""
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
        for place in (found.start() for found in reversed(list(re.finditer("[/:]", name)))):
            entry = self._found(name[:place])
            if entry is not None and (entry.is_tree or entry.classname in LISTS):
                rest = name[place + 1 :].strip("/")
                return self.file.object_of(entry)[rest]
            if entry is not None and not entry.is_directory:
                what = f"{name[:place]} is a {entry.classname} and has nothing in it"
                raise NoSuchKeyError(what, path=self.file_path, hint=near_names_hint(name, self.trees()))
        return self.file.object_of(self._entry(name))

    def record(self, name: str) -> Any:
        """An object as the members that are stored of it, also where it would come as a histogram or the like.

        Raises NoSuchKeyError, and UnsupportedBranchError for a tree or a directory.
        """
        return self.file.record_of(self._entry(name))

    def get(self, name: str, default: Any = None) -> Any:
        """An object, or a default."""
        try:
            return self[name]
        except NoSuchKeyError:
            return default

    def _found(self, name: str) -> Entry | None:
        relative = CYCLE_BEFORE_SLASH.sub("", re.sub("/+", "/", name).strip("/"))
        return self.file.entries.find(f"{self._path}/{relative}" if self._path else relative)

    def _entry(self, name: str) -> Entry:
        entry = self._found(name)
        if entry is None:
            names = self.trees() or self.keys(cycle=False)
            where = f" in {self.object_path}" if self._path else ""
            raise NoSuchKeyError(
                f"there is no object {name!r}{where}", path=self.file_path, hint=near_names_hint(name, names)
            )
        return entry
