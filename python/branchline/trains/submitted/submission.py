"""The data that describe the work of a submitted train. They are written once, and each job of the train reads them."""

from __future__ import annotations

import json
import platform
import re
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from branchline.base.plain import check_types, from_plain
from branchline.base.quantities import GIB
from branchline.base.trust import read_trusted
from branchline.base.whole_files import read_plain
from branchline.errors import BadFileError, BranchlineError, MissingFileError, StorageError, UntrustedFileError
from branchline.jobs.batch.site_settings import Site
from branchline.jobs.batch.system import Submitted, is_batch_system
from branchline.jobs.fold_tree import FoldNode, FoldTree
from branchline.jobs.program import ModuleFile
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.dataset import Dataset
from branchline.records.sensors.record import FileRecord
from branchline.records.sensors.this_process import branchline_version
from branchline.trains.plan import LoadedWagons, TrainPlan
from branchline.trains.reuse.provenance import Provenance
from branchline.trains.reuse.result_keys import WagonKey
from branchline.trains.reuse.stored_train import Learning, StoredSources, StoredTrain
from branchline.trains.subjobs.share_result import PackedWagons
from branchline.trains.subjobs.used_inputs import PlannedCode
from branchline.trains.submitted.reports import SubmittedReports
from branchline.trains.submitted.stored_shares import StoredShares
from branchline.trains.submitted.submission_folder import (
    VERSION,
    BatchFolder,
    checked_header,
    framed,
    read_framed,
    read_summary,
    write_again,
    write_first,
)
from branchline.trains.wagons.wagons import MODULE_PREFIX

if TYPE_CHECKING:
    from branchline.records.output import Pictures

KIND, OUTLINE_KIND, _DATASET_KIND = "submission", "train", "dataset"
_OUTLINE_MAX_BYTES = 65_536
#: Maximum number of sub-jobs in an outline. Outlines with more are rejected, because a status looks up every sub-job.
SUBJOBS_COUNT_MAX = 10_000_000
_JOB_NUMBER = re.compile(r"\w[\w.#:-]*", re.ASCII)
_JOBS_MAX_BYTES = GIB


