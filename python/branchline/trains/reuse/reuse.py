"""Takes results of sub-jobs from the ledger instead of making them again, and keeps those that are made.

A result of a wagon and a sub-job is found by its key (`result_keys.py`). A sub-job whose wagons all have theirs is not
run; of one that lacks some, only these are run, with the wagons that they require.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from typing import TypeVar

import cloudpickle

from branchline.base.limits import LEDGER_ROW_MAX_BYTES
from branchline.base.trust import TrustedBytes, unpickle
from branchline.jobs.ledger import Ledger, LedgerError, LedgerRow
from branchline.reading.datasets.data_file import storage_element
from branchline.records.sensors.record import FileRecord
from branchline.trains.plan import TrainPlan
from branchline.trains.reuse.canonical import UnknownValueError
from branchline.trains.reuse.result_keys import ShareKeys, WagonKey, WagonKeys, other_key, result_key
from branchline.trains.reuse.stored_train import Learning, StoredSources, StoredTrain
from branchline.trains.subjobs.folding import FoldedNeighbours, FoldedResult, KeptShare, fold
from branchline.trains.subjobs.share_result import ShareResult, WagonShare
from branchline.trains.subjobs.shares import ChunkSizes, Share
from branchline.trains.subjobs.used_inputs import PlannedCode, identities_of
from branchline.trains.tables.table import TablePieces, found
from branchline.trains.wagons.wagons import Wagon, with_required

Kept = TypeVar("Kept")

# Names in the ledger of what is no wagon's.
SHARES_NAME, LEARNED_NAME = "(sub-jobs)", "(branches)"
NO_ROWS_KEPT = "it returns tables, of which the ledger keeps no rows"
# What the last job keeps of itself.
TRAIN_NAME, LEARNING_NAME = "train", "learning"


@dataclass
class KeptResult:
    """What the ledger has of a sub-job: its wagons' shares, and the names of those that still have to run."""

    share: KeptShare
    wagons: dict[str, WagonShare]
    missing: frozenset[str] = frozenset()
    #: The key of the sub-job: that of another one has other events.
    share_key: str = ""

    def as_result(self, names: Iterable[str]) -> ShareResult:
        """The result of a sub-job that need not run; wagons that are not kept have stopped before."""
        wagons = {name: self.wagons.get(name, WagonShare()) for name in names}
        not_run = frozenset(name for name in wagons if name not in self.wagons)
        result = ShareResult(wagons, not_run, files=self._files(), is_reused=True)
        result.events = self.share.events
        result.companions_missing = list(self.share.companions_missing)
        result.recovered = dict(self.share.recovered)
        return result

    def complete(self, result: ShareResult) -> None:
        """Puts what is kept into the result of a sub-job in which the other wagons ran."""
        result.wagons |= self.wagons
        result.not_run -= frozenset(self.wagons)
        if result.is_whole or result.interrupted or result.error is not None:
            return
        # All wagons that ran have stopped, and the rest was not read; the others have it.
        read = {one.path for one in result.files}
        kept = {path: (entries, events) for path, entries, events in self.share.files}
        for one in result.files:
            # Of a file without a chunk the record does not have the entries of the tree.
            one.entries, one.events = kept.get(one.path, (one.entries, one.events))
        result.files += [one for one in self._files() if one.path not in read]
        result.events, result.is_whole = self.share.events, True

    def _files(self) -> list[FileRecord]:
        return [
            FileRecord(path, storage_element(path), entries=entries, events=events, subjobs_reused=1)
            for path, entries, events in self.share.files
        ]


