"""The first files and events of each dataset, for a run that is to be short: the same ones every time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from branchline.errors import FILE_ERRORS
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.dataset import Dataset
from branchline.trains.subjobs.shares import open_tree


def first_of_each(
    dataset: Dataset, max_files: int | None, max_events: int | None, *, skip_bad_files: bool, access: Access
) -> Dataset:
    """The first files and events of each dataset in a list of several, in its order; None: all.

    Files are opened to count their events, no more than are needed. One that cannot be read stays, to be skipped and
    named, where bad files are skipped. Raises what opening another one raises.
    """
    if max_files is None and max_events is None:
        return dataset
    by_dataset: dict[str, list[DataFile]] = {}
    for one in dataset:
        by_dataset.setdefault(one.dataset, []).append(one)
    kept: set[DataFile] = set()
    changed: dict[DataFile, DataFile] = {}
    for files in by_dataset.values():
        first = files if max_files is None else list(_first_files(files, max_files))
        if max_events is not None:
            cut = list(_first_events(first, max_events, skip_bad_files=skip_bad_files, access=access))
            changed.update(zip(first, cut, strict=False))
            first = first[: len(cut)]
        kept.update(first)
    return Dataset(changed.get(one, one) for one in dataset if one in kept)


def _first_files(files: Iterable[DataFile], max_files: int) -> Iterator[DataFile]:
    """A file of several entry ranges is one file."""
    paths: set[str] = set()
    for one in files:
        paths.add(one.path)
        if len(paths) > max_files:
            return
        yield one


def _first_events(
    files: Iterable[DataFile], max_events: int, *, skip_bad_files: bool, access: Access
) -> Iterator[DataFile]:
    left = max_events
    for one in files:
        if left == 0:
            return
        try:
            with_all = open_tree(one, access).entries_count
        except FILE_ERRORS:
            if not skip_bad_files:
                raise
            yield one
            continue
        stop = with_all if one.entry_stop is None else min(with_all, one.entry_stop)
        events = max(0, stop - one.entry_start)
        # A file that is read whole stays as it was: what is kept of it serves other runs.
        yield one if events <= left else one.changed(entry_stop=one.entry_start + left)
        left -= min(left, events)
