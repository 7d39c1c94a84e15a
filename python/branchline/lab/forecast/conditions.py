"""The conditions of a forecast, as written by a user."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace

from branchline.base.quantities import GB, parse_bytes
from branchline.errors import OptionError
from branchline.reading.access import MODES

#: Default size of merged files.
MERGED_BYTES = GB
#: Seconds per unit of time.
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
KEYS = (
    "rtt, bandwidth, access, gap, tree-cache, buffer, codec, layout, order, baskets, clusters, branches, cores, "
    "threads, jobs"
)


@dataclass(frozen=True)
class Conditions:
    """Conditions that are changed; None means unchanged. Times are in seconds, sizes in bytes.

    ``merged_bytes``, ``basket_bytes`` (compressed) and ``cluster_bytes`` are the sizes of files, baskets and clusters
    after rewriting. ``by_branch`` and ``by_entry`` are orders of baskets. ``gap_bytes``, ``tree_cache_bytes`` and
    ``buffer_bytes`` (the maximum bytes in flight) are access settings. ``cores`` is the number of workers of a job or
    of threads of a reader. ``threads`` is the number of decoding threads per worker. ``jobs``, the number of concurrent
    jobs, needs a simulation.
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
        """Whether the files would have to be rewritten."""
        sizes = self.merged_bytes or self.basket_bytes or self.cluster_bytes
        return bool(self.codec or sizes or self.by_entry or self.by_branch)

    def words(self) -> str:
        """Return the changed conditions as text."""
        said = [(one.name, getattr(self, one.name)) for one in fields(self)]
        return ", ".join(f"{name}={value}" for name, value in said if value not in (None, False))


def conditions_of(texts: Iterable[str]) -> Conditions:
    """Parse conditions such as ``rtt=63ms`` or ``layout=merged,order=entry``.

    Raises OptionError for an unknown condition or an invalid value.
    """
    found = Conditions()
    for text in texts:
        parts = text.split(",")
        # Commas also separate the names of branches.
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
#: Conditions whose values are sizes, with functions that set them.
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
    raise OptionError(f"invalid round trip {text!r:.40}", hint="give a time such as 63ms")


def _unknown(part: str) -> OptionError:
    examples = "rtt=63ms, bandwidth=7MB/s, access=prefetch, codec=zstd:5, layout=merged, order=entry"
    return OptionError(f"invalid condition {part!r:.60}", hint=f"known conditions: {KEYS}; examples: {examples}")
