"""The plan of a train run: settings, wagons, sub-jobs and workers.

Planning opens the first files of the dataset, and checks that their trees have the branches that the wagons name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from branchline.base.limits import LOOK_FILES
from branchline.errors import FILE_ERRORS, BranchlineError, NoSuchKeyError, UnsupportedBranchError
from branchline.jobs.program import ModuleFile
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.trees.tree import Tree
from branchline.records.sensors.record import FileRecord, WagonFault
from branchline.records.sensors.this_process import cpu_count
from branchline.trains.run_options import RunOptions, TrainSettings
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
class TrainRequest:
    """The arguments of a call of ``branchline.run``.

    ``wagons`` and ``dataset`` have any form that ``branchline.run`` accepts. ``is_traced`` is true if a trace of the
    read requests is recorded.
    """

    wagons: object
    dataset: object
    options: RunOptions = field(default_factory=RunOptions)
    is_traced: bool = False

    def load(self) -> LoadedWagons:
        """Load the wagons and set their parameters. Raises WagonError, OptionError."""
        return LoadedWagons.of(self.wagons, settings_of(self.options.parameters))

    @property
    def why_all_is_read(self) -> str:
        """The reason why the run must read all files instead of reusing results, for example to measure the reads;
        empty if results may be reused.
        """
        if self.is_traced:
            return "every request is recorded in a trace"
        return self.options.reading.why_it_is_compared

    @property
    def takes_kept(self) -> bool:
        """Whether results of an earlier run are reused."""
        return self.options.reuse and not self.why_all_is_read

    def reuse_notes(self, ledger: Path) -> list[str]:
        """Return a note for the user if results could have been reused but all files must be read. Otherwise the list
        is empty.
        """
        if not self.options.reuse or not self.why_all_is_read or not ledger.exists():
            return []
        return [f"all sub-jobs ran, including sub-jobs with reusable results, since {self.why_all_is_read}"]

    def plan(self, loaded: LoadedWagons, progress: Callable[[int, int], None] | None = None) -> TrainPlan:
        """Plan the train. ``progress`` is called with the numbers of finished and of all queries for sizes of files.

        Raises errors from listing the dataset and from opening its first file.
        """
        given = self.options
        dataset = Dataset.of(
            self.dataset,
            given.tree,
            companions=given.companions,
            access=given.reading,
            join=given.join,
            progress=progress,
        )
        # Paths are absolute, because workers may start in other directories, and cached results are looked up by path.
        plan = TrainPlan.of(given.for_plan(), loaded, dataset.with_absolute_paths())
        return replace(plan, options=given.recorded())


@dataclass(frozen=True)
class LoadedWagons:
    """Wagons in the order in which they run, and the modules that workers load for these wagons."""

    wagons: tuple[Wagon, ...]
    modules: tuple[ModuleFile, ...]

    @classmethod
    def of(cls, given: object, settings: Settings = ()) -> LoadedWagons:
        """Load wagons from a file, an object or a list, and set their parameters. If the wagons are already loaded,
        only the parameters are set.

        Raises WagonError, and OptionError for an unknown parameter or an invalid value.
        """
        if isinstance(given, LoadedWagons):
            return cls(tuple(with_settings(given.wagons, settings)), given.modules)
        wagons, modules = wagons_of(given)
        return cls(tuple(with_settings(wagons, settings)), tuple(modules))


@dataclass(frozen=True)
class TrainPlan:
    """Everything that is decided before a run.

    - ``missing`` are files of the dataset that do not exist.
    - ``shares`` are the sub-jobs.
    - ``faults`` has the reasons why some wagons cannot run, by wagon.
    - ``step`` is the number of entries per chunk; None if the wagons' branches have to be learned first. After
      learning, files may be split into fewer parts than in ``shares``.
    - ``looked_at`` are the records of opening the first files.
    """

    settings: TrainSettings
    loaded: LoadedWagons
    dataset: Dataset
    missing: tuple[DataFile, ...]
    shares: Sequence[Share]
    faults: dict[str, WagonFault]
    named_branches: tuple[str, ...]
    step: int | None
    looked_at: list[FileRecord]
    #: Wagons that are known to change the results of other wagons, with a description of the changes.
    changers: dict[str, str] = field(default_factory=dict)
    #: The options of the run as text, for the job record.
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: TrainSettings, loaded: LoadedWagons, dataset: Dataset) -> TrainPlan:
        """Split the dataset into sub-jobs. Raises errors from opening its first file."""
        if settings.max_files is not None or settings.max_events is not None:
            dataset = first_of_each(
                dataset,
                settings.max_files,
                settings.max_events,
                skip_bad_files=settings.skip_bad_files,
                access=settings.reading,
            )
        missing = dataset.missing
        if missing and not settings.skip_bad_files:
            dataset.require_present()
        files = [one for one in dataset if not one.is_missing]
        first = FirstTrees(files, skip_bad_files=settings.skip_bad_files, access=settings.reading)
        # Wagons that run in this process are not pickled, so pickling is not checked.
        faults = first.faults_of(loaded.wagons, None if settings.workers == 0 else pickling_error)
        running = [wagon for wagon in loaded.wagons if wagon.name not in faults]
        learns = settings.branches is None and any(wagon.branches is None for wagon in running)
        # Branches named in the settings, and branches named by the wagons that run.
        of_wagons = [branch for wagon in running for branch in wagon.branches or ()]
        named = tuple(dict.fromkeys([*(settings.branches or ()), *of_wagons]))
        changers = known_changes(running)
        shares, step = cut(files, settings.step_size), None
        if not learns:
            sizes = first.sizes(named, settings.step_size, settings.memory_limit_bytes)
            shares, step = merge_parts(shares, sizes), sizes.step
        return cls(settings, loaded, dataset, missing, shares, faults, named, step, first.records(), changers)

    @property
    def is_in_this_process(self) -> bool:
        """Whether the train runs in this process, without worker processes."""
        return self.settings.workers == 0

    @property
    def workers(self) -> int:
        """Number of local workers, each of which runs one sub-job at a time; 1 if the workers run elsewhere."""
        if self.settings.on is not None:
            return 1  # Workers elsewhere are not counted until they have started.
        wanted = cpu_count() if self.settings.workers is None else max(1, self.settings.workers)
        return min(wanted, max(1, len(self.shares)))

    @property
    def threads(self) -> int:
        """Number of decoding threads per worker."""
        return max(1, cpu_count() // self.workers)


class FirstTrees:
    """The tree of the first file or, if bad files are skipped, the trees of the first few readable files."""

    def __init__(self, files: Sequence[DataFile], *, skip_bad_files: bool, access: Access | None = None) -> None:
        self._files = files
        self._access = access
        self._skip_bad_files = skip_bad_files
        self._opened: list[Tree] | None = None

    def faults_of(
        self, wagons: Sequence[Wagon], check: Callable[[Wagon], BranchlineError | None] | None = None
    ) -> dict[str, WagonFault]:
        """Return the faults of wagons that cannot run: wagons that name missing branches, fail the ``check``, or
        require a wagon that cannot run.

        Raises the first error if no wagon can run. Also raises errors from opening a file.
        """
        faults: dict[str, WagonFault] = {}
        first_error: BranchlineError | None = None
        for wagon in wagons:
            stopped = [name for name in wagon.requires if name in faults]
            error = self._error_of(wagon) or (None if check is None else check(wagon))
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
        """Return the chunk sizes for reading these branches, computed from the first tree that has all of them."""
        for tree in self._trees():
            try:
                return chunk_sizes(ReadSizes.of(tree, [tree[name] for name in branches]), step_size, memory_limit_bytes)
            except NoSuchKeyError:
                if not self._skip_bad_files:
                    raise
        return ChunkSizes.of_unknown(step_size)

    def records(self) -> list[FileRecord]:
        """Return the records of opening the first files; empty if none has been opened."""
        return [record for tree in self._opened or () for record in opening_of(tree)]

    def _error_of(self, wagon: Wagon) -> BranchlineError | None:
        """Return an error if none of the trees has all branches that a wagon names; otherwise None."""
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
