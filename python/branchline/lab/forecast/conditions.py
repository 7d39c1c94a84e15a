"""The conditions of a forecast: what is to be otherwise, as a user writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace

from branchline.base.limits import parse_bytes
from branchline.errors import OptionError
from branchline.reading.access import MODES

#: Size of a merged file, if none is given.
MERGED_BYTES = 10**9
#: Units of a time.
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
KEYS = (
    "rtt, bandwidth, access, gap, tree-cache, buffer, codec, layout, order, baskets, clusters, branches, cores, "
    "threads, jobs"
)


@dataclass(frozen=True)
class Conditions:
    """What is otherwise; None leaves it as it is. Times are in seconds, sizes in bytes.

    ``merged_bytes`` is the size of merged files, ``basket_bytes`` that of larger baskets in the file,
    ``cluster_bytes`` that of clusters; ``by_branch`` and
    ``by_entry`` are orders of baskets. ``gap_bytes``, ``tree_cache_bytes`` and ``buffer_bytes`` (what is requested at a
    time) are sizes of reading. ``cores`` are the workers of a job, or the threads of a reader; ``threads`` are those
    that decode in each worker. ``jobs`` at once are left to a simulation.
    """

    round_trip_s: float | None = None
    bytes_per_second: float | None = None
    mode: str | None = None
    codec: str | None = None
    merged_bytes: int | None = None
    by_entry: bool = False
    basket_bytes: int | None = None
    branches: tuple[str, ...] | None = None
    cores: int | None = None
    threads: int | None = None
    jobs: int | None = None
    by_branch: bool = False
    gap_bytes: int | None = None
    tree_cache_bytes: int | None = None
    buffer_bytes: int | None = None
    cluster_bytes: int | None = None

    @property
    def changes_layout(self) -> bool:
        """Whether files would have to be written again."""
        sizes = self.merged_bytes or self.basket_bytes or self.cluster_bytes
        return bool(self.codec or sizes or self.by_entry or self.by_branch)

    def words(self) -> str:
        """The conditions as they are written."""
        said = [(one.name, getattr(self, one.name)) for one in fields(self)]
        return ", ".join(f"{name}={value}" for name, value in said if value not in (None, False))


def conditions_of(texts: Iterable[str]) -> Conditions:
    """The conditions that were written as ``rtt=63ms``, ``layout=merged,order=entry`` and so on.

    Raises OptionError for one that is unknown or has no such value.
    """
    found = Conditions()
    for text in texts:
        parts = text.split(",")
        # The names of branches are separated by commas, too.
        if text.startswith("branches="):
            parts = [text]
        for part in parts:
            key, is_pair, value = part.partition("=")
            if not is_pair or not value:
                raise _unknown(part)
            found = _with(found, key.strip(), value.strip(), part)
    return found


def _with(found: Conditions, key: str, value: str, part: str) -> Conditions:
    match key:
        case "rtt":
            return replace(found, round_trip_s=_seconds(value))
        case "bandwidth":
            return replace(found, bytes_per_second=float(parse_bytes(value.removesuffix("/s"))))
        case "access" if value in MODES:
            return replace(found, mode=value)
        case "codec":
            return replace(found, codec=value)
        case "layout" if value == "merged":
            return replace(found, merged_bytes=MERGED_BYTES)
        case "order" if value in ("entry", "branch"):
            return replace(found, by_entry=value == "entry", by_branch=value == "branch")
        case "branches":
            return replace(found, branches=tuple(name for name in value.split(",") if name))
    if key in _SIZES:
        return _SIZES[key](found, parse_bytes(value))
    if key in _NUMBERS and value.isdecimal() and int(value) > 0:
        return _NUMBERS[key](found, int(value))
    raise _unknown(part)


_Change = Callable[[Conditions, int], Conditions]
#: Conditions that are sizes, and those that are numbers.
_SIZES: Mapping[str, _Change] = {
    "baskets": lambda found, value: replace(found, basket_bytes=value),
    "clusters": lambda found, value: replace(found, cluster_bytes=value),
    "gap": lambda found, value: replace(found, gap_bytes=value),
    "tree-cache": lambda found, value: replace(found, tree_cache_bytes=value),
    "buffer": lambda found, value: replace(found, buffer_bytes=value),
}
_NUMBERS: Mapping[str, _Change] = {
    "cores": lambda found, value: replace(found, cores=value),
    "threads": lambda found, value: replace(found, threads=value),
    "jobs": lambda found, value: replace(found, jobs=value),
}


def _seconds(text: str) -> float:
    for unit, factor in _SECONDS.items():
        number = text.removesuffix(unit)
        if number != text:
            try:
                seconds = float(number) * factor
            except ValueError:
                continue
            if 0 <= seconds < 3600:
                return seconds
    raise OptionError(f"{text!r:.40} is no round trip", hint="write it like 63ms")


def _unknown(part: str) -> OptionError:
    hint = (
        f"known are {KEYS}; as in rtt=63ms, bandwidth=7MB/s, access=prefetch, codec=zstd:5, layout=merged, order=entry"
    )
    return OptionError(f"{part!r:.60} is no condition of a forecast", hint=hint)
