"""Dataset: validated files in a fixed order, from paths, patterns, lists or mappings."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from branchline.base.notebook import HTML_ROWS, html_table
from branchline.base.quantities import counted, size
from branchline.errors import DatasetError, MissingFileError
from branchline.reading.access import Access, access_of
from branchline.reading.datasets.data_file import CompanionsLike, DataFile, companions_of
from branchline.reading.datasets.file_lists import expand, fileset_of_replicas, is_list, read_fileset, read_list
from branchline.reading.datasets.folders import with_folders
from branchline.reading.datasets.joins import JoinsLike, joins_of
from branchline.reading.locations import is_rucio_name, is_url, split_location, text_of, without_secrets

# Maximum number of file names that a message lists.
NAMES_IN_A_MESSAGE = 5
_HINT = "Dataset.of takes paths, patterns and lists"


class Dataset:
    """The files that a train processes, in the specified order; files of a glob or directory are sorted by name.

    ``len(dataset)`` is the number of files (of trees, for a pattern of trees), ``size_bytes`` their total size. Raises
    DatasetError for an empty dataset, invalid items, and duplicate files.

        >>> dataset = branchline.Dataset.of("data/*.root", tree="Events")
        >>> [file.path for file in dataset]
        ['data/a.root', 'data/b.root']
        >>> dataset.missing
        ()
    """

    def __init__(self, files: Iterable[DataFile]) -> None:
        if not isinstance(files, Iterable):
            raise DatasetError(f"a dataset cannot be made from {files!r}", hint=_HINT)
        self.files = tuple(files)
        for one in self.files:
            if not isinstance(one, DataFile):
                raise DatasetError(f"a dataset cannot be made from {one!r}", hint=_HINT)
        if not self.files:
            raise DatasetError("the dataset is empty", hint="give a file, a directory, a pattern or a list of files")
        seen = set()
        by_place: dict[tuple[object, ...], str] = {}
        for one in self.files:
            identity = one.identity
            if identity in seen:
                _refuse(one.path, "this file is in the dataset twice")
            seen.add(identity)
            if one.on_disk is None:
                continue
            other = by_place.setdefault((one.on_disk, *identity[2:], one.dataset), one.path)
            # Inode numbers are not conclusive, because some file systems change them on every call. Compare the files.
            if other is not one.path and _is_same(other, one.path):
                _refuse(one.path, f"this file is also in the dataset as {other}")

    @classmethod
    def of(
        cls,
        given: object,
        tree: str | None = None,
        name: str = "",
        companions: CompanionsLike = None,
        access: Access | None = None,
        join: JoinsLike = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Dataset:
        """Create a Dataset from files.

        ``given`` is a path, a glob, a directory, a text list, ``file.root:tree``, a coffea fileset (JSON file or
        mapping), ``rucio:SCOPE:NAME[:TREE]``, a metalink, a Dataset, or a list of these. ``tree`` is the default for
        files without a specified tree. A pattern such as ``DF_*/O2track_iu`` stands for all trees of a file that match,
        in the order of the file's keys. ``companions`` are files in the directory of each file, such as
        ``["Kinematics.root"]`` or ``{"Kinematics": "Kinematics.root:Event{entry}/TreeK"}``. ``join`` are trees of the
        same folder whose rows refer to the events: ``{"Tracks": "O2track_iu by fIndexCollisions"}``.

        Patterns and folders (with a trailing slash) also work for servers that can list folders. The sizes and
        versions of remote files are queried together. ``access`` sets the timeout and the retries. ``progress`` is
        called about once a second with the numbers of finished and of all queries.

        Raises DatasetError for patterns without matches, invalid values and duplicates, StorageError if a server cannot
        list the folder of a pattern, or if Rucio's server fails, and MissingPackageError if Rucio's client is not
        installed. Missing files do not raise an error here; see ``missing``.
        """
        given_companions, joins = companions_of(companions), joins_of(join)
        access = None if access is None else access_of(access)
        if isinstance(given, Dataset):
            more = {name: one for name, one in (("companions", given_companions), ("joins", joins)) if one}
            return cls(one.changed(**more) for one in given) if more else given
        if tree is not None and not isinstance(tree, str):
            raise DatasetError(f"the tree of a dataset cannot be {tree!r}", hint="give its name")
        template = DataFile(path="", tree=tree, dataset=name, companions=given_companions, joins=joins)
        files = [one.with_size() for one in _collect(given, template, access)]
        if any(is_url(one.path) for one in files):
            # Imported lazily, because local files do not need this module.
            from branchline.reading.datasets.server_files import with_sizes

            files = with_sizes(files, access, progress)
        return cls(with_folders(files, access))

    def with_absolute_paths(self) -> Dataset:
        """Return a copy with absolute paths. Raises DatasetError if two paths turn out to be the same file."""
        files = [one.with_absolute_path() for one in self.files]
        return self if all(map(operator.is_, files, self.files)) else Dataset(files)

    def has_secrets(self) -> bool:
        """Whether the URL of a file or companion contains a password, a token or similar."""
        for one in self.files:
            for location in (*one.locations, *(other.location for other in one.companions)):
                if without_secrets(location) != location:
                    return True
        return False

    def __repr__(self) -> str:
        trees = some_names({one.tree for one in self.files if one.tree is not None})
        first = without_secrets(self.files[0].path)
        files = len({one.path for one in self.files})
        what = f"{counted(files, 'file')}, {size(self.size_bytes)}, from {first}"
        return f"<Dataset: {what}{f', tree {trees}' if trees else ''}>"

    def _repr_html_(self) -> str:
        rows = [
            (without_secrets(one.path), one.tree or "", "" if one.size_bytes is None else size(one.size_bytes))
            for one in self.files[:HTML_ROWS]
        ]
        more = len(self.files) - len(rows)
        rest = f"{counted(more, 'more file')}: list(dataset) lists all of them" if more else ""
        title = f"Dataset: {counted(len(self), 'file')}, {size(self.size_bytes)}"
        return html_table(title, ("file", "tree", "size"), rows, rest)

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[DataFile]:
        return iter(self.files)

    @property
    def size_bytes(self) -> int:
        """Total size of all files whose size is known. A file with several entry ranges counts once."""
        return sum({one.path: one.size_bytes or 0 for one in self.files}.values())

    @property
    def missing(self) -> tuple[DataFile, ...]:
        """The missing files: local files that do not exist, and remote files that the server reports as missing."""
        return tuple(one for one in self.files if one.is_missing)

    def require_present(self) -> None:
        """Raise MissingFileError, which names the missing files, if there are any."""
        missing = sorted({one.path for one in self.missing})
        if not missing:
            return
        what = f"{len(missing)} of {len(self.files)} files of the dataset are missing: {some_names(missing)}"
        remedy = "correct the path"
        if all(one.lookup is not None for one in self.missing):
            what = f"no replica of {len(missing)} of {len(self.files)} files of the dataset can be read: "
            what += some_names(missing)
            remedy = "allow other schemes, RSEs or tape in a list of datasets"
        hint = f"{remedy}, or skip missing files of a train with --skip-bad-files"
        raise MissingFileError(what, path=missing[0], hint=hint)


def some_names(names: Iterable[str]) -> str:
    """Return the first names in alphabetical order, and the number of the others."""
    known = sorted(names)
    shown = ", ".join(known[:NAMES_IN_A_MESSAGE])
    return f"{shown} and {len(known) - NAMES_IN_A_MESSAGE} more" if len(known) > NAMES_IN_A_MESSAGE else shown


def _collect(given: object, template: DataFile, access: Access | None) -> list[DataFile]:
    if isinstance(given, Dataset):
        return list(given.files)
    if isinstance(given, DataFile):
        return [given]
    if isinstance(given, (str, bytes, os.PathLike)):
        text = text_of(given)
        if not text:
            raise DatasetError("the name of a dataset is empty")
        if is_rucio_name(text):
            return expand(text, template, access)
        path, tree = split_location(text)
        if path.endswith(".py"):
            hint = "give wagons before the dataset; several wagons of one file are FILE.py:NAME,NAME"
            raise DatasetError("a Python file is not a dataset", path=path, hint=hint)
        if path.endswith((".yaml", ".yml")):
            raise DatasetError("lists in YAML are not supported", path=path, hint="save the list as .json")
        if is_list(path):
            return read_list(os.path.expanduser(path), template.changed(tree=tree or template.tree), access)
        return expand(text, template, access)
    if isinstance(given, Mapping):
        return read_fileset(given, template, access)
    if isinstance(given, tuple) and (fileset := fileset_of_replicas(given, template.dataset)):
        return read_fileset(fileset, template, access)
    if isinstance(given, Iterable):
        return [one for item in given for one in _collect(item, template, access)]
    raise DatasetError(f"a dataset cannot be made from a {type(given).__name__}")


def _refuse(path: str, reason: str) -> None:
    raise DatasetError(f"{reason}, its events would count twice", path=path, hint="remove one of them")


def _is_same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False
