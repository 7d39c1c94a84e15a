"""Resources that jobs share: named disks, servers, links, caches and worker nodes. They can be loaded from a TOML
file.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from branchline.base.plain import from_plain, to_plain
from branchline.base.quantities import size
from branchline.errors import OptionError
from branchline.lab.limits import PLATFORM_FILE_MAX_BYTES

#: Version of the format of platforms. Platforms with newer versions are rejected.
PLATFORM_VERSION = 1


@dataclass(frozen=True)
class Disk:
    """A disk, or a group of disks that are used as one. ``operations_per_s`` is None if only the bandwidth is
    limited.
    """

    name: str
    bytes_per_s: float
    operations_per_s: float | None = None


@dataclass(frozen=True)
class Server:
    """A file server, modelled by its network card."""

    name: str
    bytes_per_s: float


@dataclass(frozen=True)
class Link:
    """A network link: its bandwidth and its round trip."""

    name: str
    bytes_per_s: float
    round_trip_s: float = 0.0


@dataclass(frozen=True)
class Storage:
    """A storage element: a disk on a server, and the links between the server and the nodes.

    A request uses ``streams`` streams. At most ``window_bytes`` are in flight in each stream: a stream transfers one
    window per round trip (RFC 7323, section 1.1). ``cache`` is the name of the cache in front of the storage element.
    """

    name: str
    disk: str | None = None
    server: str | None = None
    links: tuple[str, ...] = ()
    window_bytes: float | None = None
    streams: int = 1
    cache: str | None = None


@dataclass(frozen=True)
class Cache:
    """An LRU cache. Cache hits come from the disk and server of the cache, over its own links. Cache misses come from
    the storage element; adding their data to the cache takes no time.
    """

    name: str
    size_bytes: float
    disk: str | None = None
    server: str | None = None
    links: tuple[str, ...] = ()
    window_bytes: float | None = None
    streams: int = 1


@dataclass(frozen=True)
class Nodes:
    """Worker nodes of one type. ``slots`` is the number of concurrent jobs per node, by default one per core. ``speed``
    is the speed of a core relative to the cores on which the plans were recorded.
    """

    name: str
    count: int
    cores: int
    bytes_per_s: float
    slots: int | None = None
    speed: float = 1.0


@dataclass(frozen=True)
class Platform:
    """All resources that jobs share. Blocks of plans refer to the storage elements by name."""

    storages: tuple[Storage, ...]
    nodes: tuple[Nodes, ...]
    disks: tuple[Disk, ...] = ()
    servers: tuple[Server, ...] = ()
    links: tuple[Link, ...] = ()
    caches: tuple[Cache, ...] = ()
    platform_version: int = PLATFORM_VERSION

    @property
    def slots_count(self) -> int:
        """Maximum number of jobs that run concurrently."""
        return sum(one.count * (one.cores if one.slots is None else one.slots) for one in self.nodes)

    def to_plain(self) -> Mapping[str, object]:
        """Return the platform as dicts, lists, numbers and strings."""
        return dict(to_plain(self))

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> Platform:
        """Create a platform from a dict as `to_plain` returns it. Raises OptionError for invalid content."""
        version = plain.get("platform_version", PLATFORM_VERSION)
        if not isinstance(version, int) or version > PLATFORM_VERSION:
            raise OptionError(f"unsupported platform version {version!r:.20}", hint="update Branchline")
        _check_names(cls, plain, "the platform")
        for name, kind in _KINDS.items():
            described = plain.get(name, [])
            if not isinstance(described, list):
                raise OptionError(f"{name} is {described!r:.40}, not a list of tables", hint=f"write it as [[{name}]]")
            for one in described:
                _check_names(kind, one, name)
        try:
            found: Platform = from_plain(cls, dict(plain))
        except ValueError as error:
            raise OptionError(f"the platform is not complete: {error}") from None
        return found


_KINDS: dict[str, type] = {
    "disks": Disk,
    "servers": Server,
    "links": Link,
    "caches": Cache,
    "storages": Storage,
    "nodes": Nodes,
}


def load_platform(path: Path) -> Platform:
    """Load a platform from a TOML file. Raises OptionError with the path of the file."""
    try:
        if path.stat().st_size > PLATFORM_FILE_MAX_BYTES:
            raise OptionError(f"the file is larger than {size(PLATFORM_FILE_MAX_BYTES)}", path=str(path))
        return Platform.from_plain(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise OptionError(f"the platform cannot be read: {error.strerror}", path=str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"invalid TOML: {error}", path=str(path)) from None
    except OptionError as error:
        raise OptionError(error.what, path=str(path), hint=error.hint) from None


def _check_names(kind: type, plain: object, where: str) -> None:
    known = [one.name for one in dataclasses.fields(kind)]
    if not isinstance(plain, Mapping):
        raise OptionError(f"{where} must be a table with the keys {', '.join(known)}")
    unknown = sorted(set(plain) - set(known))
    if unknown:
        raise OptionError(f"{where} has no {unknown[0]!r:.40}", hint=f"known keys: {', '.join(known)}")
