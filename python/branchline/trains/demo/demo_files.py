"""The files of the demo: simulated collisions as TTrees. Several processes create the files, and later calls reuse
them.

A file appears under its name only when it is complete. It contains the parameters with which it was created, and is
reused if these equal the requested parameters. The events in a file depend only on the seed and the index of the file,
not on the number of processes. Apart from the dates that the format stores, the bytes of a file are reproducible.
"""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import awkward as ak
import uproot

from branchline.base.checks import instance_of
from branchline.base.quantities import counted
from branchline.errors import OptionError
from branchline.jobs.interruption import Interruption
from branchline.jobs.local import LocalProcesses
from branchline.jobs.subjob import Finished, SubJob
from branchline.trains.demo.collisions import PARTICLE_TYPES, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from branchline.jobs.subjob import Context

TREE_NAME = "events"
COUNT_NAME = "n"
# Number of events per basket of a branch: large enough to compress well, small enough that a file has several clusters.
BASKET_EVENTS = 50
# Version of the simulation. It is increased when the simulation gives different events for the same seed, so that older
# files are created again.
CONTENT_VERSION = 1
# Name of the file that lists all files of the demo. Such a list can be used as a dataset.
LIST_NAME = "collisions.txt"

CODECS: dict[str, uproot.compression.Compression | None] = {
    "zlib": uproot.ZLIB(1),
    "lzma": uproot.LZMA(1),
    "lz4": uproot.LZ4(4),
    "zstd": uproot.ZSTD(5),
    "none": None,
}


