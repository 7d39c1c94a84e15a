"""The registry: the current wagons, datasets and activations, and all their changes.

Uploaded wagon files are stored by their hash and never deleted, so that every registered version stays readable.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from branchline.base.limits import SOURCES_REMEMBERED_MAX
from branchline.base.plain import from_plain, to_plain
from branchline.base.whole_files import write_whole
from branchline.control.database import Database
from branchline.control.people import Person
from branchline.control.registry.entries import Activation, DatasetEntry, WagonEntry
from branchline.control.registry.revisions import (
    ACTIVATION,
    DATASET,
    WAGON,
    Change,
    FieldChange,
    differences,
    keep_change,
    line_difference,
)
from branchline.control.registry.wagon_source import WagonClass, wagon_classes
from branchline.control.room_errors import ConflictError, NoSuchEntryError
from branchline.errors import OptionError, WagonError
from branchline.trains.wagons.parameters import Value

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class WholeWagon:
    """A wagon with its class. A variant has the source, class and requirements of its base wagon.

    ``revision`` is the number of the wagon's last change. ``values`` are the parameter values that differ from the
    class's defaults; for a variant, they include the values of the base wagon.
    """

    entry: WagonEntry
    revision: int
    source_sha256: str
    source_path: str
    wagon_class: WagonClass
    values: dict[str, Value] = field(default_factory=dict)
    requires: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Grid:
    """A table of wagons and datasets. ``enabled`` has the addresses of all enabled pairs (wagon, dataset)."""

    wagons: list[WagonEntry] = field(default_factory=list)
    datasets: list[DatasetEntry] = field(default_factory=list)
    enabled: set[tuple[str, str]] = field(default_factory=set)


class Registry:
    """Stores wagons, datasets and activations.

    Methods that change an entry take the person who makes the change as ``who``. They raise RefusedError if the person
    may not make the change, NoSuchEntryError for an unknown address, OptionError for an invalid entry, and
    ConflictError if another person has changed the entry.
    """

    def __init__(self, database: Database, sources: SourceStore) -> None:
        self._database = database
        self._sources = sources

    def wagons(self) -> list[WagonEntry]:
        """Return all wagons, sorted by address."""
        return [from_plain(WagonEntry, one) for _, one in self._all(WAGON)]

    def datasets(self) -> list[DatasetEntry]:
        """Return all datasets, sorted by address."""
        return [from_plain(DatasetEntry, one) for _, one in self._all(DATASET)]

    def wagon(self, address: str) -> WholeWagon:
        """Return a wagon with its class. A variant also has the values of its base wagon."""
        with self._database.reading() as connection:
            revision, entry = self._wagon(connection, address)
            base = entry if not entry.variant_of else self._wagon(connection, entry.variant_of)[1]
        return self._whole(entry, base, revision)

    def with_required(self, addresses: Iterable[str]) -> list[WholeWagon]:
        """Return wagons and all their direct and indirect requirements.

        Each wagon occurs once and follows the wagons that it requires.
        """
        chain: dict[str, WholeWagon] = {}

        def place(address: str) -> None:
            if address not in chain:
                one = self.wagon(address)
                for needed in one.requires:
                    place(needed)
                chain[address] = one

        for address in addresses:
            place(address)
        return list(chain.values())

    def dataset(self, address: str) -> tuple[DatasetEntry, int]:
        """Return a dataset and its revision."""
        with self._database.reading() as connection:
            revision, content = _found(connection, DATASET, address)
        return from_plain(DatasetEntry, content), revision

    def grid(self, group: str = "") -> Grid:
        """Return the wagons of ``group``, or all wagons, with all datasets and the enabled pairs."""
        with self._database.reading() as connection:
            rows = list(connection.execute("SELECT subject, content FROM entries ORDER BY subject, address"))
        plain: dict[str, list[Mapping[str, object]]] = {WAGON: [], DATASET: [], ACTIVATION: []}
        for subject, content in rows:
            plain[subject].append(json.loads(content))
        wagons = [from_plain(WagonEntry, one) for one in plain[WAGON]]
        active = [from_plain(Activation, one) for one in plain[ACTIVATION]]
        return Grid(
            [one for one in wagons if not group or one.group == group],
            [from_plain(DatasetEntry, one) for one in plain[DATASET]],
            {(one.wagon, one.dataset) for one in active if one.is_enabled},
        )

    def save_wagon(self, entry: WagonEntry, who: Person, revision: int = 0) -> int:
        """Create a wagon (``revision`` 0), or replace its current revision ``revision``. Return the new revision."""
        who.check_owns(entry.owner)
        entry.check()
        with self._database.writing() as connection:
            base = entry
            if entry.variant_of:
                base = self._wagon(connection, entry.variant_of)[1]
                if base.variant_of:
                    raise OptionError(f"{entry.variant_of} is itself a variant", hint=f"name {base.variant_of}")
                if _variants(connection, entry.address):
                    raise OptionError(f"{entry.address} has variants, so it cannot become a variant")
            whole = self._whole(entry, base, revision)
            for address in whole.requires:
                self._wagon(connection, address)
            self._refuse_circle(connection, whole)
            for variant in _variants(connection, entry.address):
                self._whole(variant, entry, 0)
            return _write(connection, who, WAGON, entry.address, to_plain(entry), revision)

    def save_dataset(self, entry: DatasetEntry, who: Person, revision: int = 0) -> int:
        """Create a dataset (``revision`` 0), or replace its current revision ``revision``. Return the new revision."""
        who.check_owns(entry.owner)
        entry.check()
        with self._database.writing() as connection:
            return _write(connection, who, DATASET, entry.address, to_plain(entry), revision)

    def remove_wagon(self, address: str, who: Person) -> None:
        """Remove a wagon and disable it on all datasets. The wagon's history remains.

        Raises OptionError if another wagon requires this wagon or is a variant of this wagon.
        """
        with self._database.writing() as connection:
            who.check_owns(self._wagon(connection, address)[1].owner)
            needed_by = [one.address for one in _wagons(connection) if address in (*one.requires, one.variant_of)]
            if needed_by:
                raise OptionError(f"{address} is used by {', '.join(sorted(needed_by))}")
            self._remove(connection, who, WAGON, address)

    def remove_dataset(self, address: str, who: Person) -> None:
        """Remove a dataset and disable all wagons on the dataset. The dataset's history remains."""
        with self._database.writing() as connection:
            entry: DatasetEntry = from_plain(DatasetEntry, _found(connection, DATASET, address)[1])
            who.check_owns(entry.owner)
            self._remove(connection, who, DATASET, address)

    def enable(self, wagons: Sequence[str], dataset: str, who: Person, *, is_enabled: bool = True) -> int:
        """Enable or disable wagons on a dataset, in one transaction. Return the number of changed activations."""
        changed = 0
        with self._database.writing() as connection:
            _found(connection, DATASET, dataset)
            for wagon in dict.fromkeys(wagons):
                who.check_owns(self._wagon(connection, wagon)[1].owner)
                changed += _activate(connection, who, Activation(wagon, dataset, is_enabled))
        return changed

    def enable_group(self, group: str, dataset: str, who: Person, *, is_enabled: bool = True) -> int:
        """Enable or disable the wagons of a group, if this person may change them. Return the number of changes."""
        wagons = [one.address for one in self.wagons() if one.group == group and who.owns(one.owner)]
        return self.enable(wagons, dataset, who, is_enabled=is_enabled)

    def copy_activations(self, source: str, target: str, who: Person) -> int:
        """Copy the activations of a person's wagons from one dataset to another. Return the number of changes."""
        enabled = self.grid().enabled
        own = [one.address for one in self.wagons() if who.owns(one.owner)]
        on = [one for one in own if (one, source) in enabled]
        off = [one for one in own if one not in on]
        return self.enable(on, target, who) + self.enable(off, target, who, is_enabled=False)

    def changes(self, subject: str = "", address: str = "", *, before: int = 0, count: int = 50) -> list[Change]:
        """Return the latest changes, newest first.

        An empty ``subject`` or ``address`` selects all changes. If ``before`` is not 0, only changes with a smaller
        number are returned.
        """
        conditions = {"subject = ?": subject, "address = ?": address, "number < ?": before}
        given = {one: value for one, value in conditions.items() if value}
        where = f"WHERE {' AND '.join(given)}" if given else ""
        query = f"SELECT * FROM changes {where} ORDER BY number DESC LIMIT ?"  # noqa: S608 - conditions are constant
        with self._database.reading() as connection:
            rows = list(connection.execute(query, (*given.values(), count)))
        changes = []
        for number, at, who, kind, changed, action, *contents in rows:
            old, new = (None if one is None else json.loads(str(one)) for one in contents)
            fields = self._compared(old or {}, new or {}, _sha256(old), _sha256(new))
            changes.append(Change(number, str(at), str(who), str(kind), str(changed), str(action), fields))
        return changes

    def compare(self, first: str, second: str) -> list[FieldChange]:
        """Return the differences between two wagons, including parameters and source lines."""
        left, right = self.wagon(first), self.wagon(second)
        return self._compared(_described(left), _described(right), left.source_sha256, right.source_sha256)

    def compare_moments(self, subject: str, address: str, first: str, second: str) -> list[FieldChange]:
        """Return how an entry differs between two times (ISO 8601, UTC)."""
        before, after = self._at(subject, address, first), self._at(subject, address, second)
        return self._compared(before or {}, after or {}, _sha256(before), _sha256(after))

    def _all(self, subject: str) -> list[tuple[int, Mapping[str, object]]]:
        query = "SELECT revision, content FROM entries WHERE subject = ? ORDER BY address"
        with self._database.reading() as connection:
            return [(revision, json.loads(content)) for revision, content in connection.execute(query, (subject,))]

    def _wagon(self, connection: sqlite3.Connection, address: str) -> tuple[int, WagonEntry]:
        revision, content = _found(connection, WAGON, address)
        return revision, from_plain(WagonEntry, content)

    def _whole(self, entry: WagonEntry, base: WagonEntry, revision: int) -> WholeWagon:
        """Return a wagon with its class. Raises OptionError if the wagon's values do not match the class."""
        assert base.source is not None
        classes = {one.name: one for one in self._sources.classes(base.source.sha256, base.source.path)}
        if base.wagon_class not in classes:
            what = f"{base.source.path} has no wagon {base.wagon_class!r:.80}"
            raise OptionError(what, hint=f"it has {', '.join(classes)}")
        found = classes[base.wagon_class]
        values = found.checked({**base.values, **entry.values})
        return WholeWagon(entry, revision, base.source.sha256, base.source.path, found, values, base.requires)

    def _refuse_circle(self, connection: sqlite3.Connection, whole: WholeWagon) -> None:
        known = {one.address: one for one in _wagons(connection)}
        known[whole.entry.address] = replace(whole.entry, requires=whole.requires)
        seen: set[str] = set()
        waiting = list(whole.requires)
        while waiting:
            address = waiting.pop()
            if address == whole.entry.address:
                raise OptionError(f"{address} would require itself through other wagons")
            if address not in seen:
                seen.add(address)
                one = known[address]
                waiting += known[one.variant_of].requires if one.variant_of else one.requires

    def _remove(self, connection: sqlite3.Connection, who: Person, subject: str, address: str) -> None:
        active = [from_plain(Activation, content) for content in _contents(connection, ACTIVATION)]
        for one in active:
            if one.is_enabled and address in (one.wagon, one.dataset):
                _activate(connection, who, replace(one, is_enabled=False))
        revision, _ = _found(connection, subject, address)
        _write(connection, who, subject, address, None, revision)

    def _compared(
        self, before: Mapping[str, object], after: Mapping[str, object], first_sha256: str, second_sha256: str
    ) -> list[FieldChange]:
        fields = differences(before, after)
        if first_sha256 != second_sha256 and first_sha256 and second_sha256:
            lines = self._sources.difference("code", first_sha256, second_sha256)
            fields += [lines] if lines else []
        return fields

    def _at(self, subject: str, address: str, moment: str) -> Mapping[str, object] | None:
        query = "SELECT after FROM changes WHERE subject = ? AND address = ? AND at <= ? ORDER BY number DESC LIMIT 1"
        with self._database.reading() as connection:
            row = connection.execute(query, (subject, address, moment)).fetchone()
        found: Mapping[str, object] | None = None if row is None or row[0] is None else json.loads(row[0])
        return found


