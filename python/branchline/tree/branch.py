"""Branch: one column of a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from branchline.tree.arrays import Library

if TYPE_CHECKING:
    from branchline.tree.tree import Tree

_CODECS = {1: "zlib", 2: "lzma", 3: "old CS", 4: "lz4", 5: "zstd"}


class Branch:
    """A column of a tree, or a group of columns."""

    def __init__(self, tree: Tree, about: dict[str, Any]) -> None:
        self._tree = tree
        self._about = about
        self.path: str = about["path"]
        self.name: str = about["name"]
        self.title: str = about["title"]
        self.typename: str = about["typename"]
        self.entries_count: int = about["entries_count"]
        self.baskets_count: int = about["baskets_count"]
        self.compressed_bytes: int = about["compressed_bytes"]
        self.plain_bytes: int = about["plain_bytes"]
        self.reason: str | None = about["reason"]

    def __repr__(self) -> str:
        return f"<Branch {self.path} {self.typename!r} of {self._tree.name}>"

    def __len__(self) -> int:
        return self.entries_count

    @property
    def tree(self) -> Tree:
        """The tree that it belongs to."""
        return self._tree

    @property
    def num_entries(self) -> int:
        """Entries, under uproot's name."""
        return self.entries_count

    @property
    def num_baskets(self) -> int:
        """Baskets, under uproot's name."""
        return self.baskets_count

    @property
    def uncompressed_bytes(self) -> int:
        """Bytes after decompression, under uproot's name."""
        return self.plain_bytes

    @property
    def readable(self) -> bool:
        """Whether its values can be read; ``reason`` says why not."""
        return bool(self._about["kind"] == "data")

    @property
    def is_group(self) -> bool:
        """Whether it only groups the branches below it."""
        return bool(self._about["kind"] == "group")

    @property
    def codec(self) -> str | None:
        """The codec that it was set to be written with; None if it uses that of the file."""
        setting = self._about["compress"]
        if setting < 0:
            return None
        if setting % 100 == 0:
            # uproot writes 0 whatever it compresses with.
            return "none" if self.compressed_bytes >= self.plain_bytes else None
        return _CODECS.get(setting // 100, "zlib")

    def keys(self) -> list[str]:
        """Paths of the branches below it, relative to it."""
        prefix = self.path + "/"
        return [path.removeprefix(prefix) for path in self._tree.keys() if path.startswith(prefix)]

    def __getitem__(self, name: str) -> Branch:
        return self._tree[f"{self.path}/{name}"]

    def array(
        self,
        entry_start: int | None = None,
        entry_stop: int | None = None,
        *,
        library: Library = "ak",
        workers: int | None = None,
        memory_limit: int | str = "1 GiB",
    ) -> Any:
        """The values of a range of entries (all of them): one array of ``library``.

        Raises UnsupportedBranchError, BadFileError, StorageError.
        """
        if entry_stop is None and self.entries_count < self._tree.entries_count:
            entry_stop = self.entries_count  # the branch ends before its tree
        parts = self._tree.column_parts([self.path], entry_start, entry_stop, workers, memory_limit)
        return parts.single(self.path, library)