@dataclass(frozen=True)
class KeptNeighbours:
    """What the ledger has of neighbouring sub-jobs whose results were folded where they were made: what each brought
    back, the sums of wagons over all of them, and the names of those that still have to run.
    """

    indices: range
    shares: tuple[KeptShare, ...]
    wagons: dict[str, WagonShare]
    missing: frozenset[str] = frozenset()

    def of(self, index: int) -> KeptResult:
        """What is kept of one of them, besides the sums over all."""
        return KeptResult(self.shares[index - self.indices.start], {}, self.missing)

    def as_result(self, plan: TrainPlan) -> FoldedResult:
        """Their result, where none of them need run."""
        names = [one.name for one in plan.loaded.wagons]
        alone = [(index, plan.shares[index], self.of(index).as_result(names)) for index in self.indices]
        folded = fold([FoldedResult.of(index, share, result, plan.faults) for index, share, result in alone])
        folded.wagons |= self.wagons
        return folded


@dataclass(frozen=True)
class LearnedBefore:
    """What wagons touched first in an earlier run, by wagon, and the chunk sizes that followed, if these are known."""

    touched: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sizes: ChunkSizes | None = None

    def learning(self, plan: TrainPlan) -> Learning | None:
        """What the first sub-job would find out again; None if that is not known."""
        if self.sizes is None:
            return None
        branches = {*plan.named_branches, *(one for names in self.touched.values() for one in names)}
        return Learning(tuple(sorted(branches)), self.sizes, 1, self.touched)

    def unknown_of(self, wagons: Sequence[Wagon]) -> set[str]:
        """The wagons whose branches are still to be learned, and those that they require."""
        by_name = {one.name: one for one in wagons}
        unknown = [one for one in wagons if one.name not in self.touched]
        return {needed.name for one in unknown for needed in with_required(one, by_name)}


@dataclass(frozen=True)
class LedgerRows:
    """What a finished sub-job adds to a ledger, the keys of the rows that it used, and why results are not added."""

    new: tuple[LedgerRow, ...] = ()
    used: tuple[bytes, ...] = ()
    notes: tuple[str, ...] = ()


