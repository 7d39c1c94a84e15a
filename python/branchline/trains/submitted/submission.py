"""What is to be done in a submitted train, written once, and read by each of its jobs."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import cloudpickle

from branchline.errors import BadFileError, BranchlineError, MissingFileError
from branchline.jobs.batch.site_settings import Site
from branchline.jobs.batch.system import JobArray, Submitted
from branchline.jobs.fold_tree import FoldNode, FoldTree
from branchline.jobs.program import ModuleFile
from branchline.records.sensors.versions import branchline_version
from branchline.trains.plan import LoadedWagons, TrainPlan
from branchline.trains.reuse.provenance import Provenance
from branchline.trains.reuse.result_keys import WagonKey
from branchline.trains.reuse.stored_sources import StoredSources
from branchline.trains.reuse.stored_train import Learning, StoredTrain
from branchline.trains.submitted.reports import SubmittedReports
from branchline.trains.submitted.submission_folder import (
    BatchFolder,
    framed,
    read_framed,
    read_summary,
    write_again,
    write_first,
)
from branchline.trains.wagons.wagons import MODULE_PREFIX

if TYPE_CHECKING:
    from branchline.records.output import Pictures

KIND = "submission"


@dataclass(frozen=True)
class Submission:
    """A train as it was submitted. ``plan`` is without its wagons, which are pickled in ``wagons``.

    Results are written for the nodes of stage ``unit_stage`` of the tree; ``merge_stages`` are folded by jobs before
    the last one. ``tasks_max`` is how many tasks a step has at most. Names of files without a folder are below
    ``directory``.
    """

    id: str
    system: str
    site: Site
    started: str
    submitted_s: float
    directory: str
    command: str
    pictures: Pictures
    plan: TrainPlan
    wagons: bytes
    sources: StoredSources
    learning: Learning
    unit_stage: int
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

    @property
    def tree(self) -> FoldTree:
        """The tree by which its results are folded."""
        return FoldTree(len(self.plan.shares))

    def write(self, folder: BatchFolder) -> None:
        """Writes it. Raises StorageError."""
        content = framed(KIND, self, {"branchline_version": branchline_version(), "python": _python()})
        folder.submission.unlink(missing_ok=True)
        write_first(folder.submission, content)

    @classmethod
    def read(cls, folder: BatchFolder) -> Submission:
        """That of a directory of results. Raises MissingFileError if nothing was submitted there, BadFileError for a
        damaged one, BranchlineError if another version of Branchline or Python submitted it.
        """
        try:
            summary = read_summary(folder.submission, KIND)
        except MissingFileError:
            what = "no train was submitted into this directory"
            raise MissingFileError(what, path=str(folder.out), hint="submit one with branchline run --on") from None
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
        return replace(self.plan, loaded=LoadedWagons(cloudpickle.loads(self.wagons), ()))


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
    def read_all(cls, folder: BatchFolder) -> list[JobsRecord]:
        """All of a train, in their order. Raises BadFileError."""
        numbered = {int(path.stem): path for path in folder.jobs.glob("*.json") if path.stem.isdigit()}
        return [cls._of(numbered[number]) for number in sorted(numbered)]

    @classmethod
    def _of(cls, path: Path) -> JobsRecord:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            steps = tuple(
                StepRecord(one["label"], tuple(tuple(FoldNode(**node) for node in task) for task in one["tasks"]))
                for one in found["steps"]
            )
            submitted = Submitted(
                found["submitted"]["system"], tuple(JobArray(**one) for one in found["submitted"]["arrays"])
            )
            excluded = tuple(found.get("excluded", ()))
            number, submitted_s, retry = found["number"], found["submitted_s"], found.get("retry", 0)
            causes, memory = found.get("causes", {}), found.get("memory")
            return cls(number, submitted, submitted_s, steps, excluded, retry, causes, memory)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadFileError(f"this record of submitted jobs cannot be read: {error}", path=str(path)) from None


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])
