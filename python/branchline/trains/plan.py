"""What a train run will do, settled before it begins: its settings, its wagons, its sub-jobs, its workers.

The first trees of the dataset are opened beforehand, to check that they have the branches that the wagons name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from branchline.base.checks import number_within, texts, whole_number
from branchline.base.limits import LOOK_FILES, WORKER_TIMEOUT_S, memory_limit_bytes, parse_bytes
from branchline.errors import FILE_ERRORS, BranchlineError, NoSuchKeyError, OptionError, UnsupportedBranchError
from branchline.jobs.program import ModuleFile
from branchline.jobs.where import Where, where_of
from branchline.reading.access import Access, access_of
from branchline.reading.datasets.data_file import CompanionsLike, DataFile
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.trees.tree import Tree
from branchline.records.sensors.record import FileRecord, WagonFault
from branchline.records.sensors.this_process import cpu_count
from branchline.trains.subjobs.picklable import pickling_error
from branchline.trains.subjobs.share_records import opening_of
from branchline.trains.subjobs.shares import (
    ChunkSizes,
    ReadSizes,
    Share,
    chunk_sizes,
    cut,
    first_of_each,
    merge_parts,
    open_tree,
)
from branchline.trains.wagons.faults import because_of
from branchline.trains.wagons.known_changes import known_changes
from branchline.trains.wagons.wagon_settings import Settings, settings_of, with_settings
from branchline.trains.wagons.wagons import Wagon, wagons_of


@dataclass(frozen=True)
class TrainSettings:
    """How a train runs, checked. ``workers`` None means a process for each core, 0 the calling process;
    ``branches`` None that the wagons say what is read; ``worker_timeout_s`` None that a worker may take any time;
    ``on`` None that workers are processes of this machine. ``allow_missing`` is the part of the sub-jobs that may have
    no result at the end.
    """

    workers: int | None
    branches: tuple[str, ...] | None
    step_size: int | str | None
    memory_limit_bytes: int
    skip_bad_files: bool
    access: Access
    worker_timeout_s: float | None
    on: Where | None = None
    allow_missing: float = 0.0
    #: The first of each dataset that are read; None: all.
    max_events: int | None = None
    max_files: int | None = None
    #: Of the random generators of wagons.
    seed: int = 0

    @property
    def starts_processes(self) -> bool:
        """Whether workers are processes of this machine."""
        return self.on is None and self.workers != 0

    @classmethod
    def of(
        cls,
        *,
        workers: int | None = None,
        branches: Sequence[str] | None = None,
        step_size: int | str | None = None,
        memory_limit: int | str = "1 GiB",
        skip_bad_files: bool = False,
        access: Access | str | None = None,
        worker_timeout: float = WORKER_TIMEOUT_S,
        allow_missing: float = 0.0,
        max_events: int | None = None,
        max_files: int | None = None,
        seed: int = 0,
        on: Any = None,
    ) -> TrainSettings:
        """Those of a caller. Raises OptionError for an impossible value, MemoryLimitError for too little memory."""
        workers = None if workers is None else whole_number("number of workers", workers)
        if workers is not None and on is not None:
            raise OptionError("the place to run on has its own workers", hint="leave out the number of workers")
        timeout_hint = "give seconds, 0 for any time"
        worker_timeout = number_within("worker_timeout", worker_timeout, 0, sys.float_info.max, timeout_hint)
        return cls(
            workers=workers,
            branches=None if branches is None else texts("branches", branches, '["Muon_pt"]'),
            step_size=None if step_size is None else _checked_step(step_size),
            memory_limit_bytes=memory_limit_bytes(memory_limit),
            skip_bad_files=skip_bad_files,
            access=access_of(access),
            worker_timeout_s=worker_timeout or None,
            on=None if on is None else where_of(on),
            allow_missing=number_within("part of sub-jobs as allow_missing", allow_missing, 0, 1, "give 0 to 1"),
            max_events=None if max_events is None else whole_number("number of events", max_events, 1),
            max_files=None if max_files is None else whole_number("number of files", max_files, 1),
            seed=whole_number("seed", seed),
        )


def _checked_step(step_size: int | str) -> int | str:
    """A step in entries as an int, one in bytes as a text. Raises OptionError."""
    size = parse_bytes(step_size)
    if size < 1:
        what = step_size if isinstance(step_size, str) else f"{step_size} entries"
        raise OptionError(f"a step of {what} is empty", hint='write it like 10000 (entries) or "100 MB"')
    return step_size if isinstance(step_size, str) else size


@dataclass(frozen=True)
class TrainRequest:
    """What a caller wants: ``wagons`` and ``dataset`` as ``branchline.run`` takes them, and the checked settings.
    ``command`` is what the report shows; ``reuse`` says whether results of an earlier run are taken where that serves;
    ``is_traced`` whether a trace of its requests is recorded.
    """

    wagons: object
    dataset: object
    settings: TrainSettings
    tree: str | None = None
    companions: CompanionsLike = None
    command: str = ""
    reuse: bool = True
    is_traced: bool = False
    #: As ``branchline.run`` takes them, or checked already.
    parameters: object = None

    def load(self) -> LoadedWagons:
        """Its wagons, with the parameters that are set. Raises WagonError, OptionError."""
        return LoadedWagons.of(self.wagons, settings_of(self.parameters))

    @property
    def why_all_is_read(self) -> str:
        """Why kept results are of no use to a run that is made for its reads; empty for other runs."""
        if self.is_traced:
            return "every request is recorded in a trace"
        return self.settings.access.why_it_is_compared

    @property
    def takes_kept(self) -> bool:
        """Whether results of an earlier run are taken."""
        return self.reuse and not self.why_all_is_read

    def reuse_notes(self, ledger: Path) -> list[str]:
        """What to say to the user where a ledger has results, and none is taken although ``reuse`` is set."""
        if not self.reuse or not self.why_all_is_read or not ledger.exists():
            return []
        return [f"all sub-jobs ran, also those with results of an earlier run, since {self.why_all_is_read}"]

    def plan(self, loaded: LoadedWagons) -> TrainPlan:
        """What its train will do. Raises what looking at the dataset and at its first file raises."""
        dataset = Dataset.of(self.dataset, self.tree, companions=self.companions)
        # Workers may be started in other directories, and results are found by these paths.
        return TrainPlan.of(self.settings, loaded, dataset.with_absolute_paths())


@dataclass(frozen=True)
class LoadedWagons:
    """The wagons in the order in which they run, and the modules that workers load for them."""

    wagons: tuple[Wagon, ...]
    modules: tuple[ModuleFile, ...]

    @classmethod
    def of(cls, given: Any, settings: Settings = ()) -> LoadedWagons:
        """Those of a file, an object or a list, or what is loaded already; with these parameters.

        Raises WagonError, and OptionError for a parameter that is not there or cannot have its value.
        """
        if isinstance(given, LoadedWagons):
            return cls(tuple(with_settings(given.wagons, settings)), given.modules)
        wagons, modules = wagons_of(given)
        return cls(tuple(with_settings(wagons, settings)), tuple(modules))


@dataclass(frozen=True)
class TrainPlan:
    """What is settled before a run. ``faults`` are the wagons that cannot run, ``step`` the entries of a chunk,
    ``looked_at`` what opening the first files read. Where the wagons' branches have to be learned first ``step`` is
    None, and files may be cut into fewer parts than ``shares`` has once the branches are known.
    """

    settings: TrainSettings
    loaded: LoadedWagons
    dataset: Dataset
    missing: tuple[DataFile, ...]
    shares: list[Share]
    faults: dict[str, WagonFault]
    named_branches: tuple[str, ...]
    step: int | None
    looked_at: list[FileRecord]
    #: By wagon, what is known of those that change the results of others.
    changers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: TrainSettings, loaded: LoadedWagons, dataset: Dataset) -> TrainPlan:
        """Cuts the dataset into sub-jobs. Raises what opening its first file raises."""
        dataset = first_of_each(
            dataset,
            settings.max_files,
            settings.max_events,
            skip_bad_files=settings.skip_bad_files,
            access=settings.access,
        )
        missing = tuple(dataset.missing)
        if not settings.skip_bad_files:
            dataset.require_present()
        files = [one for one in dataset if not one.is_missing]
        first = FirstTrees(files, skip_bad_files=settings.skip_bad_files, access=settings.access)
        # In this process nothing is pickled.
        faults = first.faults_of(loaded.wagons, *(() if settings.workers == 0 else (pickling_error,)))
        running = [wagon for wagon in loaded.wagons if wagon.name not in faults]
        learns = settings.branches is None and any(wagon.branches is None for wagon in running)
        named = _named_branches(settings.branches, running)
        changers = known_changes(running)
        shares, step = cut(files, settings.step_size), None
        if not learns:
            sizes = first.sizes(named, settings.step_size, settings.memory_limit_bytes)
            shares, step = merge_parts(shares, sizes), sizes.step
        return cls(settings, loaded, dataset, missing, shares, faults, named, step, first.records(), changers)

    @property
    def is_in_this_process(self) -> bool:
        """Whether no worker process is started."""
        return self.settings.workers == 0

    @property
    def workers(self) -> int:
        """How many sub-jobs are worked on at a time."""
        if self.settings.on is not None:
            return 1  # It is not known before they work.
        wanted = cpu_count() if self.settings.workers is None else max(1, self.settings.workers)
        return min(wanted, max(1, len(self.shares)))

    @property
    def threads(self) -> int:
        """Decoding threads of each worker."""
        return max(1, cpu_count() // self.workers)


def _named_branches(branches: tuple[str, ...] | None, running: Sequence[Wagon]) -> tuple[str, ...]:
    """The branches that are named for all wagons or by those that run."""
    named = [*(branches or ())]
    for wagon in running:
        named += wagon.branches or ()
    return tuple(dict.fromkeys(named))


class FirstTrees:
    """The tree of the first file; if bad files are skipped, those of the first files that have one."""

    def __init__(self, files: Sequence[DataFile], *, skip_bad_files: bool, access: Access | None = None) -> None:
        self._files = files
        self._access = access
        self._skip_bad_files = skip_bad_files
        self._opened: list[Tree] | None = None

    def faults_of(
        self, wagons: Sequence[Wagon], check: Callable[[Wagon], BranchlineError | None] = lambda _: None
    ) -> dict[str, WagonFault]:
        """The wagons that cannot run, for they name branches that are not there, do not pass the ``check``, or require
        one that cannot run.

        Raises the error of the first of them if there is no other wagon, and what opening a file raises.
        """
        faults: dict[str, WagonFault] = {}
        first_error: BranchlineError | None = None
        for wagon in wagons:
            stopped = [name for name in wagon.requires if name in faults]
            error = self._error_of(wagon) or check(wagon)
            if error is not None:
                faults[wagon.name] = WagonFault(type(error).__name__, str(error))
                first_error = first_error or error
            elif stopped:
                faults[wagon.name] = because_of(stopped[0])
        if first_error is not None and len(faults) == len(wagons):
            first_error.what = f"wagon {next(iter(faults))!r} {first_error.what}"
            raise first_error
        return faults

    def sizes(self, branches: Sequence[str], step_size: int | str | None, memory_limit_bytes: int) -> ChunkSizes:
        """How the dataset is cut, by the first tree that has all these branches."""
        for tree in self._trees():
            try:
                return chunk_sizes(ReadSizes.of(tree, branches), step_size, memory_limit_bytes)
            except NoSuchKeyError:
                if not self._skip_bad_files:
                    raise
        return ChunkSizes.of_unknown(step_size)

    def records(self) -> list[FileRecord]:
        """What the look took, by file."""
        return [record for tree in self._opened or () for record in opening_of(tree)]

    def _error_of(self, wagon: Wagon) -> BranchlineError | None:
        """Why a wagon's branches cannot be read from any of the trees; None if they can from one."""
        error: BranchlineError | None = None
        for tree in self._trees() if wagon.branches else ():
            found = _error_in(tree, wagon.branches or ())
            if found is None:
                return None
            error = error or found
        return error

    def _trees(self) -> Iterator[Tree]:
        if self._opened is None:
            self._opened = list(self._open())
        yield from self._opened

    def _open(self) -> Iterator[Tree]:
        found = 0
        for one in self._files:
            try:
                yield open_tree(one, self._access)
            except FILE_ERRORS:
                if not self._skip_bad_files:
                    raise
                continue
            found += 1
            if found == (LOOK_FILES if self._skip_bad_files else 1):
                return


def _error_in(tree: Tree, branches: Sequence[str]) -> BranchlineError | None:
    for name in branches:
        try:
            tree.check_readable(tree[name].path)
        except (NoSuchKeyError, UnsupportedBranchError) as error:
            return type(error)(f"names a branch that cannot be read: {error}", path=error.path)
    return None