def _found(connection: sqlite3.Connection, subject: str, address: str) -> tuple[int, Mapping[str, object]]:
    query = "SELECT revision, content FROM entries WHERE subject = ? AND address = ?"
    row = connection.execute(query, (subject, address)).fetchone()
    if row is None:
        raise NoSuchEntryError(f"unknown {subject} {address!r:.160}")
    return int(row[0]), json.loads(row[1])


def _contents(connection: sqlite3.Connection, subject: str) -> list[Mapping[str, object]]:
    query = "SELECT content FROM entries WHERE subject = ? ORDER BY address"
    return [json.loads(content) for (content,) in connection.execute(query, (subject,))]


def _wagons(connection: sqlite3.Connection) -> list[WagonEntry]:
    return [from_plain(WagonEntry, content) for content in _contents(connection, WAGON)]


def _variants(connection: sqlite3.Connection, address: str) -> list[WagonEntry]:
    return [one for one in _wagons(connection) if one.variant_of == address]


def _activate(connection: sqlite3.Connection, who: Person, wanted: Activation) -> int:
    """Store an activation. Return 1 if the activation changed, else 0."""
    query = "SELECT revision, content FROM entries WHERE subject = ? AND address = ?"
    row = connection.execute(query, (ACTIVATION, wanted.address)).fetchone()
    is_enabled = row is not None and from_plain(Activation, json.loads(row[1])).is_enabled
    if is_enabled == wanted.is_enabled:
        return 0
    revision = 0 if row is None else int(row[0])
    _write(connection, who, ACTIVATION, wanted.address, to_plain(wanted), revision)
    return 1


