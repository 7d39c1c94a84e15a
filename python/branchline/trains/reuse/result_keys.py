"""Computes the cache keys of results. A key is a hash of everything on which a wagon's result for a sub-job depends.

Results with the same key are identical. If a dependency cannot be determined, the wagon has no key, its results are not
cached, and the reason is recorded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

from branchline.jobs.package_versions import INTERPRETER, version_text
from branchline.reading.datasets.data_file import Companion, DataFile
from branchline.reading.datasets.identity import is_checksum
from branchline.reading.locations import is_url
from branchline.trains.reuse.canonical import Canonical, UnknownValueError
from branchline.trains.reuse.changes import PACKAGE, WAGON
from branchline.trains.reuse.module_finder import OWN_PACKAGE
from branchline.trains.reuse.source_code import ModuleSource
from branchline.trains.reuse.wagon_code import WagonCode, check_loaded
from branchline.trains.subjobs.shares import Share
from branchline.trains.subjobs.used_inputs import PlannedCode, identities_of
from branchline.trains.wagons.wagons import Wagon

#: Version of the results. It is incremented when Branchline computes different results from the same wagons and files,
#: for example because it adds them in a different order, or when the classes of pickled results move to other modules.
RESULT_VERSION = 6
_PACKAGES_OF_RESULTS = ("numpy", "awkward", "boost-histogram", "hist")
_MODULES_OF_RESULTS = ("numpy", "awkward", "boost_histogram", "hist")


@dataclass(frozen=True)
class WagonKey:
    """The key of a wagon, independent of the dataset. If ``key`` is None, ``unknown`` is the reason.

    The key depends on the versions of ``packages``, the user's source files ``modules``, and the ``files`` that the
    code reads. ``modules`` and ``files`` map paths to the files' identities when the key was created. ``parts`` has
    digests or versions of everything on which the key depends, by description.
    """

    key: str | None
    unknown: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)


def planned_code(keys: Iterable[WagonKey], *, ships_modules: bool) -> PlannedCode:
    """Return the code that the wagons' keys cover, so that workers can compare it with the code on their machine. With
    ``ships_modules``, user modules are left out, because workers get copies of them.
    """
    keys = tuple(keys)
    files = [one.files if ships_modules else {**one.modules, **one.files} for one in keys if one.key is not None]
    return PlannedCode(_joined(one.packages for one in keys), _joined(files))


class WagonKeys:
    """The keys of a train's wagons, by name."""

    def __init__(self, wagons: Sequence[Wagon]) -> None:
        self._sources: dict[str, ModuleSource] = {}
        self.by_name: dict[str, WagonKey] = {}
        for wagon in wagons:
            self.by_name[wagon.name] = self._key_of(wagon)

    def __getitem__(self, name: str) -> WagonKey:
        return self.by_name[name]

    def _key_of(self, wagon: Wagon) -> WagonKey:
        # Results always depend on the versions of these packages.
        packages = {name: version_text(name) for name in (INTERPRETER, OWN_PACKAGE, *_PACKAGES_OF_RESULTS)}
        required: dict[str, str | None] = {name: self.by_name[name].key for name in wagon.requires}
        missing = [name for name, key in required.items() if key is None]
        if missing:
            return WagonKey(None, f"it requires wagon {missing[0]}, whose results cannot be reused", packages)
        try:
            for name in _MODULES_OF_RESULTS:
                check_loaded(name)
            used = WagonCode(self._sources, wagon.name, wagon.thing)
        except UnknownValueError as error:
            return WagonKey(None, str(error), packages)
        except RecursionError:
            return WagonKey(None, "its functions or values are nested too deeply", packages)
        parts = {
            **used.parts(),
            "its list of branches": _digest({"branches": sorted(wagon.branches or ())}),
            **{f"{WAGON}{name}": key or "" for name, key in required.items()},
            **{f"{PACKAGE}{name}": version for name, version in packages.items()},
            "the version of results": str(RESULT_VERSION),
        }
        above = [self.by_name[name] for name in wagon.requires]
        return WagonKey(
            _digest(parts),
            packages=_joined(one.packages for one in above) | used.packages | packages,
            modules=_joined(one.modules for one in above) | used.modules,
            files=_joined(one.files for one in above) | used.files,
            parts=parts,
        )


class ShareKeys:
    """Computes the keys of shares. A key covers the files and entries that are read, and how they are split into
    chunks.

    ``skipping`` are the branches that decide which files are skipped; None if no files are skipped. The keys also cover
    ``skipping`` and the ``seed`` of random numbers.
    """

    def __init__(self, skipping: Sequence[str] | None, seed: int = 0) -> None:
        self._skipping = skipping
        self._seed = seed

    def key_of(self, share: Share, step: int | None, identities: Mapping[str, str] | None = None) -> str:
        """Return the key of a share that is read in chunks of ``step`` entries. ``step`` is None for data that do not
        depend on chunks. ``identities`` are the identities of the share's local files and companions, by default the
        current ones.

        Raises UnknownValueError for a file whose changes cannot be detected.
        """
        known = identities_of(share.files) if identities is None else identities
        content = {
            "files": [_file_content(one, known) for one in share.files],
            "part": [share.part, share.parts],
            "learns": share.learn,
            "chunk entries": share.chunk_entries,
            "step": step,
            "seed": self._seed,
            "skipping": None if self._skipping is None else sorted(self._skipping),
        }
        return _digest(content)


def result_key(wagon: str, share: str) -> bytes:
    """Return the key of a wagon's result for a share, from the keys of the wagon and of the share."""
    return hashlib.sha256(f"result {wagon} {share}".encode()).digest()


def other_key(what: str, *parts: object) -> bytes:
    """Return the key of cached data that are not results of wagons."""
    return hashlib.sha256(json.dumps([what, *parts], sort_keys=True).encode()).digest()


def _file_content(one: DataFile, identities: Mapping[str, str]) -> dict[str, object]:
    # A checksum in the list of the dataset replaces the size and time of the file.
    identity = one.version if is_checksum(one.version) else identities.get(one.path)
    if not identity and one.version and one.size_bytes is not None:
        identity = f"{one.size_bytes} bytes, {one.version}"
    if not identity:
        reason = f": {one.no_version}" if one.no_version else ""
        raise UnknownValueError(f"{one.path} has no known modification time or version{reason}")
    metadata = Canonical(_refuse_code)
    metadata.add(dict(one.metadata), f"the metadata of {one.path}")
    return {
        "file": [one.path, one.tree, one.dataset, one.entry_start, one.entry_stop],
        "identity": identity,
        "metadata": metadata.hexdigest(),
        "companions": [_companion_content(companion, one, identities) for companion in one.companions],
        "joins": [[join.name, list(join.trees), join.index] for join in one.joins],
    }


def _companion_content(companion: Companion, main: DataFile, identities: Mapping[str, str]) -> list[object]:
    path, tree = companion.path_for(main.path, main.tree)
    if is_url(path) and path != main.path:
        raise UnknownValueError(f"the companion {path} has no known modification time or version")
    return [companion.name, path, tree, identities.get(path)]


def _refuse_code(module: ModuleType, name: str | None, _value: object) -> None:
    raise UnknownValueError(f"the metadata of a file contain {module.__name__}.{name or ''}")


def _joined(several: Iterable[Mapping[str, str]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for one in several:
        joined.update(one)
    return joined


def _digest(content: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