@dataclass(frozen=True)
class TrainOutline:
    """The data needed for the status of a submitted train. The outline is stored as plain JSON, so that reading it runs
    no code.

    A unit is the smallest part of the train with a result file. ``unit_stage`` is the stage of the units in the tree
    that folds results.
    """

    id: str
    system: str
    started: str
    submitted_s: float
    unit_stage: int
    subjobs_count: int

    @property
    def tree(self) -> FoldTree:
        """The tree along which the results of sub-jobs are folded."""
        return FoldTree(self.subjobs_count)

    def write_outline(self, folder: BatchFolder) -> None:
        """Write the outline to a file that all users can read. Raises StorageError."""
        values = {one.name: getattr(self, one.name) for one in fields(TrainOutline)}
        write_again(folder.outline, json.dumps({"branchline": OUTLINE_KIND, "version": VERSION, **values}).encode())

    @classmethod
    def read_outline(cls, folder: BatchFolder) -> TrainOutline:
        """Read the outline from an output directory. Raises MissingFileError if no train was submitted into the
        directory, BadFileError if the outline is damaged, and StorageError.
        """
        try:
            content = read_plain(folder.outline, _OUTLINE_MAX_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            if folder.submission.is_file():
                # Earlier versions wrote no outline. Reading their submission raises an error about the version.
                read_summary(folder.submission, KIND)
            raise _nothing_submitted(folder) from None
        except ValueError as error:
            raise BadFileError(str(error), path=str(folder.outline)) from None
        except OSError as error:
            raise StorageError(f"cannot read this file: {error.strerror}", path=str(folder.outline)) from None
        header = checked_header(content, folder.outline, OUTLINE_KIND)
        try:
            found: TrainOutline = from_plain(TrainOutline, header)
            check_types(found)
            if not is_batch_system(found.system):
                raise ValueError(f"unknown batch system {found.system!r:.80}")
            if not 0 < found.subjobs_count <= SUBJOBS_COUNT_MAX or found.unit_stage not in (0, 1):
                raise ValueError(f"{found.subjobs_count} sub-jobs in units of stage {found.unit_stage}")
        except ValueError as error:
            raise BadFileError(f"this outline of a train is damaged: {error}", path=str(folder.outline)) from None
        return found


@dataclass(frozen=True)
class Submission(TrainOutline):
    """A submitted train. ``plan`` has no wagons; they are pickled separately in ``wagons``. If it was read from a file,
    ``plan`` reads the sub-jobs when they are needed, and has only the first file of the dataset (``with_dataset``).

    Separate jobs fold the stages in ``merge_stages`` before the last job runs. ``tasks_max`` is the maximum number of
    tasks per step. Relative file names are relative to ``directory``.
    """

    site: Site
    directory: str
    command: str
    pictures: Pictures
    plan: TrainPlan
    wagons: PackedWagons
    sources: StoredSources
    learning: Learning
    merge_stages: tuple[int, ...]
    tasks_max: int
    #: Package versions and identities of code files. Each task compares them with its machine.
    code: PlannedCode = field(default_factory=PlannedCode)
    #: Ledger keys by wagon; empty if results are not cached. ``reuse_notes`` and ``rerun_causes`` (by wagon) say why
    #: results were not reused.
    wagon_keys: dict[str, WagonKey] = field(default_factory=dict)
    reuse_notes: tuple[str, ...] = ()
    rerun_causes: dict[str, str] = field(default_factory=dict)
    #: Maximum number of times that the last job submits missing units again.
    retries: int = 0
    #: The control room that receives reports; None if there is none.
    reports: SubmittedReports | None = None
    #: Code files, package versions and environment variables at the time of the submission.
    provenance: Provenance = field(default_factory=Provenance)

    def write(self, folder: BatchFolder) -> None:
        """Write the submission. Raises StorageError."""
        plan = self.plan
        files = _DatasetFiles(plan.dataset, plan.missing, plan.looked_at)
        light = replace(
            self, plan=replace(plan, shares=[], dataset=Dataset(plan.dataset.files[:1]), missing=(), looked_at=[])
        )
        content = framed(KIND, light, {"branchline_version": branchline_version(), "python": _python()})
        for path in (folder.submission, folder.dataset):
            path.unlink(missing_ok=True)
        self.write_outline(folder)
        StoredShares.write(folder, plan.shares)
        write_first(folder.dataset, framed(_DATASET_KIND, files), for_all=False)
        write_first(folder.submission, content, for_all=False)

    @classmethod
    def read(cls, folder: BatchFolder) -> Submission:
        """Read the submission from an output directory.

        Raises MissingFileError if no train was submitted into the directory, BadFileError if the file is damaged,
        UntrustedFileError if another user wrote it, and BranchlineError if it was written with another version of
        Branchline or Python.
        """
        try:
            summary = read_summary(folder.submission, KIND)
        except MissingFileError:
            raise _nothing_submitted(folder) from None
        for name, theirs, ours in (
            ("Branchline", summary.get("branchline_version"), branchline_version()),
            ("Python", summary.get("python"), _python()),
        ):
            if theirs != ours:
                what = f"this train was submitted with {name} {theirs}, but this is {name} {ours}"
                raise BranchlineError(what, path=str(folder.submission), hint="use the same version everywhere")
        found = read_framed(folder.submission, KIND, cls)
        return replace(found, plan=replace(found.plan, shares=StoredShares(folder, found.subjobs_count)))

    def with_dataset(self, folder: BatchFolder) -> Submission:
        """Return the submission with the files of the dataset. Raises MissingFileError, StorageError, BadFileError."""
        found = read_framed(folder.dataset, _DATASET_KIND, _DatasetFiles)
        plan = replace(self.plan, dataset=found.dataset, missing=found.missing, looked_at=found.looked_at)
        return replace(self, plan=plan)

    def stored_train(self) -> StoredTrain:
        """Return the stored train. Its modules are loaded from their current files. If a file is missing, all modules
        are loaded from the stored copies.
        """
        if any(not Path(one.path).is_file() for one in self.sources.modules):
            self.sources.install()
        own = [one for one in self.sources.modules if one.name.startswith(MODULE_PREFIX)]
        files = tuple(ModuleFile(one.name, one.path) for one in own)
        plan = replace(self.plan, loaded=LoadedWagons((), files))
        return StoredTrain(plan, self.wagons, self.directory, self.sources.path, self.sources)

    def train_plan(self) -> TrainPlan:
        """Return the plan with wagons that contain no user objects. From now on, this process imports modules as they
        were at the submission.

        Only worker processes unpickle wagons. A wagon may kill the process that unpickles it, and the task's own
        process must survive.
        """
        self.sources.install()
        return replace(self.plan, loaded=LoadedWagons(self.wagons.bare, ()))


@dataclass(frozen=True)
class _DatasetFiles:
    """The parts of a plan that only the last job needs."""

    dataset: Dataset
    missing: tuple[DataFile, ...]
    looked_at: list[FileRecord]


@dataclass(frozen=True)
class StepRecord:
    """The work of a step: the nodes that each of its tasks processes. The last step has a single task without nodes."""

    label: str
    tasks: tuple[tuple[FoldNode, ...], ...]

    def write(self, folder: BatchFolder) -> None:
        """Write the step. Must be called before the step's tasks are submitted. Raises StorageError."""
        write_again(folder.jobs / f"{self.label}.step", framed("step", self))

    @classmethod
    def read(cls, folder: BatchFolder, label: str) -> StepRecord:
        """Read the step of a task. Raises MissingFileError, StorageError, BadFileError."""
        return read_framed(folder.jobs / f"{label}.step", "step", cls)


@dataclass(frozen=True)
class JobsRecord:
    """One submission of jobs.

    - ``excluded`` are the machines that must not be used.
    - ``retry`` is the number of automatic retries since the user last submitted or resumed the train; 0 for jobs
      submitted by the user.
    - ``causes`` has the number of resubmitted sub-jobs by cause.
    - ``memory`` is the memory request per task if it is larger than the site's setting.
    """

    number: int
    submitted: Submitted
    submitted_s: float
    steps: tuple[StepRecord, ...]
    excluded: tuple[str, ...] = ()
    retry: int = 0
    causes: dict[str, int] = field(default_factory=dict)
    memory: str | None = None

    def write(self, folder: BatchFolder) -> None:
        """Write the record. Raises StorageError."""
        text = json.dumps(asdict(self))
        write_first(folder.jobs / f"{self.number}.json", text.encode())

    @classmethod
    def read_all(cls, folder: BatchFolder, *, trusted: bool = False) -> list[JobsRecord]:
        """Read all records of a train, in order. Raises BadFileError and, with ``trusted``, UntrustedFileError for a
        record that another user could have written.
        """
        numbered = {int(path.stem): path for path in folder.jobs.glob("*.json") if path.stem.isdecimal()}
        return [cls._of(numbered[number], trusted=trusted) for number in sorted(numbered)]

    @classmethod
    def _of(cls, path: Path, *, trusted: bool) -> JobsRecord:
        try:
            content = read_trusted(path) if trusted else read_plain(path, _JOBS_MAX_BYTES)
            record: JobsRecord = from_plain(cls, json.loads(content))
            check_types(record)
            wrong = [one.id for one in record.submitted.arrays if not _JOB_NUMBER.fullmatch(one.id)]
            if wrong or not is_batch_system(record.submitted.system):
                raise ValueError(f"unknown job {wrong[0]!r:.80}" if wrong else "unknown batch system")
        except UntrustedFileError:
            raise
        except (OSError, ValueError, RecursionError) as error:
            raise BadFileError(f"cannot read this record of submitted jobs: {error}", path=str(path)) from None
        return record


def _nothing_submitted(folder: BatchFolder) -> MissingFileError:
    what = "no train was submitted into this directory"
    return MissingFileError(what, path=str(folder.out), hint="submit one with branchline run --on")


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])