@dataclass(frozen=True)
class Parameters:
    """The parameters that determine the content of a file."""

    seed: int
    index: int
    events_count: int
    compression: str
    content_version: int = CONTENT_VERSION

    def file_seed(self) -> int:
        """Return the random seed of this file. The seeds for consecutive values of `seed` are one billion apart, so
        that no two files have the same seed.
        """
        return self.seed * 1_000_000_000 + self.index

    def text(self) -> str:
        """Return the parameters as the text that is stored in the file."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class DemoProgress:
    """Progress of creating the files."""

    path: Path
    kept: bool
    files_done: int
    files_count: int
    events_done: int


def make_data(
    out_dir: str | os.PathLike[str],
    files: int = 24,
    events_per_file: int = 125,
    seed: int = 1,
    compression: str = "zlib",
    workers: int | None = None,
    progress: Callable[[DemoProgress], None] | None = None,
    stopping: Callable[[], None] | None = None,
    *,
    force: bool = False,
) -> list[Path]:
    """Create the missing files of the demo, and return the paths of all files in order.

    `progress` is called for each file, created or reused. `stopping` is called on the first Ctrl-C. `out_dir` also
    receives `collisions.txt`, a list of the files that can be used as a dataset.

    Files with different content are replaced only with `force`; otherwise OptionError is raised before any file is
    created. Raises ValueError for an unknown `compression`. After the first Ctrl-C, files in progress are completed and
    kept, and KeyboardInterrupt is raised. A second Ctrl-C raises it immediately.
    """
    if compression not in CODECS:
        raise ValueError(f"unknown compression {compression!r}; choose one of {', '.join(CODECS)}")
    out_dir = Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    wanted = {
        out_dir / f"collisions-{index:03}.root": Parameters(seed, index, events_per_file, compression)
        for index in range(files)
    }
    if not force:
        check_replaceable(wanted)
    with closing(made(wanted, workers or os.cpu_count() or 1, stopping)) as steps:
        for done, (path, kept) in enumerate(steps, start=1):
            if progress is not None:
                progress(DemoProgress(path, kept, done, files, done * events_per_file))
    paths = list(wanted)
    write_whole(out_dir / LIST_NAME, lambda part: part.write_text("".join(f"{path.name}\n" for path in paths)))
    return paths


def made(
    wanted: dict[Path, Parameters], workers: int, stopping: Callable[[], None] | None = None
) -> Generator[tuple[Path, bool]]:
    """Yield each path once its file exists, and whether the file was reused."""
    missing = []
    for path, parameters in wanted.items():
        if is_kept(path, parameters):
            yield path, True
        else:
            missing.append((path, parameters))
    if not missing:
        return
    # All incomplete files are in one temporary folder, so that files left by killed processes are removed at the end.
    with tempfile.TemporaryDirectory(prefix=".part-", dir=missing[0][0].parent) as folder:
        subjobs = iter([SubJob(index, str(path), _WantedFile(path, one)) for index, (path, one) in enumerate(missing)])
        place, interruption = LocalProcesses(min(workers, len(missing))), Interruption()

        def stop() -> None:
            place.stop()
            if stopping is not None:
                stopping()

        interruption.when_asked = stop
        with interruption.installed(), interruption.waiting():
            for message in place.run(Making(folder), lambda *_: next(subjobs, None)):
                if isinstance(message, Finished):
                    yield missing[message.index][0], False
        if interruption.asked:
            raise KeyboardInterrupt


@dataclass(frozen=True)
class _WantedFile:
    path: Path
    parameters: Parameters


@dataclass(frozen=True)
class Making:
    """Creates files in a worker process until all files exist or the process is interrupted."""

    folder: str

    def __call__(self, context: Context) -> Iterator[Finished]:
        subjob = None if context.interruption.asked else context.draw()
        while subjob is not None:
            wanted = instance_of(subjob.payload, _WantedFile)
            make_file(wanted.path, wanted.parameters, self.folder)
            yield Finished(subjob.index, None, context.worker)
            subjob = None if context.interruption.asked else context.draw()


def is_kept(path: Path, parameters: Parameters) -> bool:
    """Return whether the file exists and was created with these parameters."""
    return path.exists() and parameters_in(path) == parameters


def parameters_in(path: Path) -> Parameters | None:
    """Return the parameters with which a file was created; None if the file is damaged or was written by another
    program.
    """
    try:
        with uproot.open(path) as file:
            return Parameters(**json.loads(str(file["parameters"])))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def check_replaceable(wanted: dict[Path, Parameters]) -> None:
    """Raise OptionError if a file exists that has different parameters or was not written by the demo. A file that
    differs only in its content version may be replaced.
    """
    for path, parameters in wanted.items():
        if not path.exists():
            continue
        found = parameters_in(path)
        if found is None:
            what = "exists and is not a complete file of simulated collisions"
        elif replace(found, content_version=CONTENT_VERSION) == parameters:
            continue
        else:
            what = (
                f"exists and has other collisions: {counted(found.events_count, 'event')} with seed {found.seed}, "
                f"compressed with {found.compression}"
            )
        raise OptionError(f"{path} {what}", hint="choose another folder, or replace such files with --force")


def make_file(path: Path, parameters: Parameters, folder: str | None = None) -> None:
    """Simulate the events of one file, and write the file."""
    branches = simulate(parameters.file_seed(), parameters.events_count)
    write_whole(path, lambda part: write_tree(part, branches, parameters), folder)


def write_tree(path: Path, branches: dict[str, ak.Array], parameters: Parameters) -> None:
    """Write the branches as a TTree. A single leaf counts the elements of all particle branches."""
    particles = ak.zip({name: branches[name] for name in PARTICLE_TYPES})
    columns = {name: array for name, array in branches.items() if name not in PARTICLE_TYPES} | {"": particles}
    identifier = uuid.uuid5(uuid.NAMESPACE_OID, parameters.text())
    with uproot.recreate(path, compression=CODECS[parameters.compression], uuid_function=lambda: identifier) as file:
        file["parameters"] = parameters.text()
        tree = file.mktree(
            TREE_NAME,
            {name: array.type.content for name, array in columns.items()},
            title="proton collisions at 14 TeV",
            counter_name=lambda _: COUNT_NAME,
            field_name=lambda _, inner: inner,
        )
        for start in range(0, parameters.events_count, BASKET_EVENTS):
            tree.extend({name: array[start : start + BASKET_EVENTS] for name, array in columns.items()})


def write_whole(path: Path, write: Callable[[Path], object], folder: str | None = None) -> None:
    """Let `write` write a file, which appears at `path` only when it is complete.

    The temporary file has the same name, since a ROOT file contains its own name. It is in a temporary folder within
    `folder` or, by default, next to `path`.
    """
    with tempfile.TemporaryDirectory(prefix=".part-", dir=folder or path.parent) as own:
        part = Path(own) / path.name
        write(part)
        part.replace(path)
