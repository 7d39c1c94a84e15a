"""The demo's files: simulated collisions as TTrees, made once by several processes and kept for the next time.

A file appears under its name only when it is whole, and carries the parameters it was made with: it is kept as long as
these are the wanted ones. The events in a file depend on the seed and the number of the file alone, not on how many
processes made it; of its bytes, only the dates that the format keeps differ from one making to the next.
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
# Events per basket of a branch: big enough to compress well, small enough that a file has several clusters.
BASKET_EVENTS = 50
# Raised whenever the simulation gives other events for the same seed, so that older files are made again.
CONTENT_VERSION = 1
# Files take the name of their dataset, and one list of all of them is a dataset too.
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
    """What decides on the content of one file."""

    seed: int
    index: int
    events_count: int
    compression: str
    content_version: int = CONTENT_VERSION

    def file_seed(self) -> int:
        """The seed of this file's simulation; one billion files apart from those of the next seed."""
        return self.seed * 1_000_000_000 + self.index

    def text(self) -> str:
        """As written into the file."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class Progress:
    """How far the making of the data has come."""

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
    progress: Callable[[Progress], None] | None = None,
    stopping: Callable[[], None] | None = None,
    *,
    force: bool = False,
) -> list[Path]:
    """Make what is missing of the demo's files, and give the paths of all of them in order.

    `progress` is called for each file, kept or made, `stopping` on the first Ctrl-C. `out_dir` also gets
    `collisions.txt`, a list of these files that serves as a dataset. Files with other content are replaced only with
    `force`; without it OptionError is raised before anything is made. Raises ValueError when `compression` is not one
    of `CODECS`, and KeyboardInterrupt after the files in the making are finished and kept, or on a second Ctrl-C.
    """
    if compression not in CODECS:
        raise ValueError(f"compression {compression!r} is not known; there are {', '.join(CODECS)}")
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
                progress(Progress(path, kept, done, files, done * events_per_file))
    paths = list(wanted)
    write_whole(out_dir / LIST_NAME, lambda part: part.write_text("".join(f"{path.name}\n" for path in paths)))
    return paths


def made(
    wanted: dict[Path, Parameters], workers: int, stopping: Callable[[], None] | None = None
) -> Generator[tuple[Path, bool]]:
    """Each path once its file is there, and whether it was there before."""
    missing = []
    for path, parameters in wanted.items():
        if is_kept(path, parameters):
            yield path, True
        else:
            missing.append((path, parameters))
    if not missing:
        return
    # What processes that are killed leave half made is in one folder, which goes with the last of them.
    with tempfile.TemporaryDirectory(prefix=".part-", dir=missing[0][0].parent) as folder:
        subjobs = iter([SubJob(index, str(path), (path, one)) for index, (path, one) in enumerate(missing)])
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
class Making:
    """What each process does: files, one after the other, until there are no more or it is interrupted."""

    folder: str

    def __call__(self, context: Context) -> Iterator[Finished]:
        subjob = None if context.interruption.asked else context.draw()
        while subjob is not None:
            path, parameters = subjob.payload
            make_file(path, parameters, self.folder)
            yield Finished(subjob.index, None, context.worker)
            subjob = None if context.interruption.asked else context.draw()


def is_kept(path: Path, parameters: Parameters) -> bool:
    """Whether the file is there and made with these parameters."""
    return path.exists() and parameters_in(path) == parameters


def parameters_in(path: Path) -> Parameters | None:
    """What a file was made with; None for one of another program, or one that was damaged later."""
    try:
        with uproot.open(path) as file:
            return Parameters(**json.loads(str(file["parameters"])))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def check_replaceable(wanted: dict[Path, Parameters]) -> None:
    """Raise OptionError for a file with other content, unless it differs only since an older version simulated it."""
    for path, parameters in wanted.items():
        if not path.exists():
            continue
        found = parameters_in(path)
        if found is None:
            what = "is there and is no whole file of simulated collisions"
        elif replace(found, content_version=CONTENT_VERSION) == parameters:
            continue
        else:
            what = (
                f"is there and has other collisions: {counted(found.events_count, 'event')} with seed {found.seed}, "
                f"compressed with {found.compression}"
            )
        raise OptionError(f"{path} {what}", hint="choose another folder, or replace such files with --force")


def make_file(path: Path, parameters: Parameters, folder: str | None = None) -> None:
    """Simulate the events of one file and write it."""
    branches = simulate(parameters.file_seed(), parameters.events_count)
    write_whole(path, lambda part: write_tree(part, branches, parameters), folder)


def write_tree(path: Path, branches: dict[str, ak.Array], parameters: Parameters) -> None:
    """Write the branches as a TTree, the particles' arrays counted by one leaf."""
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
    """Let `write` write a file that appears at its place only when it is whole.

    It is written under its own name, since a ROOT file holds that, in a folder of its own within `folder` or next to
    `path`.
    """
    with tempfile.TemporaryDirectory(prefix=".part-", dir=folder or path.parent) as own:
        part = Path(own) / path.name
        write(part)
        part.replace(path)