def _write(
    connection: sqlite3.Connection,
    who: Person,
    subject: str,
    address: str,
    content: Mapping[str, object] | None,
    revision: int,
) -> int:
    """Create, replace or remove an entry. Return the new revision.

    ``revision`` is the expected current revision, or 0 to create the entry. If ``content`` is None, the entry is
    removed. Raises ConflictError if the current revision is different.
    """
    query = "SELECT revision, content FROM entries WHERE subject = ? AND address = ?"
    row = connection.execute(query, (subject, address)).fetchone()
    if (0 if row is None else int(row[0])) != revision:
        if not revision:
            raise ConflictError(f"{subject} {address} already exists")
        what = f"{subject} {address} was changed by another user in the meantime"
        raise ConflictError(what, hint="reload it and repeat the change")
    before = None if row is None else str(row[1])
    after = None if content is None else json.dumps(content, sort_keys=True)
    if before == after:
        return revision
    number = keep_change(connection, who.name, subject, address, before, after)
    if after is None:
        connection.execute("DELETE FROM entries WHERE subject = ? AND address = ?", (subject, address))
    else:
        connection.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", (subject, address, number, after))
    return number


def _sha256(plain: Mapping[str, object] | None) -> str:
    source = (plain or {}).get("source")
    return str(source.get("sha256", "")) if isinstance(source, Mapping) else ""


