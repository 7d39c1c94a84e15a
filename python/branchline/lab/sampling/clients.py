"""The clients of studies: programs and libraries that read a job's files, with their usual settings.

A client is created before the clock starts, including its imports. The function that the client returns is timed.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import shlex
import shutil
import subprocess
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from branchline.base.limits import KILL_GRACE_S
from branchline.base.plain import from_plain
from branchline.base.quantities import KIB, MIB, parse_bytes
from branchline.errors import BranchlineError, OptionError
from branchline.lab.sampling.bare_network import bare_socket
from branchline.lab.sampling.job import Counts, JobRequest
from branchline.lab.sampling.traces import TRACED_CLIENTS, ranges_on, traced
from branchline.lab.study import Value
from branchline.reading.access import Access
from branchline.reading.locations import is_url, shown

if TYPE_CHECKING:
    from types import ModuleType

    from branchline.trains.running.result import TrainResult

#: Name of ROOT's variable for the minimum level of printed messages.
_ERROR_LEVEL = "gErrorIgnoreLevel"

Reader = Callable[[list[str]], Counts]

#: Default read size of the client ``pieces``, as in the programs of earlier studies.
PIECE_BYTES = KIB
#: Read size of the client ``bytes``, and number of its concurrent reads.
BLOCK_BYTES, BLOCKS_AT_ONCE = 8 * MIB, 4

#: Loop over the entries of a tree in ROOT. ``work_us`` is additional CPU time per entry in microseconds.
_LOOP = """
#include <ctime>
Long64_t branchline_study_loop(TTree* tree, double work_us) {
  auto used_us = [] {
    timespec now; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now); return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
  };
  const Long64_t entries = tree->GetEntries();
  for (Long64_t i = 0; i < entries; ++i) {
    tree->GetEntry(i);
    if (work_us > 0) for (const double end_us = used_us() + work_us; used_us() < end_us;) {}
  }
  return entries;
}"""
#: Modules that a train imports when it runs and when it writes its report.
_MODULES_OF_TRAINS = (
    "branchline.records.sending.reporter",
    "branchline.records.report.report_page",
    "branchline.records.output",
    "branchline.writing.objects.forms",
    "boost_histogram",
    "pyarrow.parquet",
    "pandas",  # PyArrow imports it if it is installed.
)
_MODULES = {
    "branchline": ("branchline.reading.trees.stream", "branchline.reading.trees.iteration"),
    "bytes": ("branchline._core",),
    "reference": ("branchline.lab.reference.frozen_job",),
    "train": ("branchline.trains.run", *_MODULES_OF_TRAINS),
    "uproot": ("uproot",),
}
_ACCESS_OPTIONS = frozenset(one.name for one in dataclasses.fields(Access))


class ClientError(BranchlineError):
    """A client of a study failed to read."""


def chunks(request: JobRequest) -> Reader:
    """Create the client ``branchline``, which reads with Branchline's chunk stream.

    Options are the fields of ``branchline.Access``, ``threads`` and ``step_size``. Branches may be patterns, which are
    matched with the branches of the first file. The phases are wall times: waiting for data, waiting for decoders, and
    other.
    """
    from branchline.reading.sources import Source
    from branchline.reading.trees.stream import ChunkStream

    threads, step_size = int(request.options.get("threads", 1)), request.options.get("step_size", "100 MB")
    access = _access(request)
    branches = _branches_of(request, access)

    def read(files: list[str]) -> Counts:
        begin_s = time.perf_counter()
        sources = [Source(one, request.tree or None) for one in files]
        entries = 0
        with ChunkStream(sources, branches, step_size=str(step_size), threads=threads, access=access) as stream:
            for chunk in stream:
                entries += len(chunk)
                chunk.release()
            records = stream.records()
        found, waited = records.files, records.wait
        phases = {"wait": waited.fetch_s, "decompress": waited.decompress_s, "decode": waited.decode_s}
        phases["other"] = max(0.0, time.perf_counter() - begin_s - waited.whole_s)
        moved, calls = sum(one.bytes_read for one in found), sum(one.read_calls for one in found)
        return Counts(entries, moved, calls, phases)

    return read


def _branches_of(request: JobRequest, access: Access) -> list[str] | None:
    """Return the names of the branches that a job reads; None for all. Raises OptionError for a pattern without a
    match.
    """
    from branchline.reading.expressions.name_filters import pattern
    from branchline.reading.trees.file import File

    if not request.files or not any(pattern(one) for one in request.branches):
        return request.branches or None
    tree = File(request.files[0], access).tree(request.tree or None)
    found: list[str] = []
    for one in request.branches:
        matching = tree.keys(filter_name=one, filter_branch=lambda branch: branch.readable and not branch.is_group)
        if not matching:
            raise OptionError(f"no readable branch matches {one!r:.60}", path=shown(request.files[0]))
        found += matching
    return list(dict.fromkeys(found))


def _access(request: JobRequest) -> Access:
    tuning = {name: value for name, value in request.options.items() if name not in ("threads", "step_size")}
    try:
        return Access(**tuning)  # type: ignore[arg-type]  # Access checks them
    except TypeError:
        raise OptionError(f"unknown options of Access: {', '.join(tuning)}") from None


def root(request: JobRequest) -> Reader:
    """Create the client ``root``, which reads with ROOT's GetEntry in a C++ loop.

    The option ``cache`` is the size of the TTreeCache (0 disables the cache, the default is ROOT's choice), ``learn``
    the number of entries from which the cache learns. ``work`` is additional CPU time per entry in microseconds, to
    imitate an analysis.
    """
    loaded = _root_with_loop()
    options = dict(request.options)
    cache, learn, work_us = options.get("cache"), options.get("learn"), float(options.get("work", 0.0))
    if cache is not None and not parse_bytes(str(cache)):
        # Without this setting, a TTree creates a cache before the cache can be disabled.
        loaded.gEnv.SetValue("TTreeCache.Size", 0)

    def read(files: list[str]) -> Counts:
        entries = moved = calls = 0
        for path in files:
            file = loaded.TFile.Open(path)
            if not file or file.IsZombie():
                raise ClientError("ROOT cannot open the file", path=path)
            tree = file.Get(request.tree)
            if not tree:
                raise ClientError(f"ROOT finds no tree {request.tree!r} in the file", path=path)
            if request.branches:
                tree.SetBranchStatus("*", False)
                for name in request.branches:
                    tree.SetBranchStatus(name, True)
            if cache is not None:
                tree.SetCacheSize(parse_bytes(str(cache)))
            if learn is not None:
                loaded.TTreeCache.SetLearnEntries(int(learn))
            entries += int(loaded.branchline_study_loop(tree, work_us))
            moved, calls = moved + int(file.GetBytesRead()), calls + int(file.GetReadCalls())
            file.Close()
        return Counts(entries, moved, calls)

    return read


def rdataframe(request: JobRequest) -> Reader:
    """Create the client ``rdataframe``, which computes the mean of each branch with ROOT's RDataFrame in one event
    loop. The loop is multi-threaded if the option ``threads`` is above 1.
    """
    loaded = _root()
    threads = int(request.options.get("threads", 1))
    if threads > 1:
        loaded.EnableImplicitMT(threads)
    if not request.branches:
        raise OptionError("the client rdataframe needs branches", hint="give branches of numbers")

    def read(files: list[str]) -> Counts:
        names = loaded.std.vector("string")()
        for one in files:
            names.push_back(one)
        frame = loaded.RDataFrame(request.tree, names)
        count = frame.Count()
        means = [frame.Mean(name) for name in request.branches]
        entries = int(count.GetValue())
        for one in means:
            one.GetValue()
        return Counts(entries)

    return read


def _root_with_loop() -> ModuleType:
    loaded = _root()
    if not hasattr(loaded, "branchline_study_loop"):
        loaded.gInterpreter.Declare(_LOOP)
    return loaded


def _root() -> ModuleType:
    warnings.simplefilter("ignore")
    try:
        found = importlib.import_module("ROOT")
    except ImportError:
        raise ClientError(
            "ROOT is not installed here", hint="pip install --pre root, or choose another client"
        ) from None
    setattr(found, _ERROR_LEVEL, found.kFatal)
    found.gROOT.SetBatch(True)
    return found


def uproot(request: JobRequest) -> Reader:
    """Create the client ``uproot``, which reads file by file with uproot's arrays. The option ``library`` is np by
    default. Without branches, it reads all branches of numbers and of lists of numbers.
    """
    try:
        import uproot as peer
    except ImportError:
        raise ClientError("uproot is not installed", hint="pip install uproot, or choose another client") from None
    library = str(request.options.get("library", "np"))

    def read(files: list[str]) -> Counts:
        entries = calls = moved = 0
        for one in files:
            handler = {"handler": peer.XRootDSource} if one.startswith("root://") else {}
            with peer.open(one, **handler) as file:
                tree = file[request.tree]
                names = request.branches or [
                    name for name, branch in tree.iteritems() if _is_plain(branch.interpretation)
                ]
                tree.arrays(names, library=library)
                entries += tree.num_entries
                calls += file.file.source.num_requests
                moved += file.file.source.num_requested_bytes
        return Counts(entries, moved, calls)

    return read


def _is_plain(interpretation: object) -> bool:
    """Return whether uproot reads a branch as numbers or lists of numbers."""
    return type(interpretation).__name__ in ("AsDtype", "AsJagged")


def pieces(request: JobRequest) -> Reader:
    """Create the client ``pieces``, which reads local files sequentially in unbuffered reads of ``size`` bytes, 1 KiB
    by default.
    """
    size = parse_bytes(str(request.options.get("size", PIECE_BYTES)))

    def read(files: list[str]) -> Counts:
        moved = calls = 0
        for one in files:
            if is_url(one):
                raise ClientError("the client pieces reads only local files", path=one, hint="use the client bytes")
            descriptor = os.open(one, os.O_RDONLY)
            try:
                while block := os.read(descriptor, size):
                    moved, calls = moved + len(block), calls + 1
            finally:
                os.close(descriptor)
        return Counts(None, moved, calls)

    return read


def whole_bytes(request: JobRequest) -> Reader:
    """Create the client ``bytes``, which reads the whole files, four ranges of 8 MiB at a time, without decoding, to
    measure the storage.
    """
    from branchline._core import Store
    from branchline.reading.access import ByteRange

    access = _access(request)

    def read(files: list[str]) -> Counts:
        moved = calls = 0
        for one in files:
            store = Store(one, access)
            size = store.size_bytes
            ranges = [ByteRange(begin, min(BLOCK_BYTES, size - begin)) for begin in range(0, size, BLOCK_BYTES)]
            for first in range(0, len(ranges), BLOCKS_AT_ONCE):
                some = store.read(ranges[first : first + BLOCKS_AT_ONCE])
                moved, calls = moved + sum(map(len, some.contents)), calls + some.read_calls
        return Counts(None, moved, calls)

    return read


def reference(request: JobRequest) -> Reader:
    """Create the client ``reference``, which runs the reference job on its file and checks the values.

    The options are the fields of `FrozenFile`, by default those of the reference file of default size.
    """
    from branchline.lab.reference.frozen_file import KNOWN, FrozenFile
    from branchline.lab.reference.frozen_job import run_frozen_job

    expected: FrozenFile = from_plain(FrozenFile, dict(request.options)) if request.options else KNOWN

    def read(files: list[str]) -> Counts:
        if len(files) != 1:
            raise OptionError(f"the reference job reads one file, not {len(files)}")
        found = run_frozen_job(files[0], expected)
        return Counts(found.events, found.bytes_read, found.read_calls, reference=found)

    return read


def ranges(request: JobRequest) -> Reader:
    """Create the client ``ranges``, which repeats the reads of a trace from local files with the same content, in order
    and one at a time.
    """
    trace = Path(request.trace)
    # Existing files are matched before the clock starts. The names of staged copies are not known yet.
    known = [] if request.stage else _wanted(trace, request.files)

    def read(files: list[str]) -> Counts:
        wanted = known or _wanted(trace, files)
        opened: dict[str, int] = {}
        moved = 0
        try:
            for file, offset, size in wanted:
                if file not in opened:
                    opened[file] = os.open(file, os.O_RDONLY)
                moved += len(os.pread(opened[file], size, offset))
        finally:
            for one in opened.values():
                os.close(one)
        return Counts(None, moved, len(wanted))

    return read


def _wanted(trace: Path, files: list[str]) -> list[tuple[str, int, int]]:
    found = ranges_on(trace, files)
    if not found:
        raise ClientError("the trace contains no reads of these files", path=str(trace))
    return found


def copy(request: JobRequest) -> Reader:
    """Create the client ``copy``, which copies with cp, xrdcp or curl, depending on the scheme. The option ``to`` is
    the target folder, /dev/null by default.
    """

    def read(files: list[str]) -> Counts:
        folder = request.options.get("to")
        with _own_folder(str(folder)) if folder else _nothing() as to:
            for number, one in enumerate(files):
                copied_to(one, Path("/dev/null") if to is None else to / f"{number}.root")
        return Counts()

    return read


def copied_to(location: str, to: Path, wait_s: float | None = None) -> None:
    """Copy a file with the usual program for its scheme. Raises ClientError if copying fails or exceeds the timeout
    ``wait_s``. Without a timeout, the caller has to enforce a deadline.
    """
    scheme = location.partition("://")[0] if is_url(location) else ""
    if scheme in ("root", "roots", "xroot", "xroots"):
        words = ["xrdcp", "--silent", "--nopbar", "--force", location, str(to)]
    elif scheme in ("http", "https", "dav", "davs"):
        words = ["curl", "--silent", "--show-error", "--fail", "--location", "--output", str(to), location]
    elif scheme:
        raise ClientError(f"no known program copies {scheme}://", path=location, hint="use the client command")
    else:
        words = ["cp", location, str(to)]
    _run(words, location, wait_s)


def any_command(request: JobRequest) -> Reader:
    """Create the client ``command``, which runs any command. In the command, {files}, {folder}, {job} and {tree} are
    replaced by the job's files, the job's output folder, the job's number and the name of the tree.
    """

    def read(files: list[str]) -> Counts:
        words: list[str] = []
        for word in shlex.split(request.command):
            if word == "{files}":
                words += files
                continue
            for name, value in (("job", str(request.number)), ("folder", request.folder), ("tree", request.tree)):
                word = word.replace(f"{{{name}}}", value)
            words.append(word)
        _run(words, request.command)
        return Counts()

    if not request.command.strip():
        raise OptionError("the client command needs a command", hint='write command = "program {files}"')
    return read


def train(request: JobRequest) -> Reader:
    """Create the client ``train``, which runs `branchline.run` in this process (``workers`` is 0) with the wagons in
    ``train``.

    Options are those of `branchline.run` and the fields of ``branchline.Access``; ``access`` is the access mode.
    Imports happen before the clock starts.
    """
    from branchline.trains.run import run as run_train

    _import_all(_MODULES_OF_TRAINS)
    options = {name.replace("-", "_"): value for name, value in request.options.items()}
    reading = {name: options.pop(name) for name in list(options) if name in _ACCESS_OPTIONS}
    mode = str(options.pop("access", "planned"))
    access = Access(mode=mode, **reading)  # type: ignore[arg-type]  # Access checks them
    settings: dict[str, Value] = {"workers": 0, **options, "reuse": False, "report_to": ""}
    unknown = settings.keys() - inspect.signature(run_train).parameters.keys()
    if unknown:
        raise OptionError(f"trains have no such option: {', '.join(sorted(unknown))}")
    output = Path(request.folder) / "train"

    def read(files: list[str]) -> Counts:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Warnings are repeated in the errors of the result.
            call = inspect.signature(run_train).bind(
                request.train,
                files,
                output,
                tree=request.tree or None,
                branches=request.branches or None,
                companions=request.companions or None,
                access=access,
                **settings,
            )
            # `run` validates the types of these values.
            result: TrainResult = run_train(*call.args, **call.kwargs)
        if result.exit_code:
            raise ClientError(f"the train failed: {'; '.join(result.errors)}", path=request.train)
        record = result.record
        phases = {name: seconds for name, seconds in record.phases.items() if seconds > 0}
        moved, calls = sum(one.bytes_read for one in record.files), sum(one.read_calls for one in record.files)
        return Counts(record.events, moved, calls, phases)

    return read


def _run(words: list[str], about: str, wait_s: float | None = None) -> None:
    try:
        process = subprocess.Popen(  # noqa: S603 - a well-known program, or the user's own command
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise ClientError(f"{words[0]} cannot be run: {error.strerror}") from None
    try:
        printed, errors = process.communicate(timeout=wait_s)
    except subprocess.TimeoutExpired:
        what = f"{words[0]} timed out after {wait_s:g} s"
        raise ClientError(what, path=about, retry=True) from None
    finally:
        if process.poll() is None:
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                # A process that is blocked by a dead file system does not exit even after a kill.
                process.communicate(timeout=KILL_GRACE_S)
    if process.returncode:
        said = (errors or printed)[-2000:].decode(errors="replace").strip()
        raise ClientError(f"{words[0]} ended with code {process.returncode}: {said}", path=about)


@contextmanager
def _own_folder(below: str) -> Iterator[Path]:
    folder = Path(below) / f"branchline-study-{os.getpid()}"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


def staged(request: JobRequest, reader: Reader) -> Reader:
    """Return a reader that first copies the files to the folder ``stage`` of the job, and then reads the copies."""

    def read(files: list[str]) -> Counts:
        with _own_folder(request.stage) as folder:
            places = []
            for number, one in enumerate(files):
                places.append(str(folder / f"{number}-{Path(one).name}"))
                copied_to(one, Path(places[-1]))
            return reader(places)

    return read


CLIENTS: dict[str, Callable[[JobRequest], Reader]] = {
    "branchline": chunks,
    "train": train,
    "root": root,
    "rdataframe": rdataframe,
    "uproot": uproot,
    "copy": copy,
    "pieces": pieces,
    "bytes": whole_bytes,
    "reference": reference,
    "ranges": ranges,
    "socket": bare_socket,
    "command": any_command,
}


def prepare(client: str) -> None:
    """Import the modules that a client needs, for jobs that are forked from this process. The jobs report missing
    packages.
    """
    with suppress(ClientError):
        if client == "root":
            _root_with_loop()
        elif client == "rdataframe":
            _root()
    _import_all(_MODULES.get(client, ()))


def _import_all(names: Iterable[str]) -> None:
    for name in names:
        with suppress(ImportError):
            importlib.import_module(name)


def reader_of(request: JobRequest) -> Reader:
    """Return the reader of a job's client, which copies files and records a trace if requested. Raises OptionError for
    an unknown client.
    """
    if request.client not in CLIENTS:
        raise OptionError(f"unknown client {request.client!r:.60}", hint=f"choose one of {', '.join(CLIENTS)}")
    reader = CLIENTS[request.client](request)
    if request.trace and request.client in TRACED_CLIENTS:
        reader = traced(reader, Path(request.trace))
    return staged(request, reader) if request.stage else reader
