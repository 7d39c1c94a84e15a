"""Merges files: copies or recompresses the baskets of trees, and adds histograms and similar objects.

This module defines NamedTuples instead of dataclasses to reduce the startup time of every merge: Python creates the
class of a NamedTuple four times as fast.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, TypedDict, get_args

from branchline import _core
from branchline.base.limits import MERGE_JOURNAL_BYTES
from branchline.base.quantities import GIB, parse_bytes, size
from branchline.errors import BranchlineError, DatasetError, OptionError
from branchline.reading.access import Access
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.locations import shown
from branchline.writing.columns.output_file import ENTRIES_END, check_root_name
from branchline.writing.merging.index_columns import refuse_shared_folders, refuse_tree_patterns

#: Maximum size of a basket that ROOT can read, including the basket's key.
BASKET_BYTES_MAX = GIB
#: Interval between progress reports, in seconds.
REPORT_PAUSE_S = 0.1


#: Order in which an input's baskets are written: by offset in the input, branch by branch, or by first entry.
Order = Literal["offset", "branch", "entry"]


class MergeProgress(NamedTuple):
    """The progress of a merge: number of processed files, number of all files, and processed basket bytes."""

    files_done: int
    files_count: int
    bytes_done: int


class UnmergedFile(NamedTuple):
    """An input that was left out of the output, and the reason."""

    path: str
    reason: str


class FilledBranch(NamedTuple):
    """A branch of ``tree`` that is missing in some inputs.

    ``files`` is the number of inputs without the branch. ``entries`` is the number of entries in these inputs; the
    branch is 0 or empty in them.
    """

    tree: str
    name: str
    files: int
    entries: int


class MergeResult(NamedTuple):
    """The result of a merge.

    - ``paths``: the output files; only ``max_size`` leads to several.
    - ``left_out``: sentences about parts of the inputs that are not in the outputs.
    - ``notes``: further sentences for the user.
    - ``skipped``: inputs that were left out completely.
    - ``filled``: branches that are missing in some inputs; only with ``fill_missing_branches``.
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
    skipped: tuple[UnmergedFile, ...]
    filled: tuple[FilledBranch, ...] = ()


class TreeSelection(NamedTuple):
    """The branches and entries of trees to merge.

    - ``branches`` maps the path of a tree to the branches to keep, including their counters and parent branches.
    - ``entries`` maps the path of a file to the entries to keep.
    - ``selected`` is the tree to which ``entries`` apply; if None, they apply to every tree.

    All other trees, branches and entries are kept completely.
    """

    branches: Mapping[str, Collection[str]] = MappingProxyType({})
    entries: Mapping[str, EntrySelection] = MappingProxyType({})
    selected: str | None = None


class EntrySelection(NamedTuple):
    """The entries of a tree to keep: a bitmap with one bit per entry; the first entry has the highest bit of a byte."""

    bits: bytes
    entries_count: int


class MergeOptions(TypedDict, total=False):
    """Options that `slim` and `skim` pass to `merge`; see `merge` for their documentation."""

    order: Order
    codec: str | None
    basket_size: int | str | None
    cluster_events: int | None
    cluster_bytes: int | str | None
    max_size: int | str | None
    fill_missing_branches: bool
    skip_bad_files: bool
    verify: bool
    memory_limit: int | str
    access: Access | None
    force: bool
    resume: bool
    sync: bool
    progress: Callable[[MergeProgress], None] | None


def merge(
    inputs: object,
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
    """Merge many files into one. Baskets are copied without decompression, unless an option requires new baskets.

    Histograms, graphs and similar objects are added as by ``hadd``. All versions of any other object are kept, as
    separate cycles.

    - ``inputs`` is a dataset: paths, patterns, lists. With ``tree``, only that tree is merged.
    - ``order`` is the order of each file's baskets. With a ``codec`` such as ``zstd:5``, ``zlib:1``, ``lz4:4``,
      ``lzma:7``, ``none`` or a compression setting of ROOT such as ``505``, baskets are recompressed.
    - ``basket_size`` (maximum size before compression), ``cluster_events`` and ``cluster_bytes`` (approximate
      compressed size) put entries into new baskets. The defaults are taken from the first file.
    - With ``max_size`` (bytes or "2 GB") there may be several outputs: ``name.root``, ``name_1.root`` and so on.
    - A folder with index columns (``DF_*`` of ALICE's AO2D files) is copied as it is. It may be in only one file.
    - Trees with the same path must have the same branches or fields, unless ``fill_missing_branches`` is set. With this
      option, the output has the branches of all inputs. If a file lacks a branch, its entries get 0, false or empty
      values, and the result lists the branch in ``filled``.
    - ``skip_bad_files`` leaves out inputs that cannot be merged. ``verify`` reads the output again and compares every
      basket with its original. ``memory_limit`` limits the memory for inputs and baskets. ``access`` contains options
      for reading the inputs.
    - Outputs get their final names when all outputs are complete; ``force`` replaces existing files. Without ``sync``,
      they get their final names before their data is flushed to disk.
    - ``resume`` continues a killed merge of the same inputs with the same options, after the last input whose data
      reached the disk. It rejects inputs that have changed in the meantime.

    Raises `UnsupportedBranchError` for branches and objects that cannot be merged, `BadFileError` for damaged files,
    `StorageError` if the output cannot be written or verified, and `OptionError` for invalid options.

        >>> branchline.merge(["data/a.root", "data/b.root"], "all.root", codec="zstd:5").entries
        6
    """
    selection = selection or TreeSelection()
    _check_options(order, fill_missing_branches, selection)
    paths, tree = _inputs(inputs, tree, access)
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
    return _run_merge(request, progress)


def _run_merge(request: MergeRequest, progress: Callable[[MergeProgress], None] | None) -> MergeResult:
    """Run a merge. Raises the same errors as `merge`."""
    try:
        job = _core.Merge(request)
    except ValueError as error:
        raise OptionError(str(error)) from None
    made = _run(job, len(request.inputs), progress)
    notes = list(made.notes)
    if request.verify:
        notes.append("verified: the output was read again and equals what was written")
    most = request.size_bytes_max
    if most is not None:
        larger = [path for path in made.outputs if path.stat().st_size > most]
        notes += [f"{path} is larger than {size(most)}, because an input is never split" for path in larger]
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
        skipped=tuple(UnmergedFile(shown(skipped.path), skipped.reason) for skipped in made.skipped),
    )


