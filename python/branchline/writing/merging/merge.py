"""Merging files: baskets of trees are copied or compressed again, histograms and the like are added.

A request is one value, made once and passed to the engine. Values are NamedTuples here, since Python makes their
classes in a quarter of the time of a dataclass: every start of a merge pays for it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from branchline import _core
from branchline.base.limits import MERGE_JOURNAL_BYTES, parse_bytes
from branchline.base.quantities import size
from branchline.errors import BranchlineError, DatasetError, OptionError
from branchline.reading.access import Access
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.locations import shown
from branchline.writing.columns.output_file import ENTRIES_END, check_root_name

#: The largest basket that ROOT reads, with its key.
BASKET_BYTES_MAX = 2**30
#: How often progress is reported, in seconds.
REPORT_PAUSE_S = 0.1


#: In which order the baskets of an input are written: as they lie in it, branch by branch, or by their first entry.
Order = Literal["offset", "branch", "entry"]


class MergeProgress(NamedTuple):
    """The progress of a merge: files done, files in all, bytes of baskets done."""

    files_done: int
    files_count: int
    bytes_done: int


class SkippedFile(NamedTuple):
    """An input that is not in the output, and why."""

    path: str
    reason: str


class FilledBranch(NamedTuple):
    """A branch of a ``tree`` that some ``files`` lack, by their number. Their ``entries`` have 0 or nothing in it."""

    tree: str
    name: str
    files: int
    entries: int


class MergeResult(NamedTuple):
    """The result of a merge.

    ``paths`` are the outputs, several only with a ``max_size``. ``left_out`` are sentences on parts of the inputs that
    are not in them, ``notes`` are further sentences for the user, ``skipped`` are inputs that are not in them at all.
    ``filled`` are branches that some inputs lack, with ``fill_missing_branches``.
    """

    path: str
    paths: tuple[str, ...]
    files: int
    trees: int
    entries: int
    baskets: int
    basket_bytes: int
    objects: int
    size_bytes: int
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    skipped: tuple[SkippedFile, ...]
    filled: tuple[FilledBranch, ...] = ()


class TreeSelection(NamedTuple):
    """The branches and entries of trees that are merged.

    ``branches`` has by the path of a tree the branches that are kept, with those that they need; ``entries`` by the
    path of a file the entries of its tree ``selected``, or of every tree. What is not named is kept whole.
    """

    branches: Mapping[str, Collection[str]] = MappingProxyType({})
    entries: Mapping[str, EntrySelection] = MappingProxyType({})
    selected: str | None = None


class EntrySelection(NamedTuple):
    """Entries of a tree that are kept: one bit for each of ``entries_count`` entries, the first the highest of its
    byte.
    """

    bits: bytes
    entries_count: int


def merge(
    inputs: Any,
    output: str | os.PathLike[str],
    *,
    tree: str | None = None,
    order: Order = "entry",
    codec: str | None = None,
    basket_size: int | str | None = None,
    cluster_events: int | None = None,
    cluster_bytes: int | str | None = None,
    max_size: int | str | None = None,
    fill_missing_branches: bool = False,
    skip_bad_files: bool = False,
    verify: bool = False,
    memory_limit: int | str = "1 GiB",
    access: Access | None = None,
    force: bool = False,
    resume: bool = False,
    sync: bool = True,
    progress: Callable[[MergeProgress], None] | None = None,
    selection: TreeSelection | None = None,
) -> MergeResult:
    """Merges many files into one. Baskets are copied without being decompressed, unless an option needs new ones.

    Histograms, graphs and the like are added as ``hadd`` does; of other objects every version is kept as a cycle.

    - ``inputs`` is a dataset: paths, patterns, lists. With a ``tree`` only that tree is merged.
    - ``order`` is the order of the baskets of each file. With a ``codec`` such as ``zstd:5``, ``zlib:1``, ``lz4:4``,
      ``lzma:8``, ``none`` or a number of ROOT, baskets are compressed again.
    - ``basket_size`` (largest size before compression), ``cluster_events`` and ``cluster_bytes`` (compressed size,
      about) put entries into new baskets. What is not given is as in the first file.
    - With a ``max_size`` (bytes or "2 GB") there may be several outputs: ``name.root``, ``name_1.root`` and so on.
    - Trees of one path must have the same branches or fields, unless ``fill_missing_branches`` is set. Then the output
      has all of them. Entries of files without one get 0, false or nothing, and ``filled`` of the result lists it.
    - ``skip_bad_files`` leaves out inputs that cannot be merged. ``verify`` reads the output again and compares every
      basket with what was copied. Inputs and baskets take ``memory_limit``. ``access`` says how inputs are read.
    - Outputs get their names when all of them are complete; ``force`` replaces existing files. ``resume`` continues a
      killed merge of the same inputs and options behind the last input that is on the disk. Inputs that changed since
      then are refused. Without ``sync`` outputs get their names before they are on the disk.

    Raises `UnsupportedBranchError` for what cannot be merged, `BadFileError` for damaged files, `StorageError` if the
    output cannot be written or is not as written, `OptionError` for invalid options.

        >>> branchline.merge(["data/a.root", "data/b.root"], "all.root", codec="zstd:5").entries
        6
    """
    selection = selection or TreeSelection()
    _check_options(order, fill_missing_branches, selection)
    paths, tree = _inputs(inputs, tree)
    request = MergeRequest(
        inputs=paths,
        output=check_root_name(output),
        limits=MergeLimits(parse_bytes(memory_limit), MERGE_JOURNAL_BYTES),
        access=access,
        tree=tree,
        order=order,
        codec=codec,
        layout=_basket_layout(basket_size, cluster_events, cluster_bytes),
        branches={path: frozenset(names) for path, names in selection.branches.items()},
        selections=dict(selection.entries),
        selected=selection.selected,
        replace=force,
        size_bytes_max=None if max_size is None else parse_bytes(max_size),
        fill_missing_branches=fill_missing_branches,
        skip_bad_files=skip_bad_files,
        verify=verify,
        sync=sync,
        resume=resume,
    )
    return run_merge(request, progress)


def run_merge(request: MergeRequest, progress: Callable[[MergeProgress], None] | None) -> MergeResult:
    """Merges as requested. Raises what `merge` raises."""
    try:
        job = _core.Merge(request)
    except ValueError as error:
        raise OptionError(str(error)) from None
    made = _run(job, len(request.inputs), progress)
    notes = list(made.notes)
    if request.verify:
        notes.append("verified: what was written was read again and is the same")
    most = request.size_bytes_max
    if most is not None:
        larger = [path for path in made.outputs if path.stat().st_size > most]
        notes += [f"{path} is larger than {size(most)}: one input is not divided" for path in larger]
    return MergeResult(
        path=os.fspath(request.output),
        paths=tuple(os.fspath(path) for path in made.outputs),
        files=made.files,
        trees=made.trees,
        entries=made.entries,
        baskets=made.baskets,
        basket_bytes=made.basket_bytes,
        objects=made.objects,
        size_bytes=made.size_bytes,
        left_out=tuple(made.left_out),
        notes=tuple(notes),
        filled=filled_branches(made.filled),
        skipped=tuple(SkippedFile(shown(skipped.path), skipped.reason) for skipped in made.skipped),
    )


def filled_branches(found: Iterable[_core.FilledBranch]) -> tuple[FilledBranch, ...]:
    """As the engine lists them."""
    return tuple(FilledBranch(one.tree, one.name, one.files, one.entries) for one in found)


def _check_options(order: str, fill_missing_branches: bool, selection: TreeSelection) -> None:
    if order not in get_args(Order):
        raise OptionError(f"no such order: {order!r}", hint=f"one of {', '.join(get_args(Order))}")
    if fill_missing_branches and selection.branches:
        raise OptionError("missing branches are filled only where all branches are kept")


def _basket_layout(
    basket_size: int | str | None, cluster_events: int | None, cluster_bytes: int | str | None
) -> BasketLayout | None:
    """How entries are put into new baskets; None if they stay in theirs. Raises `OptionError` for options that do not
    go together.
    """
    if cluster_events is not None and (not 1 <= cluster_events < ENTRIES_END or cluster_bytes is not None):
        raise OptionError("clusters have a number of events from 1 to 2^63 - 1, or a number of bytes")
    basket_bytes = None if basket_size is None else parse_bytes(basket_size)
    if basket_bytes is not None and not 1 <= basket_bytes <= BASKET_BYTES_MAX:
        raise OptionError(
            f"no basket is as large as {basket_size}", hint="give 1 byte to 1 GiB; ROOT's default is 32000"
        )
    bytes_of_cluster = None if cluster_bytes is None else parse_bytes(cluster_bytes)
    layout = BasketLayout(basket_bytes, cluster_events, bytes_of_cluster)
    return layout if layout != BasketLayout() else None


def _inputs(inputs: Any, tree: str | None) -> tuple[list[str], str | None]:
    """The paths of the files of a dataset, and the name of the one tree to merge, if one is named."""
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
    return [file.opens for file in files], trees.pop()


def _run(job: _core.Merge, files_count: int, progress: Callable[[MergeProgress], None] | None) -> _core.Merged:
    """Runs a merge in a thread of its own, so that Ctrl-C ends it at once and it can be watched."""
    made: list[_core.Merged] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            made.append(job.run())
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            failed.append(error)

    thread = threading.Thread(target=work, name="branchline-merge")
    thread.start()
    try:
        is_running = True
        while is_running:
            thread.join(REPORT_PAUSE_S)
            # Read before the last report, so that this report is about the end.
            is_running = thread.is_alive()
            if progress is not None:
                progress(MergeProgress(job.files_done, files_count, job.bytes_done))
    except BaseException:
        job.stop()
        thread.join()
        raise
    if failed:
        raise failed[0]
    if not made:
        raise BranchlineError("the merge ended without a result")
    return made[0]


class MergeRequest(NamedTuple):
    """The request for a merge, with checked values. The engine reads its fields by their names.

    ``inputs`` are paths or URLs, ``branches``, ``selections`` and ``selected`` are those of `TreeSelection`. A
    ``layout`` gives all trees new baskets. Without it only trees of which entries are selected get new ones; all other
    baskets are copied, or compressed in another way with a ``codec``.
    """

    inputs: list[str]
    output: Path
    limits: MergeLimits
    branches: dict[str, frozenset[str]]
    selections: dict[str, EntrySelection]
    access: Access | None = None
    tree: str | None = None
    order: Order = "entry"
    codec: str | None = None
    layout: BasketLayout | None = None
    selected: str | None = None
    replace: bool = False
    size_bytes_max: int | None = None
    fill_missing_branches: bool = False
    skip_bad_files: bool = False
    verify: bool = False
    sync: bool = True
    resume: bool = False


class MergeLimits(NamedTuple):
    """Limits of a merge: ``memory_bytes`` for inputs and baskets, in addition to the tables of the output, and at most
    ``journal_bytes`` that are written between two checkpoints.
    """

    memory_bytes: int
    journal_bytes: int


class BasketLayout(NamedTuple):
    """How entries are put into new baskets: bytes of a basket before compression at most, and entries or about how many
    compressed bytes of a cluster. What is None is as in the first input.
    """

    basket_bytes: int | None = None
    cluster_entries: int | None = None
    cluster_bytes: int | None = None
