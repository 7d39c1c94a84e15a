"""The Dataset: made from paths, patterns, lists or mappings, checked, and in a fixed order."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from branchline.base.notebook import HTML_ROWS, html_table
from branchline.base.quantities import counted, size
from branchline.errors import DatasetError, MissingFileError
from branchline.reading.datasets.data_file import CompanionsLike, DataFile, companions_of
from branchline.reading.datasets.file_lists import is_list, read_fileset, read_list
from branchline.reading.datasets.patterns import expand
from branchline.reading.locations import is_url, split_location, text_of, without_secrets

# Files that are named in a message; their number is always given.
NAMES_IN_A_MESSAGE = 5
_HINT = "Dataset.of takes paths, patterns and lists"


class Dataset:
    """The files that a train runs over, in the order in which they were given (sorted inside a glob or directory).

    ``len(dataset)`` counts its files, ``size_bytes`` their bytes. Raises DatasetError for no files, for what is no
    file, and for a file that is named twice.

        >>> dataset = branchline.Dataset.of("data/*.root", tree="Events")
        >>> [file.path for file in dataset]
        ['data/a.root', 'data/b.root']
        >>> dataset.missing
        ()
    """

    def __init__(self, files: Iterable[DataFile]) -> None:
        if not isinstance(files, Iterable):
            raise DatasetError(f"a dataset cannot be made of {files!r}", hint=_HINT)
        self.files = tuple(files)
        for one in self.files:
            if not isinstance(one, DataFile):
                raise DatasetError(f"a dataset cannot be made of {one!r}", hint=_HINT)
        if not self.files:
            raise DatasetError("the dataset is empty", hint="give a file, a directory, a pattern or a list of files")
        _refuse_twice(self.files)

    @classmethod
    def of(cls, given: object, tree: str | None = None, name: str = "", companions: CompanionsLike = None) -> Dataset:
        """Makes a Dataset of a path, a glob, a directory, a text list, ``file.root:tree``, a coffea fileset (JSON file
        or mapping), a Dataset, or a list of these.

        ``tree`` is the tree of the files that do not name one themselves, ``companions`` are files next to each of
        them, as ``["Kinematics.root"]`` or ``{"Kinematics": "Kinematics.root:Event{entry}/TreeK"}``.

        Patterns and folders (with a slash at the end) may be at servers that list their folders. The sizes of files at
        servers are asked for, a folder at a time.

        Raises DatasetError if something matches nothing, is not understood or is named twice, and StorageError where a
        server does not list a folder for a pattern. Files that are not there are no error yet: see ``missing``.
        """
        given_companions = companions_of(companions)
        if isinstance(given, Dataset):
            return cls(replace(one, companions=given_companions) for one in given) if given_companions else given
        if tree is not None and not isinstance(tree, str):
            raise DatasetError(f"the tree of a dataset cannot be {tree!r}", hint="give its name")
        template = DataFile(path="", tree=tree, dataset=name, companions=given_companions)
        files = [one.with_size() for one in _collect(given, template)]
        if not any(is_url(one.path) for one in files):
            return cls(files)
        # Imported late: local files do not need it.
        from branchline.reading.datasets.server_files import with_sizes

        return cls(with_sizes(files))

    def with_absolute_paths(self) -> Dataset:
        """Return the same files, named by absolute paths. Raises DatasetError for a file that is then named twice."""
        files = [one.with_absolute_path() for one in self.files]
        return self if all(map(operator.is_, files, self.files)) else Dataset(files)

    def has_secrets(self) -> bool:
        """Whether the URL of a file or of a companion has a password, a token or the like."""
        texts = {text for one in self.files for text in one.locations}
        texts |= {other.location for one in self.files for other in one.companions}
        return any(without_secrets(one) != one for one in texts if "://" in one)

    def __repr__(self) -> str:
        trees = ", ".join(sorted({one.tree for one in self.files if one.tree is not None}))
        first = without_secrets(self.files[0].path)
        what = f"{counted(len(self), 'file')}, {size(self.size_bytes)}, from {first}"
        return f"<Dataset: {what}{f', tree {trees}' if trees else ''}>"

    def _repr_html_(self) -> str:
        rows = [
            (without_secrets(one.path), one.tree or "", "" if one.size_bytes is None else size(one.size_bytes))
            for one in self.files[:HTML_ROWS]
        ]
        more = len(self.files) - len(rows)
        rest = f"{counted(more, 'more file')}: list(dataset) has all of them" if more else ""
        title = f"Dataset: {counted(len(self), 'file')}, {size(self.size_bytes)}"
        return html_table(title, ("file", "tree", "size"), rows, rest)

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[DataFile]:
        return iter(self.files)

    @property
    def size_bytes(self) -> int:
        """Bytes of all the files whose size is known; a file with several entry ranges counts once."""
        return sum({one.path: one.size_bytes or 0 for one in self.files}.values())

    @property
    def missing(self) -> tuple[DataFile, ...]:
        """The files that are not there: local ones, and those of which their servers say so."""
        return tuple(one for one in self.files if one.is_missing)

    def require_present(self) -> None:
        """Raises MissingFileError with the names of the files that are not there."""
        missing = sorted({one.path for one in self.missing})
        if not missing:
            return
        names = ", ".join(missing[:NAMES_IN_A_MESSAGE])
        if len(missing) > NAMES_IN_A_MESSAGE:
            names += f" and {len(missing) - NAMES_IN_A_MESSAGE} more"
        raise MissingFileError(
            f"{len(missing)} of {len(self.files)} files of the dataset are not there: {names}",
            path=missing[0],
            hint="correct the path; a train can go on without them with --skip-bad-files",
        )


def _collect(given: object, template: DataFile) -> list[DataFile]:
    if isinstance(given, Dataset):
        return list(given.files)
    if isinstance(given, DataFile):
        return [given]
    if isinstance(given, (str, bytes, os.PathLike)):
        return _from_text(text_of(given), template)
    if isinstance(given, Mapping):
        return read_fileset(given, template)
    if isinstance(given, Iterable):
        return [one for item in given for one in _collect(item, template)]
    raise DatasetError(f"a dataset cannot be made of a {type(given).__name__}")


def _from_text(text: str, template: DataFile) -> list[DataFile]:
    if not text:
        raise DatasetError("an empty name is no dataset")
    path, _ = split_location(text)
    if path.endswith(".py"):
        hint = "wagons come before the dataset; several of one file are FILE.py:NAME,NAME"
        raise DatasetError("a file of Python is no dataset", path=path, hint=hint)
    if is_list(path):
        return read_list(os.path.expanduser(path), template)
    return expand(text, template)


def _refuse_twice(files: tuple[DataFile, ...]) -> None:
    seen = set()
    by_place: dict[tuple[object, ...], str] = {}
    for one in files:
        identity = one.identity
        if identity in seen:
            _refuse(one.path, "this file is named twice in the dataset")
        seen.add(identity)
        if one.on_disk is None:
            continue
        other = by_place.setdefault((one.on_disk, *identity[2:], one.dataset), one.path)
        # Some file systems give other numbers at every look.
        if other is not one.path and _is_same(other, one.path):
            _refuse(one.path, f"this file is in the dataset as {other}, too")


def _refuse(path: str, reason: str) -> None:
    raise DatasetError(f"{reason}, its events would count double", path=path, hint="name it once")


def _is_same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False