def _described(whole: WholeWagon) -> Mapping[str, object]:
    plain = to_plain(whole.entry)
    values = {one.name: one.default for one in whole.wagon_class.parameters} | whole.values
    described: Mapping[str, object] = plain | {"values": values, "wagon_class": whole.wagon_class.name}
    return described


class SourceStore:
    """A folder of files that are named after the SHA-256 of their content. Files are never changed or removed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Cache of parsed wagon files. The grid needs the classes of all wagons, and parsing a large file takes a
        # second.
        self._parsed: dict[tuple[str, str], list[WagonClass]] = {}
        self._turn = threading.Lock()
        self._compared = lru_cache(SOURCES_REMEMBERED_MAX // 5)(self._compare)

    def keep(self, content: bytes, path: str = "wagons.py") -> str:
        """Store a wagon file and return its SHA-256.

        Raises WagonError for an invalid wagon file, and StorageError if the file cannot be written.
        """
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise WagonError(f"{path} is not UTF-8 text: {error}", path=path) from None
        sha256 = hashlib.sha256(content).hexdigest()
        target = self.path(sha256)
        if not target.exists():
            self._remember(sha256, path, wagon_classes(text, path))
            write_whole(target, content)
        return sha256

    def text(self, sha256: str) -> str:
        """Return a file's text.

        Raises NoSuchEntryError for an unknown hash, and WagonError if the content has changed.
        """
        try:
            content = self.path(sha256).read_bytes()
        except FileNotFoundError:
            raise _not_kept(sha256) from None
        if hashlib.sha256(content).hexdigest() != sha256:
            raise WagonError(f"the file with the hash {sha256} was changed on the disk")
        return content.decode("utf-8")

    def classes(self, sha256: str, path: str) -> list[WagonClass]:
        """Return the wagon classes in a file.

        ``path`` is the author's name of the file. Raises the errors of ``text``.
        """
        found = self._parsed.get((sha256, path))
        return list(found or self._remember(sha256, path, wagon_classes(self.text(sha256), path)))

    def difference(self, name: str, first: str, second: str) -> FieldChange | None:
        """Return the lines in which two files differ; None for identical files. Raises the errors of ``text``."""
        found = self._compared(first, second)
        return None if found is None else replace(found, name=name)

    def _remember(self, sha256: str, path: str, found: list[WagonClass]) -> list[WagonClass]:
        with self._turn:
            if len(self._parsed) >= SOURCES_REMEMBERED_MAX:
                self._parsed.pop(next(iter(self._parsed)))
            self._parsed[sha256, path] = found
        return found

    def _compare(self, first: str, second: str) -> FieldChange | None:
        return line_difference("", self.text(first), self.text(second))

    def path(self, sha256: str) -> Path:
        """Return a file's path.

        Raises NoSuchEntryError if ``sha256`` is not a SHA-256, because the value may come from a request and must not
        name files outside of the folder.
        """
        if not _SHA256.fullmatch(sha256):
            raise _not_kept(sha256)
        return self._folder / sha256[:2] / f"{sha256}.py"


def _not_kept(sha256: str) -> NoSuchEntryError:
    return NoSuchEntryError(f"no file with the hash {sha256!r:.80} was uploaded")