class Reuse:
    """The ledger of a run of a train. Without ``takes`` results are kept and none is taken.

    ``unknown`` says by wagon why its results cannot be reused, ``notes`` what else kept results from being reused.
    ``keys`` are those of the wagons, by name.
    """

    def __init__(
        self, ledger: Ledger | None, plan: TrainPlan, *, takes: bool, keys: Mapping[str, WagonKey] | None = None
    ) -> None:
        """``ledger`` None and ``keys`` are for a batch job: it makes rows, which the last job writes to the ledger."""
        self._ledger: Ledger | None = ledger
        self._plan = plan
        # As it is before branches are learned.
        self._first = plan.shares[:1]
        self._takes = takes
        self._wagons = {one.name: one for one in plan.loaded.wagons}
        self.keys = WagonKeys(plan.loaded.wagons).by_name if keys is None else keys
        self.unknown = {name: self.keys[name].unknown for name in self._wagons if self.keys[name].key is None}
        self.notes: list[str] = []
        if ledger is not None and ledger.replaced:
            self.notes.append(f"what was kept of earlier runs is not used: {ledger.replaced}")
        self._unknown_shares: dict[int, str] = {}
        self._step: int | None = None
        self._share_keys = ShareKeys(plan.named_branches if plan.settings.skip_bad_files else None, plan.settings.seed)
        self._key_texts: dict[int, str | None] = {}
        # Branches by wagon: those that it touched first, and those that it turned out to need later.
        self._touched: dict[str, tuple[str, ...]] = {}
        self._missed: dict[str, set[str]] = {}
        # Identities of files, by sub-job, as its key has them; keys by which learned branches were looked up.
        self._identities: dict[int, dict[str, str]] = {}
        self._learned_under: dict[str, bytes] = {}

    def planned_code(self, *, ships_modules: bool) -> PlannedCode:
        """Return what the keys say of the wagons' code, for workers to compare with theirs. Where modules are shipped
        to workers, files of modules may change.
        """
        known = [one for one in self.keys.values() if one.key is not None]
        files = [one.files if ships_modules else {**one.modules, **one.files} for one in known]
        return PlannedCode(
            {name: version for one in self.keys.values() for name, version in one.packages.items()},
            {path: identity for one in files for path, identity in one.items()},
        )

    def keep_train(self, sources: StoredSources | None) -> None:
        """Keeps the train itself with its code, so that it can be run again; not where its URLs have secrets, which are
        written nowhere.
        """
        content = b""
        if not self._plan.dataset.has_secrets():
            # Wagons that run in the calling process may be objects that cannot be pickled, and raise anything.
            with suppress(Exception):
                content = cloudpickle.dumps(StoredTrain.of(self._plan, sources))
        self._put_of_job(TRAIN_NAME, content)
        self._put_of_job(LEARNING_NAME, b"")

    def begin(self, learning: Learning) -> None:
        """The branches and the chunk sizes are known: results can be looked up from now on."""
        self._touched |= learning.touched
        if self._step is None:
            self._step = learning.step
            if self._plan.step is None:
                self._plan = learning.plan(self._plan)
                self._put_of_job(LEARNING_NAME, pickle.dumps(replace(learning, touched=dict(self._touched))))
            skips = self._plan.settings.skip_bad_files
            self._share_keys = ShareKeys(learning.branches if skips else None, self._plan.settings.seed)

    def find(self, index: int, share: Share) -> KeptResult | None:
        """What is kept of a sub-job; None if that is nothing. Wagons that have stopped are left out."""
        key = self.key_of(index, share)
        running = [name for name in self._wagons if name not in share.stopped]
        if self._ledger is None or not self._takes or key is None:
            return None
        keys = self._result_keys(running, key)
        about_share = other_key("share", key)
        found = self._contents([about_share, *keys.values()])
        kept_share = _loaded(found.get(about_share), KeptShare)
        wagons = {name: _loaded(found.get(one), WagonShare) for name, one in keys.items()}
        kept = {name: replace(one, reused_count=1) for name, one in wagons.items() if one is not None}
        if kept_share is None or not kept:
            return None
        missing = {one for name in running if name not in kept for one in self._required_by(name)}
        wagons_kept = {name: one for name, one in kept.items() if name not in missing}
        return KeptResult(kept_share, wagons_kept, frozenset(missing), key)

    def find_neighbours(self, indices: range, first: Share) -> KeptNeighbours | None:
        """What is kept of neighbours as one, given the share of the first of them as it is handed out now; None if that
        is nothing. It may be fewer than all, from the first one on, but then all wagons of these have their sums.
        """
        if self._ledger is None or not self._takes or (about := self._about_neighbours(indices, first)) is None:
            return None
        shares = _loaded(self._contents([about]).get(about), tuple)
        if not shares or (key := self._neighbours_key(indices[: len(shares)], first)) is None:
            return None
        running = [name for name in self._wagons if name not in first.stopped]
        keys = self._result_keys(running, key)
        found = self._contents(list(keys.values()))
        wagons = {name: _loaded(found.get(one), WagonShare) for name, one in keys.items()}
        kept = {name: replace(one, reused_count=len(shares)) for name, one in wagons.items() if one is not None}
        missing = {one for name in running if name not in kept for one in self._required_by(name)}
        kept = {name: one for name, one in kept.items() if name not in missing}
        if not kept or (missing and len(shares) < len(indices)):
            return None
        self._write([], [about, *(keys[name] for name in kept)])
        return KeptNeighbours(range(indices.start, indices.start + len(shares)), shares, kept, frozenset(missing))

    def keep_neighbours(self, indices: range, folded: FoldedNeighbours) -> None:
        """Keeps the sums of neighbours, of which ``folded`` has the first ones, or all."""
        first, kept = self._plan.shares[indices.start], indices[: len(folded.shares)]
        about, key = self._about_neighbours(indices, first), self._neighbours_key(kept, first)
        for index in kept:
            self._key_texts.pop(index, None)
        if self._ledger is None or about is None or key is None:
            return
        if any(self._changed(index, used) for index, used in zip(indices, folded.inputs, strict=False)):
            return
        label = f"sub-jobs {kept.start} to {kept.stop - 1}"
        ran = [name for name, one in folded.result.wagons.items() if one.error is None and name not in folded.not_run]
        rows = self._rows_of_wagons(folded.result.wagons, ran, key, label)
        if rows:
            self._write([*rows, LedgerRow(about, SHARES_NAME, label, pickle.dumps(folded.shares))], [])

    def _about_neighbours(self, indices: range, first: Share) -> bytes | None:
        """The key of what is kept of these neighbours: of how many of them the sums are kept as one."""
        key = self.key_of(indices.start, first)
        return None if key is None else other_key("neighbours", len(indices), key)

    def _neighbours_key(self, indices: range, first: Share) -> str | None:
        """The key of the sums of these neighbours as one."""
        keys = [self.key_of(index, self._plan.shares[index]) for index in indices[1:]]
        keys.insert(0, self.key_of(indices.start, first))
        known = [key for key in keys if key is not None]
        return None if len(known) < len(keys) else " ".join([f"{len(keys)} of", *known])

    def keep(self, index: int, share: Share, result: ShareResult) -> None:
        """Keeps the sums of the wagons that ran in a sub-job, if it was whole."""
        if self._ledger is not None:
            rows = self.rows_of(index, share, result)
            self._write(rows.new, rows.used)
            self.notes += [one for one in rows.notes if one not in self.notes]

    def rows_of(self, index: int, share: Share, result: ShareResult) -> LedgerRows:
        """The rows for the sums of the wagons that ran in a sub-job; none if it was not whole."""
        key = self.key_of(index, share)
        self._key_texts.pop(index, None)
        if key is None:
            return LedgerRows()
        ran = [name for name, one in result.wagons.items() if one.error is None and name not in result.not_run]
        is_usual = result.memory_retry is None or not result.memory_retry.inexact
        is_sound = (
            is_usual and result.is_whole and not result.skipped and not result.interrupted and result.error is None
        )
        ran = [name for name in ran if is_sound]
        reused = list(self._result_keys([name for name in ran if result.wagons[name].reused_count], key).values())
        new = [name for name in ran if not result.wagons[name].reused_count]
        new, notes = self._described_by_keys(new, index, result)
        rows = self._rows_of_wagons(result.wagons, new, key, share.label)
        about_share = other_key("share", key)
        if rows:
            content = pickle.dumps(KeptShare.of(result, share))
            rows.append(LedgerRow(about_share, SHARES_NAME, share.label, content))
        elif reused:
            reused.append(about_share)
        return LedgerRows(tuple(rows), tuple(reused), notes)

    def _described_by_keys(
        self, names: list[str], index: int, result: ShareResult
    ) -> tuple[list[str], tuple[str, ...]]:
        """Return the wagons whose keys say what was really used, and sentences on what was used in place of it."""
        changed = self._changed(index, result.inputs) if names else ""
        if changed:
            return [], (f"results are not kept of {changed}",)
        notes, good = [], []
        for name in names:
            key, code = self.keys[name], result.code
            packages = [one for one in code.packages if one in key.packages]
            files = [one for one in code.files if one in key.files or one in key.modules]
            notes += [
                f"results of {name} from {code.host} are not kept: {one} is {code.packages[one]} there, and "
                f"{key.packages[one]} where the train was planned"
                for one in packages
            ]
            notes += [f"results of {name} are not kept: {one} changed since the train was planned" for one in files]
            good += [] if packages or files else [name]
        return good, tuple(notes)

    def _changed(self, index: int, used: Mapping[str, str]) -> str:
        """Return words on the first file of a sub-job that was read with another content than its key says."""
        planned = self._identities.pop(index, {})
        for one in self._plan.shares[index].files:
            if one.path in used and one.path not in planned:
                # At a server: a worker names only files that had another version.
                planned[one.path] = f"{one.size_bytes} bytes, {one.version}"
        for path in {**planned, **used}:
            if planned.get(path, "") != used.get(path, ""):
                was, read = planned.get(path, "not known"), used.get(path, "not known")
                if path not in planned:
                    return f"sub-jobs that read files outside of the dataset, as {path}, {read}"
                changed = f"it was {was} when its result was looked up, and {read} when it was read"
                return f"files that changed, as {path}: {changed}"
        return ""

    def _rows_of_wagons(
        self, wagons: Mapping[str, WagonShare], names: Iterable[str], share_key: str, label: str
    ) -> list[LedgerRow]:
        """The rows for the sums of wagons; what cannot be kept is noted."""
        # Pieces are gone once they are merged.
        with_tables = {name for name in names if found(wagons[name].total, TablePieces)}
        self.unknown |= dict.fromkeys(with_tables, NO_ROWS_KEPT)
        keys = self._result_keys([name for name in names if name not in with_tables], share_key)
        rows = [
            LedgerRow(key, name, label, cloudpickle.dumps(_without_times(wagons[name]))) for name, key in keys.items()
        ]
        large = [one.name for one in rows if len(one.content) > LEDGER_ROW_MAX_BYTES]
        if large:
            self.notes.append(f"results of {', '.join(large)} in {label} are too large to be kept")
        return [one for one in rows if one.name not in large]

    def learned_before(self) -> LearnedBefore:
        """What wagons touched first in earlier runs over the first sub-job of this dataset."""
        self._learned_under = keys = self._learned_keys()
        if not self._takes or not keys:
            return LearnedBefore()
        found = self._contents(list(keys.values()))
        self._touched = touched = {name: tuple(json.loads(found[key])) for name, key in keys.items() if key in found}
        if set(touched) != self._running_names():
            # How much companions have for an event is measured with all wagons.
            return LearnedBefore({} if self._first[0].files[0].companions else touched)
        key = self._sizes_key({*self._plan.named_branches, *(one for names in touched.values() for one in names)})
        sizes = self._contents([key]).get(key)
        return LearnedBefore(touched, None if sizes is None else ChunkSizes(*json.loads(sizes)))

    def keep_learned(self, learning: Learning) -> None:
        """Keeps what wagons touched first, and the chunk sizes that followed."""
        keys, sizes = self._learned_keys(), learning.sizes
        if keys != self._learned_under or sizes is None or learning.shares_count != 1:
            return  # The file that it was learned from has changed meanwhile, or is not in the first sub-job.
        label = self._first[0].label
        self._touched = {**self._touched, **learning.touched}
        rows = [
            LedgerRow(keys[name], LEARNED_NAME, label, json.dumps(sorted(touched)).encode())
            for name, touched in self._touched.items()
            if name in keys
        ]
        if keys:
            key, content = self._sizes_key(set(learning.branches)), json.dumps(astuple(sizes))
            rows.append(LedgerRow(key, LEARNED_NAME, label, content.encode()))
        self._write(rows, [])

    def branches_of(self, names: Iterable[str], share: Share) -> tuple[str, ...]:
        """The branches to read of a share where only some wagons run; all of them where it is not known which."""
        wanted: set[str] = set()
        if self._plan.settings.branches is not None or self._plan.settings.skip_bad_files:
            return share.branches
        for name in names:
            named = self._wagons[name].branches
            if named is None and name not in self._touched:
                return share.branches
            wanted |= {*(named or ()), *self._touched.get(name, ()), *self._missed.get(name, ())}
        return tuple(sorted(wanted))

    def missed(self, wagons: Mapping[str, WagonShare]) -> None:
        """Notes which branches wagons turned out to need."""
        for name, one in wagons.items():
            if one.misses and not one.reused_count:
                self._missed.setdefault(name, set()).update(one.misses)

    def close(self, *, is_whole: bool) -> None:
        """Ends the run; what the last runs did not use is removed after a whole one."""
        if self._unknown_shares:
            first = next(iter(self._unknown_shares.values()))
            self.notes.append(f"{len(self._unknown_shares)} sub-jobs cannot be reused, the first since {first}")
        if self._ledger is None:
            return
        try:
            if is_whole:
                self._ledger.remove_old()
            self._ledger.close()
        except LedgerError as error:
            self._give_up(error)

    def key_of(self, index: int, share: Share) -> str | None:
        """The key of a sub-job as its files are now; None if it has none."""
        if self._step is None:
            return None
        if index not in self._key_texts:
            try:
                self._identities[index] = identities = identities_of(share.files)
                self._key_texts[index] = self._share_keys.key_of(share, self._step, identities)
            except UnknownValueError as error:
                self._unknown_shares[index] = str(error)
                self._key_texts[index] = None
        return self._key_texts[index]

    def _result_keys(self, names: Iterable[str], share_key: str) -> dict[str, bytes]:
        keys = {name: self.keys[name].key for name in names}
        return {name: result_key(key, share_key) for name, key in keys.items() if key is not None}

    def _required_by(self, name: str) -> list[str]:
        """A wagon and those that it requires."""
        return [one.name for one in with_required(self._wagons[name], self._wagons)]

    def _running_names(self) -> set[str]:
        return set(self._wagons) - set(self._plan.faults)

    def _learned_keys(self) -> dict[str, bytes]:
        try:
            share = ShareKeys(None).key_of(replace(self._first[0], learn=True), None)
        except (UnknownValueError, IndexError):
            return {}
        keys = {name: self.keys[name].key for name in sorted(self._running_names())}
        return {name: other_key("learned", key, share) for name, key in keys.items() if key is not None}

    def _sizes_key(self, branches: set[str]) -> bytes:
        settings, first = self._plan.settings, self._first[0]
        share = ShareKeys(None).key_of(first, None)
        wagons = [self.keys[name].key for name in self._wagons] if first.files[0].companions else []
        return other_key("sizes", sorted(branches), share, settings.step_size, settings.memory_limit_bytes, wagons)

    def _contents(self, keys: Sequence[bytes]) -> Mapping[bytes, TrustedBytes]:
        if self._ledger is None:
            return {}
        try:
            return self._ledger.contents(keys)
        except LedgerError as error:
            self._give_up(error)
            return {}

    def _write(self, rows: Sequence[LedgerRow], used: Sequence[bytes]) -> None:
        if self._ledger is None or self._ledger.reads_only:
            return
        try:
            if rows:
                self._ledger.put(rows)
            if used:
                self._ledger.used(used)
        except LedgerError as error:
            self._give_up(error)

    def _put_of_job(self, name: str, content: bytes) -> None:
        if self._ledger is None or self._ledger.reads_only:
            return
        try:
            self._ledger.put_of_job(name, content)
        except LedgerError as error:
            self._give_up(error)

    def _give_up(self, error: LedgerError) -> None:
        """Goes on without the ledger: a run must not fail since what it makes cannot be kept."""
        self.notes.append(f"results are not kept any more: {error}")
        if self._ledger is not None:
            with suppress(LedgerError):
                self._ledger.close()
        self._ledger = None


def _loaded(content: TrustedBytes | None, kind: type[Kept]) -> Kept | None:
    """What is pickled in a row; None if that cannot be read any more, as after a change of a class."""
    if content is None:
        return None
    try:
        value = unpickle(content)
    except Exception:  # noqa: BLE001 - an object of any class may fail in its own way
        return None
    if isinstance(value, WagonShare) and value.error is not None:
        return None
    return value if isinstance(value, kind) else None


def _without_times(share: WagonShare) -> WagonShare:
    return replace(share, seconds=0.0, cpu_s=0.0, core_wait_s=0.0)
