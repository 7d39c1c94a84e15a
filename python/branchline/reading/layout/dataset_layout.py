"""The layout of a dataset: its files, and the differences between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from branchline.base.quantities import count, counted
from branchline.errors import FILE_ERRORS, NoSuchKeyError
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.layout.file_layout import codecs_of
from branchline.reading.trees.file import File

#: Number of files opened concurrently: enough to hide the round trips to a server.
FILES_AT_A_TIME = 16
#: Over a network, opening a smaller file costs more than reading it.
SMALL_FILE_BYTES = 20_000_000
#: Maximum number of names listed in a sentence.
NAMES_SHOWN = 5


#: Paths and types of branches.
Schema = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class FileFacts:
    """A file of a dataset, from its metadata."""

    path: str
    size_bytes: int
    tree: str
    entries: int
    compressed_bytes: int
    plain_bytes: int
    codecs: tuple[str, ...]
    schema: Schema


class UnreadableFile(NamedTuple):
    """A file that could not be opened, with the reason."""

    path: str
    reason: str


@dataclass(frozen=True)
class Difference:
    """How the branches of the files ``paths`` differ from the branches of most files."""

    paths: tuple[str, ...]
    missing: tuple[str, ...]
    additional: tuple[str, ...]
    other_types: tuple[str, ...]


@dataclass(frozen=True)
class DatasetLayout:
    """The files of a dataset; ``bad`` are the files that could not be opened."""

    files: tuple[FileFacts, ...]
    bad: tuple[UnreadableFile, ...]
    differences: tuple[Difference, ...]

    @property
    def entries(self) -> int:
        """Total number of entries."""
        return sum(one.entries for one in self.files)

    @property
    def size_bytes(self) -> int:
        """Total size of the files."""
        return sum({one.path: one.size_bytes for one in self.files}.values())

    @property
    def small(self) -> list[FileFacts]:
        """The files that cost more to open than to read."""
        return [one for one in self.files if one.size_bytes < SMALL_FILE_BYTES]

    @property
    def codecs(self) -> dict[str, int]:
        """Number of files per codec; a file counts for each of its codecs."""
        return dict(Counter(codec for one in self.files for codec in one.codecs).most_common())

    def remarks(self) -> Iterator[str]:
        """Yield sentences about unreadable files and about differences between files."""
        if self.bad:
            first = self.bad[0]
            yield f"{counted(len(self.bad), 'file')} cannot be read, the first of them {first.path}: {first.reason}"
        # Ignore "none": with any codec, baskets that compression does not shrink are stored uncompressed.
        used = Counter(tuple(sorted({*one.codecs} - {"none"})) or tuple(one.codecs) for one in self.files if one.codecs)
        if len(used) > 1:
            kinds = ((" and ".join(names), number) for names, number in used.most_common())
            parts = ", ".join(f"{names} in {counted(number, 'file')}" for names, number in kinds)
            yield f"Codecs differ ({parts}): parts of a job will differ in speed."
        for one in self.differences:
            yield _difference_sentence(one)

    def as_json(self) -> dict[str, object]:
        """The files, unreadable files, differences and remarks."""
        files = [
            {
                "path": one.path,
                "size_bytes": one.size_bytes,
                "tree": one.tree,
                "entries": one.entries,
                "compressed_bytes": one.compressed_bytes,
                "plain_bytes": one.plain_bytes,
                "codecs": list(one.codecs),
                "branches": len(one.schema),
            }
            for one in self.files
        ]
        return {
            "files": files,
            "bad_files": [one._asdict() for one in self.bad],
            "entries": self.entries,
            "size_bytes": self.size_bytes,
            "small_files": len(self.small),
            "codecs": self.codecs,
            "differences": [
                {
                    "files": list(one.paths),
                    "missing": list(one.missing),
                    "additional": list(one.additional),
                    "other_types": list(one.other_types),
                }
                for one in self.differences
            ],
            "remarks": list(self.remarks()),
        }


def _difference_sentence(one: Difference) -> str:
    is_one = len(one.paths) == 1
    parts = []
    if one.missing:
        parts.append(f"{'lacks' if is_one else 'lack'} {some_of(one.missing)}")
    if one.additional:
        parts.append(f"{'has' if is_one else 'have'} additional branches {some_of(one.additional)}")
    if one.other_types:
        parts.append(f"{'has' if is_one else 'have'} different types of {some_of(one.other_types)}")
    files = one.paths[0] if is_one else f"{counted(len(one.paths), 'file')}, the first of them {one.paths[0]},"
    return f"Unlike most files, {files} {' and '.join(parts)}."


def some_of(names: Sequence[str]) -> str:
    """Return the first names, and the number of omitted names."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {count(more)} more" if more > 0 else "")


def inspect_dataset(dataset: object, tree: str | None = None) -> DatasetLayout:
    """Return the layout of a dataset, which is given as for ``Dataset.of``. Files that cannot be opened are listed in
    ``bad``. Raises DatasetError.
    """
    files = tuple(Dataset.of(dataset, tree))
    with ThreadPoolExecutor(FILES_AT_A_TIME) as threads:
        found = list(threads.map(_facts_or_reason, files))
    facts = tuple(one for one in found if isinstance(one, FileFacts))
    bad = tuple(UnreadableFile(file.path, one) for file, one in zip(files, found, strict=True) if isinstance(one, str))
    return DatasetLayout(facts, bad, tuple(_differences(facts)))


def _facts_or_reason(one: DataFile) -> FileFacts | str:
    try:
        file = File(one.path)
        tree = file.tree(one.tree)
        branches = [tree.branch(index) for index in range(len(tree.outline.paths))]
        own = [branch for branch in branches if not branch.is_part and not branch.is_group]
        return FileFacts(
            path=one.path,
            size_bytes=file.size_bytes,
            tree=tree.path,
            entries=tree.entries_count,
            compressed_bytes=sum(branch.compressed_bytes for branch in own),
            plain_bytes=sum(branch.plain_bytes for branch in own),
            codecs=tuple(sorted(set(codecs_of(tree, [branch for branch in own if branch.compressed_bytes])))),
            schema=tuple((branch.path, branch.typename) for branch in branches),
        )
    except (*FILE_ERRORS, NoSuchKeyError) as error:
        return error.reason


def _differences(files: Sequence[FileFacts]) -> Iterator[Difference]:
    """Yield one Difference for each schema other than the most common one."""
    by_schema: dict[Schema, list[str]] = {}
    for file in files:
        by_schema.setdefault(file.schema, []).append(file.path)
    if len(by_schema) < 2:
        return
    _, most = max((len(paths), schema) for schema, paths in by_schema.items())
    usual = dict(most)
    for one, paths in by_schema.items():
        own = dict(one)
        if own != usual:
            common = usual.keys() & own.keys()
            yield Difference(
                paths=tuple(paths),
                missing=tuple(name for name in usual if name not in own),
                additional=tuple(name for name in own if name not in usual),
                other_types=tuple(name for name in usual if name in common and own[name] != usual[name]),
            )
