"""What jobs share: disks, servers, links, caches and worker nodes, by their names; from a TOML file too."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from branchline.base.plain import from_plain, to_plain
from branchline.errors import OptionError
from branchline.lab.limits import PLATFORM_FILE_MAX_BYTES

#: The version of the form; a reader refuses a newer one.
PLATFORM_VERSION = 1


@dataclass(frozen=True)
class Disk:
    """A disk, or a group of disks that serves as one. ``operations_per_s`` is None where only the rate counts."""

    name: str
    bytes_per_s: float
    operations_per_s: float | None = None


@dataclass(frozen=True)
class Server:
    """A file server, as its network card."""

    name: str
    bytes_per_s: float


@dataclass(frozen=True)
class Link:
    """A link with its round trip."""

    name: str
    bytes_per_s: float
    round_trip_s: float = 0.0


@dataclass(frozen=True)
class Storage:
    """A storage element: files on a disk of a server, and the links between it and nodes.

    ``window_bytes`` are on their way at most in each of the ``streams`` over which a request comes: a stream has the
    window in each round trip (RFC 7323, section 1.1). ``cache`` names the cache before it.
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
    """A cache that holds what was read last. What it has comes from its own disk and server, over its own links; the
    rest comes from the storage, and filling the cache costs nothing.
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
    """Worker nodes of one kind. ``slots`` are the jobs that each takes at a time, by default one for each core.
    ``speed`` is that of a core, in terms of the cores on which the plans were recorded.
    """

    name: str
    count: int
    cores: int
    bytes_per_s: float
    slots: int | None = None
    speed: float = 1.0


@dataclass(frozen=True)
class Platform:
    """All that jobs share. Blocks of plans name its storages."""

    storages: tuple[Storage, ...]
    nodes: tuple[Nodes, ...]
    disks: tuple[Disk, ...] = ()
    servers: tuple[Server, ...] = ()
    links: tuple[Link, ...] = ()
    caches: tuple[Cache, ...] = ()
    platform_version: int = PLATFORM_VERSION

    @property
    def slots_count(self) -> int:
        """How many jobs run at a time."""
        return sum(one.count * (one.cores if one.slots is None else one.slots) for one in self.nodes)

    def to_plain(self) -> Mapping[str, object]:
        """All of it as dicts, lists, numbers and texts."""
        return dict(to_plain(self))

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Platform:
        """The platform of such a dict. Raises OptionError for what it may not say."""
        version = plain.get("platform_version", PLATFORM_VERSION)
        if not isinstance(version, int) or version > PLATFORM_VERSION:
            raise OptionError(f"version {version!r:.20} of the platform is not known here", hint="update Branchline")
        _check_names(cls, plain, "the platform")
        for name, kind in _KINDS.items():
            for one in plain.get(name, ()):
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
    """The platform of a TOML file. Raises OptionError, with the file."""
    try:
        if path.stat().st_size > PLATFORM_FILE_MAX_BYTES:
            raise OptionError(f"it has more than {PLATFORM_FILE_MAX_BYTES // 1000} kB", path=str(path))
        return Platform.from_plain(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise OptionError(f"the platform cannot be read: {error.strerror}", path=str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"this is no TOML: {error}", path=str(path)) from None
    except OptionError as error:
        raise OptionError(error.what, path=str(path), hint=error.hint) from None


def _check_names(kind: type, plain: object, where: str) -> None:
    known = [one.name for one in dataclasses.fields(kind)]
    if not isinstance(plain, Mapping):
        raise OptionError(f"{where} is a table of {', '.join(known)}")
    unknown = sorted(set(plain) - set(known))
    if unknown:
        raise OptionError(f"{where} has no {unknown[0]!r:.40}", hint=f"there are {', '.join(known)}")
