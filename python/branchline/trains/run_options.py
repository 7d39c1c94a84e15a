"""The options of a run, declared as fields of one dataclass. The signature of `branchline.run`, the command's options,
the job record and the reference documentation are derived from these fields.

`RunSettings` repeats the types of the fields for type checkers; a test compares the two.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypedDict, TypeVar

from branchline.base.checks import number_within, texts, whole_number
from branchline.base.environment import REPORT_TO
from branchline.base.limits import (
    BATCH_RETRIES,
    BATCH_TASKS_MAX,
    WORKER_TIMEOUT_S,
    memory_limit_bytes,
)
from branchline.base.option_fields import OPTIONS, comma_separated, option_field, option_of
from branchline.base.quantities import parse_bytes
from branchline.errors import OptionError
from branchline.reading.access import Access, access_of

if TYPE_CHECKING:
    from branchline.jobs.where import Where, WhereLike
    from branchline.reading.datasets.data_file import CompanionsLike
    from branchline.reading.datasets.joins import JoinsLike
    from branchline.records.output import Pictures
    from branchline.records.sensors.status import TrainStatus
    from branchline.trains.wagons.wagon_settings import ParametersLike

Given = ParamSpec("Given")
Made = TypeVar("Made")

_NOT_RECORDED = {"access", "on", "parameters", "command", "progress", "report_to", "force"}
_PACE = "Workers and chunks"
_PLACE = "Where to run"


def entries_or_bytes(text: str | None) -> int | str | None:
    """Parse the chunk size given to a command. Returns a number of entries, such as ``"1000"``, as an int, and a size
    in bytes, such as ``"50 MB"``, as text.
    """
    return int(text) if text is not None and text.strip().isdecimal() else text


def _part(text: str) -> float:
    """Parse a percentage, such as ``"2%"`` as 0.02. Raises OptionError."""
    try:
        part = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        part = -1.0
    if not text.strip().endswith("%") or not 0 <= part <= 1:
        raise OptionError(f"invalid value for --allow-missing: {text!r}", hint="give 0% to 100%, such as 2%")
    return part


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """The options that determine what the sub-jobs of a train do. They are stored with the train's plan.

    Raises OptionError for an invalid value, MemoryLimitError for too little memory.
    """

    workers: int | None = option_field(
        None,
        "--workers",
        "-j",
        help="Number of processes (default: one for each core).",
        group=_PACE,
        kind=int,
        minimum=1,
        python="Number of processes (default: one for each core); 0: run in this process.",
    )
    step_size: int | str | None = option_field(
        None,
        "--step-size",
        help='Size of a chunk: a number of entries, or a size in bytes of the branches that are read ("50 MB").',
        group=_PACE,
        metavar="SIZE",
        parse=entries_or_bytes,
    )
    memory_limit: int | str = option_field(
        "1 GiB", "--memory-limit", help="Memory that one worker may use for reading.", group=_PACE, metavar="SIZE"
    )
    worker_timeout: float = option_field(
        WORKER_TIMEOUT_S,
        "--worker-timeout",
        help="Kill a worker that makes no progress for this many seconds; 0: never.",
        group=_PACE,
        kind=int,
        metavar="SECONDS",
        minimum=0,
    )
    branches: Sequence[str] | None = option_field(
        None,
        "--branches",
        help="Branches to read from the start, separated by commas (default: all that the wagons name or use).",
        group=OPTIONS,
        metavar="NAMES",
        parse=comma_separated,
        python='Branches to read from the start, such as ["Muon_pt"] (default: all that the wagons name or use).',
    )
    access: Access | str | None = option_field(None, help='How files are read: "planned", or an Access.', group=OPTIONS)
    skip_bad_files: bool = option_field(
        False, "--skip-bad-files", help="Skip files that cannot be read, and list them.", group=OPTIONS, kind=bool
    )
    allow_missing: float = option_field(
        0.0,
        "--allow-missing",
        help="Share of the sub-jobs that may end without a result (default: 0%).",
        group=OPTIONS,
        metavar="N%",
        parse=_part,
        python="Fraction of the sub-jobs, 0 to 1, that may end without a result.",
    )
    max_events: int | None = option_field(
        None,
        "--max-events",
        help="Read only the first N events of each dataset.",
        group=OPTIONS,
        kind=int,
        metavar="N",
        minimum=1,
    )
    max_files: int | None = option_field(
        None,
        "--max-files",
        help="Read only the first N files of each dataset.",
        group=OPTIONS,
        kind=int,
        metavar="N",
        minimum=1,
    )
    seed: int = option_field(
        0, "--seed", help="Seed of the random numbers of wagons.", group=OPTIONS, kind=int, metavar="N", minimum=0
    )
    on: WhereLike | None = option_field(
        None,
        "--on",
        help="dask=tcp://host:8786, ray: run on these workers; slurm, htcondor: submit, and return immediately.",
        group=_PLACE,
        metavar="WHERE",
        python='"dask=tcp://host:8786", "ray", a Dask client or cluster, an executor; "slurm" or "htcondor": submit.',
    )

    def __post_init__(self) -> None:
        if self.workers is not None:
            self._set(workers=whole_number("number of workers", self.workers))
        if self.step_size is not None:
            size = parse_bytes(self.step_size)
            is_bytes = isinstance(self.step_size, str)
            if size < 1:
                what = self.step_size if is_bytes else f"{self.step_size} entries"
                raise OptionError(f"a step of {what} is empty", hint='write it like 10000 (entries) or "100 MB"')
            if not is_bytes:
                self._set(step_size=size)
        self._set(memory_limit=memory_limit_bytes(self.memory_limit))
        hint = "give seconds; 0 disables the timeout"
        self._set(worker_timeout=number_within("worker_timeout", self.worker_timeout, 0, sys.float_info.max, hint))
        if self.branches is not None:
            self._set(branches=texts("branches", self.branches, '["Muon_pt"]'))
        part = number_within("allow_missing", self.allow_missing, 0, 1, "give 0 to 1")
        self._set(access=access_of(self.access), allow_missing=part, seed=whole_number("seed", self.seed))
        if self.max_events is not None:
            self._set(max_events=whole_number("number of events", self.max_events, 1))
        if self.max_files is not None:
            self._set(max_files=whole_number("number of files", self.max_files, 1))
        if self.on is not None and not self.is_submitted:
            # Imported late, because most runs are on this machine.
            from branchline.jobs.where import where_of

            if self.workers is not None:
                raise OptionError("the place to run on has its own workers", hint="leave out the number of workers")
            self._set(on=where_of(self.on))

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def reading(self) -> Access:
        """The parsed ``access`` option: how files are read."""
        return access_of(self.access)

    @property
    def memory_limit_bytes(self) -> int:
        """Maximum memory that one worker may use for reading."""
        return memory_limit_bytes(self.memory_limit)

    @property
    def worker_timeout_s(self) -> float | None:
        """Seconds without progress after which a worker is replaced; None means never."""
        return self.worker_timeout or None

    @property
    def is_submitted(self) -> bool:
        """Whether the train is submitted to a batch system."""
        if not isinstance(self.on, str):
            return False
        # Imported late, because most runs are on this machine.
        from branchline.jobs.batch.system import is_batch_system

        return is_batch_system(self.on)

    @property
    def place(self) -> Where | None:
        """Where the workers run; None for processes on this machine, and for submitted trains."""
        # Imported late, because most runs are on this machine.
        from branchline.jobs.where import where_of

        return None if self.on is None or self.is_submitted else where_of(self.on)

    @property
    def starts_processes(self) -> bool:
        """Whether workers are processes on this machine."""
        return self.on is None and self.workers != 0


@dataclass(frozen=True, kw_only=True)
class RunOptions(TrainSettings):
    """All options of a run."""

    tree: str | None = option_field(
        None,
        "--tree",
        help="Name of the tree, or a pattern such as DF_*/TREE, in files that are given without a tree.",
        group=OPTIONS,
        metavar="NAME",
    )
    companions: CompanionsLike = option_field(
        None,
        "--companion",
        help='A file next to each file: "Kinematics.root", or NAME=FILE:Event{entry}/TREE; may be repeated.',
        group=OPTIONS,
        kind=list[str],
        metavar="FILE",
        python='Files next to each file: ["Kinematics.root"], or ["NAME=FILE:Event{entry}/TREE"].',
    )
    join: JoinsLike = option_field(
        None,
        "--join",
        help="Rows of a tree in the same folder that refer to the events: NAME=TREE by BRANCH; may be repeated.",
        group=OPTIONS,
        kind=list[str],
        metavar="JOIN",
        python='Rows of trees in the same folder that refer to the events: {"Tracks": "O2track by fIndexCollisions"}.',
    )
    parameters: ParametersLike = option_field(
        None, help='Values of parameters of wagons, such as {"spectrum.pt_min": 20}.', group=OPTIONS
    )
    allow_partial: bool = option_field(
        False, help="Return the finished part after Ctrl-C instead of raising KeyboardInterrupt.", group=OPTIONS
    )
    force: bool = option_field(
        False,
        "--force",
        help="Replace the results of another run in OUT.",
        group=OPTIONS,
        kind=bool,
        python="Replace the results of another process in ``out``.",
    )
    reuse: bool = option_field(
        True,
        "--no-reuse",
        help="Run all sub-jobs, even if results of an earlier run could be reused; --trace implies this.",
        group=OPTIONS,
        kind=bool,
        python="Reuse the results of an earlier run into ``out`` with the same code, parameters and files.",
    )
    pictures: Pictures = option_field(
        "svg",
        "--pictures",
        help="Formats of pictures of histograms: SVG, both SVG and PNG, or none.",
        group=OPTIONS,
        kind=Literal["svg", "both", "none"],
        python='Pictures of histograms: "svg", "both" (SVG and PNG) or "none".',
    )
    progress: Callable[[TrainStatus], None] | None = option_field(
        None,
        help="A function that is called with a TrainStatus regularly (default: a bar in notebooks).",
        group=OPTIONS,
    )
    command: str = option_field("", help="The command to show in the report.", group=OPTIONS)
    report_to: str | None = option_field(
        None,
        "--report-to",
        help=f"Report the job to this control room while it runs (default: ${REPORT_TO}).",
        group=OPTIONS,
        metavar="URL",
        python=f'URL of the control room to report to while the job runs (default: ${REPORT_TO}); "": none.',
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.progress is not None and not callable(self.progress):
            raise OptionError(f"progress cannot be {self.progress!r}", hint="give a function of a TrainStatus")
        if self.pictures not in ("svg", "both", "none"):
            raise OptionError(f"pictures cannot be {self.pictures!r}", hint="give svg, both or none")

    @classmethod
    def of(cls, function: str, given: Mapping[str, Any]) -> RunOptions:
        """Create options from keyword arguments. Raises TypeError for an unknown argument."""
        known = {one.name for one in dataclasses.fields(cls)}
        for name in given:
            if name not in known:
                raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
        return cls(**given)

    def recorded(self) -> dict[str, str]:
        """Return the options that differ from their defaults, as text, for the job record.

        Options with their own fields in the record are left out: ``access``, ``on``, ``parameters`` and ``command``.
        ``progress``, ``report_to`` and ``force`` are left out because they affect neither the results nor the files
        that are written.
        """
        usual = RunOptions()
        found = {one.name: getattr(self, one.name) for one in dataclasses.fields(self) if one.name not in _NOT_RECORDED}
        return {name: _recorded_text(name, value) for name, value in found.items() if value != getattr(usual, name)}

    def for_plan(self) -> TrainSettings:
        """Return the options that are stored with the plan of the train."""
        values = {one.name: getattr(self, one.name) for one in dataclasses.fields(TrainSettings)}
        return TrainSettings(**{**values, "on": self.place})


def _recorded_text(name: str, value: object) -> str:
    if name == "companions":
        # Imported late, because most runs have no companion files.
        from branchline.reading.datasets.data_file import companions_of
        from branchline.reading.locations import without_secrets

        found = companions_of(value)  # type: ignore[arg-type]  # the option has this type
        return ", ".join(f"{one.name}={without_secrets(one.location)}" for one in found)
    if name == "join":
        # Imported late, because most runs have no joins.
        from branchline.reading.datasets.joins import joins_of

        return ", ".join(f"{one.name}={one}" for one in joins_of(value))  # type: ignore[arg-type]  # as above
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def takes_options(function: Callable[Given, Made]) -> Callable[Given, Made]:
    """Add the options of a run to the docstring and the signature of a function that takes them as keyword
    arguments.
    """
    signature, fields = inspect.signature(function), dataclasses.fields(RunOptions)
    names = {one.name for one in fields}
    own = [one for one in signature.parameters.values() if one.kind != one.VAR_KEYWORD and one.name not in names]
    keywords = [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
        for one in fields
    ]
    lines = [f"{one.name}: {option.description}" for one in fields if (option := option_of(one)) is not None]
    function.__dict__["__signature__"] = signature.replace(parameters=[*own, *keywords])
    function.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), *lines])
    return function


class RunSettings(TypedDict, total=False):
    """The options of `RunOptions`, for type checkers: the keyword arguments of ``branchline.run`` except ``on``."""

    workers: int | None
    step_size: int | str | None
    memory_limit: int | str
    worker_timeout: float
    branches: Sequence[str] | None
    access: Access | str | None
    skip_bad_files: bool
    allow_missing: float
    max_events: int | None
    max_files: int | None
    seed: int
    tree: str | None
    companions: CompanionsLike
    join: JoinsLike
    parameters: ParametersLike
    allow_partial: bool
    force: bool
    reuse: bool
    pictures: Pictures
    progress: Callable[[TrainStatus], None] | None
    command: str
    report_to: str | None


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """How a train is submitted. Raises OptionError for an invalid value.

    ``tasks`` is the number of batch jobs that read; by default it depends on the size of the dataset. ``options`` are
    passed to the batch system unchanged. ``retries`` is the maximum number of times that the last batch job resubmits
    sub-jobs without a result.

        settings = branchline.BatchSettings(tasks=100, options=("--partition=long",))
        branchline.run("wagons.py", "data/*.root", "out", on="slurm", batch=settings)
    """

    tasks: int | None = option_field(
        None,
        "--tasks",
        help="Number of batch jobs that read (default: depends on the size of the dataset).",
        group=_PLACE,
        kind=int,
        minimum=1,
    )
    options: tuple[str, ...] = option_field(
        (),
        "--batch-option",
        help="Option passed to the batch system, such as --batch-option=--partition=long; may be repeated.",
        group=_PLACE,
        kind=list[str],
        metavar="OPTION",
    )
    retries: int = option_field(
        BATCH_RETRIES,
        "--retries",
        help="How many times the last batch job resubmits sub-jobs without a result.",
        group=_PLACE,
        kind=int,
        metavar="N",
        minimum=0,
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "retries", whole_number("number of retries", self.retries, 0))
        object.__setattr__(self, "options", texts("options of a batch system", self.options, '["--partition=long"]'))
        if self.tasks is None:
            return
        tasks = whole_number("number of tasks", self.tasks, 1)
        if tasks > BATCH_TASKS_MAX:
            raise OptionError(f"{tasks} tasks cannot be submitted", hint=f"give 1 to {BATCH_TASKS_MAX}")
        object.__setattr__(self, "tasks", tasks)