def filled_branches(found: Iterable[_core.FilledBranch]) -> tuple[FilledBranch, ...]:
    """Convert the engine's filled branches to `FilledBranch`."""
    return tuple(FilledBranch(one.tree, one.name, one.files, one.entries) for one in found)


def _check_options(order: str, fill_missing_branches: bool, selection: TreeSelection) -> None:
    if order not in get_args(Order):
        raise OptionError(f"unknown order {order!r}", hint=f"choose one of {', '.join(get_args(Order))}")
    if fill_missing_branches and selection.branches:
        raise OptionError("fill_missing_branches cannot be combined with a selection of branches")


def _basket_layout(
    basket_size: int | str | None, cluster_events: int | None, cluster_bytes: int | str | None
) -> BasketLayout | None:
    """Return the layout of new baskets; None if no option requires new baskets.

    Raises `OptionError` for conflicting options.
    """
    if cluster_events is not None and (not 1 <= cluster_events < ENTRIES_END or cluster_bytes is not None):
        raise OptionError("give either cluster_events, from 1 to 2^63 - 1, or cluster_bytes")
    basket_bytes = None if basket_size is None else parse_bytes(basket_size)
    if basket_bytes is not None and not 1 <= basket_bytes <= BASKET_BYTES_MAX:
        raise OptionError(f"invalid basket size {basket_size}", hint="give 1 byte to 1 GiB; ROOT's default is 32000")
    bytes_of_cluster = None if cluster_bytes is None else parse_bytes(cluster_bytes)
    layout = BasketLayout(basket_bytes, cluster_events, bytes_of_cluster)
    return layout if layout != BasketLayout() else None


def _inputs(inputs: object, tree: str | None, access: Access | None) -> tuple[list[str], str | None]:
    """Return the paths of a dataset's files, and the name of the tree if only one tree is to be merged."""
    files = tuple(Dataset.of(inputs, access=access))
    if not files:
        raise DatasetError("no files to merge")
    for file in files:
        if file.entry_start != 0 or file.entry_stop is not None:
            raise DatasetError("files are merged completely, not a range of entries", path=file.path)
    refuse_tree_patterns(files)
    refuse_shared_folders(files, access)
    names: Iterable[str | None] = (file.tree if file.tree is not None else tree for file in files)
    trees = set(names)
    if len(trees) > 1:
        raise DatasetError(f"the inputs name different trees: {', '.join(sorted(str(name) for name in trees))}")
    return [file.opens for file in files], trees.pop()


def _run(job: _core.Merge, files_count: int, progress: Callable[[MergeProgress], None] | None) -> _core.Merged:
    """Run a merge in a separate thread, so that this thread can report progress and react to Ctrl-C immediately."""
    made: list[_core.Merged] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            made.append(job.run())
        except BaseException as error:  # noqa: BLE001 - raised again by the waiting thread
            failed.append(error)

    thread = threading.Thread(target=work, name="branchline-merge")
    thread.start()
    try:
        is_running = True
        while is_running:
            thread.join(REPORT_PAUSE_S)
            # Check before the report, so that the last report shows the completed merge.
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
    """A merge request with validated values. The engine reads the fields by name.

    ``inputs`` are paths or URLs. ``branches``, ``selected`` and ``selections`` are the fields ``branches``,
    ``selected`` and ``entries`` of `TreeSelection`. If ``layout`` is set, all trees get new baskets; otherwise only
    trees with selected entries do, and all other baskets are copied, or recompressed with ``codec``.
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
    """Limits of a merge.

    ``memory_bytes`` is the maximum memory for inputs and baskets, without the memory for the output's tables.
    ``journal_bytes`` is the maximum number of bytes written between two checkpoints.
    """

    memory_bytes: int
    journal_bytes: int


class BasketLayout(NamedTuple):
    """The layout of new baskets: maximum uncompressed size of a basket, and the number of entries or the approximate
    compressed size of a cluster. For values that are None, the layout of the first input is used.
    """

    basket_bytes: int | None = None
    cluster_entries: int | None = None
    cluster_bytes: int | None = None
