"""Access, the settings for reading files, and ByteRange, a part of a file in requests and traces."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from branchline import _core
from branchline.base.checks import number_within, whole_number
from branchline.base.limits import LARGE_READ_BYTES
from branchline.base.option_fields import option_field
from branchline.base.quantities import KIB, MB, MIB, parse_bytes
from branchline.errors import BranchlineError, OptionError

MODES = {
    "plain": "basket by basket in the order of entries, like ROOT without a cache",
    "cache": "learns the branches from the first entries, then reads a cluster's baskets together, like TTreeCache",
    "planned": "plans all reads in advance, coalesces and prefetches them",
    "prefetch": "reads whole files into memory, the next one while one is in use",
    "stage": "copies whole files to a local disk, the next one while one is in use",
}
#: Experimental options for comparisons: their names on the command line, and the fields of Access that they set.
EXPERIMENTS = {
    "access": "mode",
    "read-ahead": "read_ahead",
    "tree-cache": "tree_cache",
    "throttle": "throttle",
    "fault": "fault",
}
EXPERIMENTAL_MODES = ("plain", "cache")
EXPERIMENTS_HELP = (
    "Read in another way, for comparison: access=plain (basket by basket, like ROOT without a cache), access=cache "
    "(like ROOT's TTreeCache) with tree-cache=SIZE, read-ahead=SIZE (a client buffer, like RFIO), "
    "throttle=latency=63ms,bandwidth=7.4MB/s (slow storage; also requests=100/s, jitter=5ms, seed=4), "
    "fault=stall,every=50,seed=4 (failing reads; also hang, reset, short, wrong, missing)."
)
LOCAL_WAYS = {
    "auto": "through the page cache: cached data sequentially, other data by several threads",
    "advised": "through the page cache, with readahead advice (fadvise) for data that is not cached",
    "threads": "through the page cache, by several threads",
    "direct": "bypassing the page cache (O_DIRECT), by several threads",
    "uring": "bypassing the page cache, many concurrent reads by io_uring",
}
# Buffer sizes that RFIO supported.
READ_AHEAD_MIN_BYTES = 4 * KIB
READ_AHEAD_MAX_BYTES = 128 * MIB
TREE_CACHE_MIN_BYTES = 10**4
# A smaller cache could not even hold the metadata of a few files.
CACHE_MIN_BYTES = MB
# More concurrent requests could overload a server.
REQUESTS_IN_FLIGHT_MAX = 1024
# XRootD servers accept at most this many streams per login.
STREAMS_MAX = 16

#: Heading of the reading options in the help of commands.
READING_OPTIONS = "How to read"

Value = TypeVar("Value")


def _option(default: Value, flag: str, metavar: str, text: str, kind: object = str) -> Value:
    return option_field(default, flag, help=text, group=READING_OPTIONS, kind=kind, metavar=metavar)


class WaitSetting(NamedTuple):
    """A timeout, retry count or pause for requests to servers, as defined by the engine: its name in `Access`, the
    environment variable that sets its default, and its range.
    """

    name: str
    variable: str
    least: float
    most: float
    default: float


#: All such settings by name.
WAITS = {one[0]: WaitSetting(*one) for one in _core.wait_settings()}


def _wait(name: str, kind: type[Value], text: str) -> Value | None:
    setting = WAITS[name]
    default: Value | None = None
    return option_field(
        default,
        f"--{name.replace('_', '-')}",
        help=f"{text} (default: ${setting.variable}, else {setting.default:g}).",
        group=READING_OPTIONS,
        kind=kind,
        metavar="N" if kind is int else "SECONDS",
    )


@dataclass(frozen=True, kw_only=True)
class Access:
    """How files are read. Sizes are in bytes, or text such as "1 MB". For values that are None, Branchline chooses a
    default for the storage. Raises OptionError for an invalid value.

    ``mode`` is "planned", "plain", "cache", "prefetch" or "stage"; ``tree_cache`` is the cache size of mode "cache",
    ``stage_dir`` the folder of mode "stage". ``local`` is "auto", "advised", "threads", "direct" or "uring". Ranges at
    most ``gap`` bytes apart are read in one request. ``requests_in_flight`` and ``bytes_in_flight`` limit concurrent
    requests, ``streams`` is the number of connections for one large XRootD read. ``cache_dir`` caches up to
    ``cache_size`` bytes read over a network. ``timeout`` is the number of seconds after which a silent server is given
    up, ``server_wait`` the longest wait that a server may request. A request is attempted up to ``tries`` times, with a
    first pause of ``retry_pause`` seconds. If ``timeout``, ``server_wait``, ``tries`` or ``retry_pause`` is None, the
    environment variable applies, or else the default.

    For comparisons, ``read_ahead`` is a client buffer of fixed size, ``throttle`` simulates slow storage
    ("latency=63ms,bandwidth=7.4MB/s"), and ``fault`` makes reads fail ("stall,every=50,seed=4").

        >>> access = branchline.Access(mode="prefetch", requests_in_flight=4, bytes_in_flight="1 MB")
        >>> access.mode, access.bytes_in_flight
        ('prefetch', 1000000)
        >>> branchline.open("file.root:Events", access=access).num_entries
        3
    """

    mode: str = _option(
        "planned",
        "--access",
        "MODE",
        "planned: prefetch the needed data; prefetch: whole files into memory; stage: whole files to a local disk.",
        Literal["planned", "prefetch", "stage"],
    )
    read_ahead: int | str | None = None
    tree_cache: int | str = "30 MB"
    local: str = _option(
        "auto",
        "--local",
        "WAY",
        "How to read local files: auto (the fastest through the page cache), advised, threads, direct (O_DIRECT), "
        "uring (io_uring).",
    )
    gap: int | str | None = _option(
        None, "--gap", "SIZE", "Read ranges at most this far apart in one request (default: by storage)."
    )
    requests_in_flight: int | None = _option(
        None, "--requests-in-flight", "N", "Maximum concurrent requests to a server (default: by storage).", int
    )
    bytes_in_flight: int | str | None = _option(
        None, "--bytes-in-flight", "SIZE", "Maximum bytes requested in advance (default: by storage)."
    )
    streams: int = _option(1, "--streams", "N", "Connections for a single large XRootD read.", int)
    cache_dir: str | None = _option(
        None, "--cache-dir", "DIR", "Cache data read over a network in this folder for later runs (default: no cache)."
    )
    cache_size: int | str = _option("10 GB", "--cache-size", "SIZE", "Maximum size of --cache-dir.")
    timeout: float | None = _wait("timeout", float, "Seconds after which a silent server is given up")
    server_wait: float | None = _wait("server_wait", float, "Longest wait in seconds that a server may request")
    tries: int | None = _wait("tries", int, "Maximum attempts of a request that fails with a transient error")
    retry_pause: float | None = _wait(
        "retry_pause", float, "Seconds before the first retry; each later pause is twice as long, up to 10 s"
    )
    stage_dir: str | None = _option(
        None, "--stage-dir", "DIR", "Folder for the files copied by --access stage (default: the temporary folder)."
    )
    throttle: str | None = None
    fault: str | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise OptionError(f"unknown access mode {self.mode!r}", hint=f"choose one of {', '.join(MODES)}")
        if self.local not in LOCAL_WAYS:
            raise OptionError(f"unknown local mode {self.local!r}", hint=f"choose one of {', '.join(LOCAL_WAYS)}")
        self._set_bytes("read_ahead", READ_AHEAD_MIN_BYTES, READ_AHEAD_MAX_BYTES)
        self._set_bytes("tree_cache", TREE_CACHE_MIN_BYTES)
        self._set_bytes("gap", 0)
        self._set_bytes("bytes_in_flight", 1)
        self._set_bytes("cache_size", CACHE_MIN_BYTES)
        self._set_folder("cache_dir")
        self._set_folder("stage_dir")
        if self.requests_in_flight is not None:
            self._check_count("requests_in_flight", REQUESTS_IN_FLIGHT_MAX)
        self._check_count("streams", STREAMS_MAX)
        for setting in WAITS.values():
            self._check_wait(setting)
        for name in ("throttle", "fault"):
            words = getattr(self, name)
            if words is not None and not isinstance(words, str):
                raise OptionError(f"invalid {name} {words!r}", hint="give it as text")
            try:
                _core.check_trouble(**{name: words})
            except ValueError as error:
                raise OptionError(str(error)) from None

    def _check_count(self, name: str, most: int) -> None:
        count = getattr(self, name)
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= most:
            raise OptionError(f"invalid number of {name.replace('_', ' ')}: {count!r}", hint=f"give 1 to {most}")

    def _check_wait(self, setting: WaitSetting) -> None:
        given = getattr(self, setting.name)
        if given is None:
            return
        hint = f"give {setting.least:g} to {setting.most:g}"
        is_count = setting.name == "tries"
        what = "number of tries" if is_count else setting.name.replace("_", " ")
        value = whole_number(what, given) if is_count else given
        number = number_within(what, value, setting.least, setting.most, hint)
        object.__setattr__(self, setting.name, int(number) if is_count else number)

    def _set_bytes(self, name: str, least: int, most: int = 2**62) -> None:
        """Convert a size to bytes."""
        given = getattr(self, name)
        if given is None:
            return
        shown = f"{name.replace('_', '-')} of {given!r}"
        try:
            size = parse_bytes(given) if isinstance(given, int | str) and not isinstance(given, bool) else -1
        except BranchlineError:
            size = -1
        if not least <= size <= most:
            bounds = f"{least} bytes or more" if most == 2**62 else f"{least} to {most} bytes"
            raise OptionError(f"invalid {shown}", hint=f'give {bounds}, e.g. "1 MiB"')
        object.__setattr__(self, name, size)

    def _set_folder(self, name: str) -> None:
        """Convert a folder to an absolute path, so that it is the same in every process."""
        given = getattr(self, name)
        if given is None:
            return
        if not isinstance(given, str | os.PathLike) or not os.fspath(given) or isinstance(os.fspath(given), bytes):
            raise OptionError(f"invalid {name.replace('_', '-')} {given!r}", hint="give the path of a folder")
        object.__setattr__(self, name, os.path.abspath(given))

    @property
    def why_it_is_compared(self) -> str:
        """Why these settings are only for comparisons, which must not reuse cached results; empty otherwise."""
        if self.mode in EXPERIMENTAL_MODES:
            return f"access {self.mode} is only for comparisons"
        for name in ("read_ahead", "throttle", "fault"):
            if getattr(self, name) is not None:
                return f"{name.replace('_', ' ')} is an experiment on reading"
        return ""

    @property
    def words(self) -> str:
        """The command line options that set the mode and the buffer."""
        is_experiment = self.mode in EXPERIMENTAL_MODES
        words = f"--experiment access={self.mode}" if is_experiment else f"--access {self.mode}"
        return words if self.read_ahead is None else f"{words} --experiment read-ahead={self.read_ahead}"

    def with_experiments(self, given: Sequence[str]) -> Access:
        """Return a copy with these experiments, each written ``NAME=VALUE`` as for ``--experiment``.

        Raises OptionError.
        """
        values, names = self.as_dict(), [text.partition("=")[0] for text in given]
        for text in given:
            name, is_set, value = text.partition("=")
            if name not in EXPERIMENTS or not is_set:
                known = ", ".join(f"{one}=VALUE" for one in EXPERIMENTS)
                raise OptionError(f"unknown experiment {text!r}", hint=f"choose one of {known}")
            if names.count(name) > 1:
                raise OptionError(f"experiment {name} is given twice", hint="give each experiment once")
            if name == "access" and value not in EXPERIMENTAL_MODES:
                raise OptionError(f"unknown experiment {text!r}", hint="choose access=plain or access=cache")
            if name == "access" and self.mode != PLANNED.mode:
                raise OptionError(f"experiment {text!r} contradicts --access {self.mode}", hint="give one of them")
            values[EXPERIMENTS[name]] = value
        if "tree-cache" in names and values["mode"] != "cache":
            raise OptionError("experiment tree-cache has no effect here", hint="add --experiment access=cache")
        return Access(**values)

    def as_dict(self) -> dict[str, Any]:
        """The fields by name; sizes in bytes, None if Branchline chooses."""
        return dataclasses.asdict(self)


#: The default access.
PLANNED = Access()


def access_of(given: object) -> Access:
    """Convert an Access, the name of a mode, or None for the default. Raises OptionError."""
    if given is None:
        return PLANNED
    if isinstance(given, str):
        return Access(mode=given)
    if isinstance(given, Access):
        return given
    raise OptionError(f"invalid access {given!r}", hint='give a mode such as "planned", or branchline.Access(...)')


def longest_wait_s(access: Access) -> float:
    """Return the longest time in seconds that a read can take before it fails, including all retries and waits."""
    return _core.longest_wait_s(access, LARGE_READ_BYTES)


class ByteRange(NamedTuple):
    """A range of a file: ``length`` bytes from ``offset`` on."""

    offset: int
    length: int
