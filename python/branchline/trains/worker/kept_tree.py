"""The open tree of the file that a worker works on: of a file that is cut into parts, it often gets several in turn."""

from __future__ import annotations

from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.trees.tree import Tree
from branchline.trains.subjobs.shares import Share, open_tree


class KeptTree:
    """The tree of the last part of a file. Streams over it count their own reads, the first also its opening."""

    def __init__(self) -> None:
        self._tree: Tree | None = None
        self._opened_for: tuple[DataFile, Access, int, dict[str, str]] | None = None

    def open(self, share: Share, access: Access, identities: dict[str, str]) -> tuple[Tree, bool]:
        """The tree of the share's file, and whether it was opened now: not if the last one was of the same file, with
        the same ``identities``, read in the same way. Raises what opening raises.
        """
        wanted = (share.files[0], access, share.replicas_skipped, identities)
        if self._tree is not None and wanted == self._opened_for:
            return self._tree, False
        # Not both at once: each may hold a copy of its file on a local disk.
        self.forget()
        self._tree, self._opened_for = open_tree(share.files[0], access), wanted
        return self._tree, True

    def forget(self) -> None:
        """Lets go of the tree: it is opened again, from another replica if there is one."""
        self._tree = self._opened_for = None
