"""The trees of many files become one tree in one file; their baskets are copied as they are or compressed anew."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from branchline import _core
from branchline.dataset import Dataset
from branchline.errors import BranchlineError, DatasetError, OptionError

#: In which order the baskets of an input are written: as they lie in it, branch by branch, or by their first entry.
Order = Literal["offset", "branch", "entry"]
#: How often who watches is told, in seconds.
REPORT_PAUSE_S = 0.1


@dataclass(frozen=True)
class MergeProgress:
    """How far a merge is: files of how many, and bytes of baskets."""

    files_done: int
    files_count: int
    bytes_done: int


@dataclass(frozen=True)
class MergeResult:
    """What a merge made; ``left_out`` are sentences on what of the inputs is not in it."""

    path: str
    files: int
    entries: int
    baskets: int
    basket_bytes: int
    size_bytes: int
    left_out: tuple[str, ...]


def merge(
    inputs: Any,
    output: str | os.PathLike[str],
    *,
    tree: str | None = None,
    order: Order = "entry",
    codec: str | None = None,
    force: bool = False,
    progress: Callable[[MergeProgress], None] | None = None,
) -> MergeResult:
    """Merges the TTrees of many files into one, without decompressing them unless ``codec`` is given.

    ``inputs`` is a dataset: paths, patterns, lists. Every file must hold exactly one tree with the branches of the
    first one, and nothing else. ``order`` says how the baskets of each file are laid down. With a ``codec``
    (``zstd:5``, ``zlib:1``, ``lz4:4``, ``lzma:8``, ``none`` or a number of ROOT) they are compressed anew.

    The output appears under its name when it is whole; ``force`` replaces a file that is there. ``progress`` is called
    a few times a second.

    Raises `UnsupportedBranchError` for what cannot be merged by copying, `BadFileError` for damaged files,
    `StorageError` where the output cannot be written, and `OptionError` for an order or a codec that there is not.
    """
    if order not in get_args(Order):
        raise OptionError(f"no such order: {order!r}", hint=f"one of {', '.join(get_args(Order))}")
    paths, tree = _inputs(inputs, tree)
    try:
        job = _core.Merge(paths, os.fspath(Path(output)), tree, order, force, codec)
    except ValueError as error:
        raise OptionError(str(error)) from None
    made = _run(job, len(paths), progress)
    return MergeResult(
        path=os.fspath(output),
        files=len(paths),
        entries=made["entries"],
        baskets=made["baskets"],
        basket_bytes=made["basket_bytes"],
        size_bytes=made["size_bytes"],
        left_out=tuple(made["left_out"]),
    )


def _inputs(inputs: Any, tree: str | None) -> tuple[list[str], str | None]:
    """The paths of a dataset, and the name of the one tree that they are to have."""
    files = tuple(Dataset.of(inputs))
    if not files:
        raise DatasetError("there is nothing to merge")
    for file in files:
        if file.entry_start != 0 or file.entry_stop is not None:
            raise DatasetError("baskets are copied whole, not a range of entries", path=file.path)
    names: Iterable[str | None] = (file.tree if file.tree is not None else tree for file in files)
    trees = set(names)
    if len(trees) > 1:
        raise DatasetError(f"several trees are named: {', '.join(sorted(str(name) for name in trees))}")
    return [file.path for file in files], trees.pop()


def _run(job: _core.Merge, files_count: int, progress: Callable[[MergeProgress], None] | None) -> dict[str, Any]:
    """Runs a merge in a thread of its own, so that Ctrl-C ends it at once and it can be watched."""
    made: list[dict[str, Any]] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            made.append(job.run())
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            failed.append(error)

    thread = threading.Thread(target=work, name="branchline-merge")
    thread.start()
    try:
        while thread.is_alive():
            thread.join(REPORT_PAUSE_S)
            if progress is not None:
                files_done, bytes_done = job.progress()
                progress(MergeProgress(files_done, files_count, bytes_done))
    except BaseException:
        job.stop()
        thread.join()
        raise
    if failed:
        raise failed[0]
    if not made:
        raise BranchlineError("the merge ended without a result")
    return made[0]
