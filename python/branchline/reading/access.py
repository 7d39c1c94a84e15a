"""Access: how a job reads its files. ByteRange: a part of a file, as requests and traces name it.

A field's ``metadata`` describes its option on the command line: flag, metavar, type, help and its heading there.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import Any, NamedTuple

from branchline import _core
from branchline.base.limits import LARGE_READ_BYTES, parse_bytes
from branchline.errors import BranchlineError, OptionError

MODES = {
    "plain": "basket by basket in the order of the entries, as ROOT does without a cache",
    "cache": "branches are learned on the first entries, then a cluster's baskets read together, as by TTreeCache",
    "planned": "all that is needed is planned first, joined, and prefetched",
    "prefetch": "whole files into memory, the next one while one is in use",
    "stage": "whole files to a local disk first, the next one while one is in use",
}
LOCAL_WAYS = {
    "advised": "through the kernel's cache, which is advised to read ahead what it does not hold yet",
    "threads": "through the kernel's cache, by several threads",
    "direct": "past the kernel's cache (O_DIRECT), by several threads",
    "uring": "past the kernel's cache, many reads at a time by io_uring",
}
# Sizes that the buffer of RFIO could have.
READ_AHEAD_MIN_BYTES = 4 * 2**10
READ_AHEAD_MAX_BYTES = 128 * 2**20
TREE_CACHE_MIN_BYTES = 10**4
# Less holds not even the metadata of a few files.
CACHE_MIN_BYTES = 10**6
# More connections or requests than this are an attack on a server.
REQUESTS_IN_FLIGHT_MAX = 1024
# XRootD servers take no more for one login.
STREAMS_MAX = 16

#: Headings of the command line's help: options that tune reading, and those that make it slower or fail, to compare.
READING_OPTIONS = "How to read"
EXPERIMENT_OPTIONS = "Experiments (other ways to read, slow or failing storage)"


def _option(default: Any, flag: str, metavar: str, text: str, group: str = READING_OPTIONS) -> Any:
    metadata = {"flag": flag, "metavar": metavar, "help": text, "group": group, "type": int if metavar == "N" else str}
    return dataclasses.field(default=default, metadata=metadata)


def _experiment(default: Any, flag: str, metavar: str, text: str) -> Any:
    return _option(default, flag, metavar, text, EXPERIMENT_OPTIONS)


@dataclass(frozen=True, kw_only=True)
class Access:
    """How files are read. Sizes are bytes or texts such as "1 MB", and bytes afterwards; None leaves them to
    Branchline, which chooses them by the storage. Raises OptionError for an impossible value.

    ``mode`` is "planned", "plain", "cache", "prefetch" or "stage"; ``tree_cache`` is the size of the cache of "cache",
    ``stage_dir`` the folder of "stage". ``local`` is "advised", "threads", "direct" or "uring". Ranges that are at most
    ``gap`` apart are read in one request. ``requests_in_flight`` and ``bytes_in_flight`` bound what is requested at a
    time, ``streams`` is the number of connections for one large read of XRootD. ``cache_dir`` keeps up to
    ``cache_size`` of what is read over a network. To compare: ``read_ahead`` is a client buffer of fixed
    size, ``throttle`` makes the storage slow ("latency=63ms,bandwidth=7.4MB/s"), and ``fault`` makes reads fail
    ("stall,every=50,seed=4").

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
        "planned: read ahead what is needed; prefetch: whole files into memory; stage: whole files to a local disk; "
        "for comparisons plain: basket by basket, as ROOT without a cache; cache: as ROOT's TTreeCache.",
    )
    read_ahead: int | str | None = _experiment(
        None, "--read-ahead", "SIZE", "Read through a client buffer of 4 KiB to 128 MiB, as RFIO does (default: none)."
    )
    tree_cache: int | str = _experiment("30 MB", "--tree-cache", "SIZE", "Size of the cache of --access cache.")
    local: str = _option(
        "advised",
        "--local",
        "WAY",
        "How to read local files: advised (through the kernel's cache, with advice), threads, direct (O_DIRECT), "
        "uring (io_uring).",
    )
    gap: int | str | None = _option(
        None, "--gap", "SIZE", "Read ranges that are at most this far apart in one request (default: by storage)."
    )
    requests_in_flight: int | None = _option(
        None, "--requests-in-flight", "N", "Requests to a server at a time (default: by storage)."
    )
    bytes_in_flight: int | str | None = _option(
        None, "--bytes-in-flight", "SIZE", "Bytes requested ahead at a time (default: by storage)."
    )
    streams: int = _option(1, "--streams", "N", "Connections over which an XRootD server sends one large read.")
    cache_dir: str | None = _option(
        None, "--cache-dir", "DIR", "Keep bytes read over a network in this folder for later runs (default: no cache)."
    )
    cache_size: int | str = _option("10 GB", "--cache-size", "SIZE", "Keep at most this much in --cache-dir.")
    stage_dir: str | None = _option(
        None, "--stage-dir", "DIR", "Folder for the copies of --access stage (default: the temporary folder)."
    )
    throttle: str | None = _experiment(
        None,
        "--throttle",
        "SPEC",
        'Make the storage slow: "latency=63ms,bandwidth=7.4MB/s"; also requests=100/s, jitter=5ms, seed=4.',
    )
    fault: str | None = _experiment(
        None, "--fault", "SPEC", 'Make reads fail: "stall,every=50,seed=4"; also hang, reset, short, wrong, missing.'
    )

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise OptionError(f"there is no access {self.mode!r}", hint=f"there are {', '.join(MODES)}")
        if self.local not in LOCAL_WAYS:
            raise OptionError(f"there is no local {self.local!r}", hint=f"there are {', '.join(LOCAL_WAYS)}")
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
        for name in ("throttle", "fault"):
            _check_trouble(name, getattr(self, name))

    def _check_count(self, name: str, most: int) -> None:
        count = getattr(self, name)
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= most:
            raise OptionError(f"{count!r} {name.replace('_', ' ')} are impossible", hint=f"give 1 to {most}")

    def _set_bytes(self, name: str, least: int, most: int = 2**62) -> None:
        """Makes a size a number of bytes."""
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
            raise OptionError(f"a {shown} is impossible", hint=f'give {bounds}, e.g. "1 MiB"')
        object.__setattr__(self, name, size)

    def _set_folder(self, name: str) -> None:
        """Makes a folder a text that means the same in every process."""
        given = getattr(self, name)
        if given is None:
            return
        if not isinstance(given, str | os.PathLike) or not os.fspath(given) or isinstance(os.fspath(given), bytes):
            raise OptionError(
                f"a {name.replace('_', '-')} of {given!r} is impossible", hint="give the path of a folder"
            )
        object.__setattr__(self, name, os.path.abspath(given))

    @property
    def why_it_is_compared(self) -> str:
        """Why somebody who asks for this way to read wants to see it read; empty if it is a usual way."""
        if self.mode in ("plain", "cache"):
            return f"access {self.mode} is there to be compared"
        for name in ("read_ahead", "throttle", "fault"):
            if getattr(self, name) is not None:
                return f"{name.replace('_', ' ')} is an experiment on reading"
        return ""

    def as_dict(self) -> dict[str, Any]:
        """The fields by their names; sizes in bytes, None where Branchline chooses."""
        return dataclasses.asdict(self)


def _check_trouble(name: str, words: Any) -> None:
    if words is not None and not isinstance(words, str):
        raise OptionError(f"a {name} of {words!r} is impossible", hint="give it as a text")
    try:
        _core.check_trouble(**{name: words})
    except ValueError as error:
        raise OptionError(str(error)) from None


#: The default access.
PLANNED = Access()


def access_of(given: Any) -> Access:
    """An Access, from one, from the name of a mode, or from None. Raises OptionError."""
    if given is None:
        return PLANNED
    if isinstance(given, str):
        return Access(mode=given)
    if isinstance(given, Access):
        return given
    raise OptionError(f"{given!r} is no way to read", hint='give a mode such as "planned", or branchline.Access(...)')


def longest_wait_s() -> float:
    """How long reading something may take with all tries and waits that the environment allows; in the end it fails."""
    return _core.longest_wait_s(LARGE_READ_BYTES)


class ByteRange(NamedTuple):
    """A range of a file: ``length`` bytes from ``offset`` on."""

    offset: int
    length: int
