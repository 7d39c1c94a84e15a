"""What is to be done in a submitted train, written once, and read by each of its jobs."""

from __future__ import annotations

import json
import platform
import re
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from branchline.base.plain import check_types, from_plain
from branchline.base.trust import read_trusted
from branchline.base.whole_files import read_plain
from branchline.errors import BadFileError, BranchlineError, MissingFileError, StorageError, UntrustedFileError
from branchline.jobs.batch.site_settings import Site
from branchline.jobs.batch.system import Submitted, is_batch_system
from branchline.jobs.fold_tree import FoldNode, FoldTree
from branchline.jobs.program import ModuleFile
from branchline.records.sensors.this_process import branchline_version
from branchline.trains.plan import LoadedWagons, TrainPlan
from branchline.trains.reuse.provenance import Provenance
from branchline.trains.reuse.result_keys import WagonKey
from branchline.trains.reuse.stored_train import Learning, StoredSources, StoredTrain
from branchline.trains.subjobs.share_result import PackedWagons
from branchline.trains.submitted.reports import SubmittedReports
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

KIND, OUTLINE_KIND = "submission", "train"
_OUTLINE_MAX_BYTES = 65_536
#: Sub-jobs of an outline that is believed; the state of each of them is looked up.
SUBJOBS_COUNT_MAX = 10_000_000
_JOB_NUMBER = re.compile(r"\w[\w.#:-]*", re.ASCII)
_JOBS_MAX_BYTES = 2**30


@dataclass(frozen=True)
class TrainOutline:
    """What the status of a submitted train needs to know of it. It is plain JSON, so that reading it runs no code.

    Results are written for the nodes of stage ``unit_stage`` of the tree.
    """

    id: str
    system: str
    started: str
    submitted_s: float
    unit_stage: int
    subjobs_count: int

    @property
    def tree(self) -> FoldTree:
        """The tree by which the results of sub-jobs are folded."""
        return FoldTree(self.subjobs_count)

    def write_outline(self, folder: BatchFolder) -> None:
        """Write it for every user. Raises StorageError."""
        values = {one.name: getattr(self, one.name) for one in fields(TrainOutline)}
        write_again(folder.outline, json.dumps({"branchline": OUTLINE_KIND, "version": VERSION, **values}).encode())

    @classmethod
    def read_outline(cls, folder: BatchFolder) -> TrainOutline:
        """Return that of a directory of results. Raises MissingFileError if nothing was submitted there, BadFileError
        for a damaged one, StorageError.
        """
        try:
            content = read_plain(folder.outline, _OUTLINE_MAX_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            if folder.submission.is_file():
                read_summary(folder.submission, KIND)  # One of an earlier version has no outline.
            raise _nothing_submitted(folder) from None
        except ValueError as error:
            raise BadFileError(str(error), path=str(folder.outline)) from None
        except OSError as error:
            raise StorageError(f"it cannot be read: {error.strerror}", path=str(folder.outline)) from None
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
    """A train as it was submitted. ``plan`` is without its wagons, which are pickled in ``wagons``.

    ``merge_stages`` are folded by jobs before the last one. ``tasks_max`` is how many tasks a step has at most. Names
    of files without a folder are below ``directory``.
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
    #: By wagon; empty where nothing is kept. ``reuse_notes`` say what kept results from being reused.
    wagon_keys: dict[str, WagonKey] = field(default_factory=dict)
    reuse_notes: tuple[str, ...] = ()
    #: How often the last job sends again what is missing.
    retries: int = 0
    #: The control room, None for none.
    reports: SubmittedReports | None = None
    #: The files of the code, versions and environment when it was submitted.
    provenance: Provenance = field(default_factory=Provenance)

    def write(self, folder: BatchFolder) -> None:
        """Writes it. Raises StorageError."""
        content = framed(KIND, self, {"branchline_version": branchline_version(), "python": _python()})
        folder.submission.unlink(missing_ok=True)
        self.write_outline(folder)
        write_first(folder.submission, content, for_all=False)

    @classmethod
    def read(cls, folder: BatchFolder) -> Submission:
        """That of a directory of results. Raises MissingFileError if nothing was submitted there, BadFileError for a
        damaged one, UntrustedFileError for one of another user, BranchlineError if another version of Branchline or
        Python submitted it.
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
                what = f"this train was submitted by {name} {theirs}, and this is {name} {ours}"
                raise BranchlineError(what, path=str(folder.submission), hint="use the same on all sides")
        return read_framed(folder.submission, KIND, cls)

    def stored_train(self) -> StoredTrain:
        """The train, to be loaded with its modules as their files are now. Without these the stored ones are used."""
        if any(not Path(one.path).is_file() for one in self.sources.modules):
            self.sources.install()
        own = [one for one in self.sources.modules if one.name.startswith(MODULE_PREFIX)]
        files = tuple(ModuleFile(one.name, one.path) for one in own)
        plan = replace(self.plan, loaded=LoadedWagons((), files))
        return StoredTrain(plan, self.wagons, self.directory, self.sources.path, self.sources)

    def train_plan(self) -> TrainPlan:
        """The plan with its wagons, whose modules are imported as they were at the submission."""
        self.sources.install()
        return replace(self.plan, loaded=LoadedWagons(self.wagons.unpacked(), ()))


@dataclass(frozen=True)
class StepRecord:
    """What a step of jobs works on: for each task its nodes. The last step has one task without nodes."""

    label: str
    tasks: tuple[tuple[FoldNode, ...], ...]

    def write(self, folder: BatchFolder) -> None:
        """Writes it for its tasks, before they are submitted. Raises StorageError."""
        write_again(folder.jobs / f"{self.label}.step", framed("step", self))

    @classmethod
    def read(cls, folder: BatchFolder, label: str) -> StepRecord:
        """The step of a task. Raises MissingFileError, StorageError, BadFileError."""
        return read_framed(folder.jobs / f"{label}.step", "step", cls)


@dataclass(frozen=True)
class JobsRecord:
    """What was submitted at once. ``excluded`` are nodes that got none of it. ``retry`` counts the times that
    the last job has sent jobs since a user submitted or resumed: it is 0 for those of the user. ``causes`` say why
    sub-jobs were sent again, with their number. ``memory`` is what each task requests if that is more
    than the site says.
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
        """Writes it. Raises StorageError."""
        text = json.dumps(asdict(self))
        write_first(folder.jobs / f"{self.number}.json", text.encode())

    @classmethod
    def read_all(cls, folder: BatchFolder, *, trusted: bool = False) -> list[JobsRecord]:
        """All of a train, in their order. Raises BadFileError; if ``trusted`` also UntrustedFileError, for one that
        another user could have written.
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
            raise BadFileError(f"this record of submitted jobs cannot be read: {error}", path=str(path)) from None
        return record


def _nothing_submitted(folder: BatchFolder) -> MissingFileError:
    what = "no train was submitted into this directory"
    return MissingFileError(what, path=str(folder.out), hint="submit one with branchline run --on")


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])
