"""Reuses results of sub-jobs from the ledger, and adds new results to it.

A result is looked up by a key for its wagon and its sub-job (`result_keys.py`). A sub-job does not run if all its
wagons have cached results. Otherwise only wagons without a cached result run, together with the wagons that they
require.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from typing import TypeVar

import cloudpickle

from branchline.base.limits import LEDGER_ROW_MAX_BYTES
from branchline.base.quantities import counted, size
from branchline.base.trust import TrustedBytes, unpickle
from branchline.jobs.ledger import Ledger, LedgerError, LedgerRow
from branchline.trains.plan import TrainPlan
from branchline.trains.reuse.canonical import UnknownValueError
from branchline.trains.reuse.changes import WAGON, KeyParts
from branchline.trains.reuse.kept_results import KeptNeighbours, KeptResult
from branchline.trains.reuse.kept_tables import ROWS_KEPT_MAX_BYTES, TABLES_KEPT_MAX_BYTES, KeptTables, tables_bytes
from branchline.trains.reuse.result_keys import ShareKeys, WagonKey, WagonKeys, other_key, result_key
from branchline.trains.reuse.stored_train import Learning, StoredSources, StoredTrain
from branchline.trains.subjobs.folding import FoldedNeighbours, KeptShare
from branchline.trains.subjobs.share_result import ShareResult, WagonShare
from branchline.trains.subjobs.shares import ChunkSizes, Share
from branchline.trains.subjobs.used_inputs import identities_of
from branchline.trains.tables.table import TablePieces, found
from branchline.trains.tables.table_folder import TableFolder
from branchline.trains.wagons.wagons import Wagon, with_required

Kept = TypeVar("Kept")

# Names of ledger rows that belong to no wagon: rows about sub-jobs, and rows about learned branches.
SHARES_NAME, LEARNED_NAME = "(sub-jobs)", "(branches)"
# Names under which the ledger stores data of the last job: its train, the branches and chunk sizes that it learned, and
# what the keys of its results depend on.
TRAIN_NAME, LEARNING_NAME, KEYS_NAME = "train", "learning", "keys"


@dataclass(frozen=True)
class LearnedBefore:
    """The branches that wagons used for the first events of an earlier run, by wagon, and the chunk sizes computed from
    them; None if the sizes are unknown.
    """

    touched: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sizes: ChunkSizes | None = None

    def learning(self, plan: TrainPlan) -> Learning | None:
        """Return the branches and chunk sizes, so that the first sub-job need not learn them; None if the chunk sizes
        are unknown.
        """
        if self.sizes is None:
            return None
        branches = {*plan.named_branches, *(one for names in self.touched.values() for one in names)}
        return Learning(tuple(sorted(branches)), self.sizes, 1, self.touched)

    def unknown_of(self, wagons: Sequence[Wagon]) -> set[str]:
        """Return the names of the wagons whose branches must be learned, and of the wagons that these require."""
        by_name = {one.name: one for one in wagons}
        unknown = [one for one in wagons if one.name not in self.touched]
        return {needed.name for one in unknown for needed in with_required(one, by_name)}


@dataclass(frozen=True)
class LedgerRows:
    """The rows that a finished sub-job adds to a ledger, the keys of the rows that it used, and notes about results
    that are not cached.
    """

    new: tuple[LedgerRow, ...] = ()
    used: tuple[bytes, ...] = ()
    notes: tuple[str, ...] = ()


class Reuse:
    """A train run's access to the ledger. Without ``takes``, results are stored but not reused.

    ``unknown`` has the reasons, by wagon, why results of a wagon can never be reused. ``rerun_causes`` has the changes,
    by wagon, that prevent the reuse of the last run's results. ``notes`` has all other reasons. ``keys`` are
    the keys of the wagons, by name.
    """

    def __init__(
        self,
        ledger: Ledger | None,
        plan: TrainPlan,
        *,
        takes: bool,
        keys: Mapping[str, WagonKey] | None = None,
        tables: TableFolder | None = None,
        tables_max_bytes: int = TABLES_KEPT_MAX_BYTES,
    ) -> None:
        """Prepare to use a ledger. A batch job passes ``keys`` but no ledger: it creates rows, which the last batch job
        adds to the ledger. Rows of tables that are reused are written to ``tables``; without it, they are not reused.
        At most ``tables_max_bytes`` of rows are stored.
        """
        self._tables = tables
        self._tables_left_bytes = tables_max_bytes
        self._tables_left_out = 0
        self._ledger: Ledger | None = ledger
        self._plan = plan
        # The first share as planned, before branches were learned. Jobs without a ledger need not read it.
        self._first = [] if ledger is None else list(plan.shares[:1])
        self._takes = takes
        self._wagons = {one.name: one for one in plan.loaded.wagons}
        self.keys = dict(WagonKeys(plan.loaded.wagons).by_name if keys is None else keys)
        self.unknown = {name: self.keys[name].unknown for name in self._wagons if self.keys[name].key is None}
        self.rerun_causes: dict[str, str] = {}
        self.notes: list[str] = []
        if ledger is not None and ledger.replaced:
            self.notes.append(f"cached results of earlier runs are not used: {ledger.replaced}")
        self._unknown_shares: dict[int, str] = {}
        self._step: int | None = None
        self._share_keys = ShareKeys(plan.named_branches if plan.settings.skip_bad_files else None, plan.settings.seed)
        self._key_texts: dict[int, str | None] = {}
        # Branches by wagon: _touched are the branches that were used for the first events, _missed the branches that
        # were first used later.
        self._touched: dict[str, tuple[str, ...]] = {}
        self._missed: dict[str, set[str]] = {}
        # _identities has, by sub-job, the file identities that its key covers. _learned_under has the keys with which
        # learned branches were looked up.
        self._identities: dict[int, dict[str, str]] = {}
        self._learned_under: dict[str, bytes] = {}

    def forget_changed(self, shipped: Mapping[str, str]) -> None:
        """Do not cache results of wagons whose modules changed between sending them to workers and computing the keys.
        ``shipped`` has the identities of the modules that were sent, by real path.
        """
        for name, key in self.keys.items():
            changed = [one for one, known in key.modules.items() if shipped.get(os.path.realpath(one), known) != known]
            if key.key is not None and changed:
                reason = self.unknown[name] = f"{changed[0]} changed while the train started"
                self.keys[name] = replace(key, key=None, unknown=reason)

    def keep_train(self, sources: StoredSources | None) -> None:
        """Store the train with its code, so that it can be repeated. A train whose URLs contain secrets is not stored,
        because secrets are never written.
        """
        content = b""
        if not self._plan.dataset.has_secrets():
            # Ignore errors: wagons that run in the calling process need not be picklable, and pickling them may raise
            # anything.
            with suppress(Exception):
                content = cloudpickle.dumps(StoredTrain.of(self._plan, sources))
        self._put_of_job(TRAIN_NAME, content)
        self._put_of_job(LEARNING_NAME, b"")

    def begin(self, learning: Learning) -> None:
        """Set the learned branches and chunk sizes. Afterwards, results can be looked up."""
        self._touched |= learning.touched
        if self._step is None:
            self._step = learning.step
            if self._plan.step is None:
                self._plan = learning.plan(self._plan)
                self._put_of_job(LEARNING_NAME, pickle.dumps(replace(learning, touched=dict(self._touched))))
            skips = self._plan.settings.skip_bad_files
            self._share_keys = ShareKeys(learning.branches if skips else None, self._plan.settings.seed)
            if self._ledger is not None:
                self._compare_keys(self._ledger, learning)

    def _compare_keys(self, ledger: Ledger, learning: Learning) -> None:
        """Compare what the keys depend on with the last run, and store it for the next run."""
        settings = self._plan.settings
        reading = {
            "the number of events per chunk": str(self._step),
            "the seed": str(settings.seed),
            "--skip-bad-files": str(sorted(learning.branches) if settings.skip_bad_files else None),
        }
        # The code of wagons without a key may have changed each time.
        unknown = {"its code": uuid.uuid4().hex}
        required = {name: {f"{WAGON}{one}": "" for one in self._wagons[name].requires} for name in self._wagons}
        known = {name: key.parts if key.key else unknown | required[name] for name, key in self.keys.items()}
        parts = KeyParts(known, {name: hashlib.sha256(one.encode()).hexdigest() for name, one in reading.items()})
        try:
            before = KeyParts.loaded(ledger.of_job(KEYS_NAME))
        except LedgerError as error:
            self._give_up(error)
            return
        if before is not None and self._takes:
            self.rerun_causes = parts.changes_since(before)
        self._put_of_job(KEYS_NAME, parts.stored(before))

    def find(self, index: int, share: Share) -> KeptResult | None:
        """Look up the cached results of a sub-job, without those of stopped wagons; None if nothing is cached."""
        key = self.key_of(index, share)
        running = [name for name in self._wagons if name not in share.stopped]
        if self._ledger is None or not self._takes or key is None:
            return None
        keys = self._result_keys(running, key)
        about_share = other_key("share", key)
        found = self._contents([about_share, *keys.values()])
        kept_share = _loaded(found.get(about_share), KeptShare)
        missing, wagons = self._taken(running, {name: found.get(one) for name, one in keys.items()}, index, 1)
        if kept_share is None or (not wagons and missing.issuperset(running)):
            return None
        return KeptResult(kept_share, wagons, frozenset(missing), key)

    def find_neighbours(self, indices: range, first: Share) -> KeptNeighbours | None:
        """Look up the combined results of neighbouring sub-jobs; None if nothing is cached.

        ``first`` is the share of the first sub-job as it would be sent to a worker now. A result that covers only the
        first few of these sub-jobs is returned only if it has the sums of all wagons.
        """
        if self._ledger is None or not self._takes or (about := self._about_neighbours(indices, first)) is None:
            return None
        shares = _loaded(self._contents([about]).get(about), tuple)
        if not shares or (key := self._neighbours_key(indices[: len(shares)], first)) is None:
            return None
        running = [name for name in self._wagons if name not in first.stopped]
        keys = self._result_keys(running, key)
        found = self._contents(list(keys.values()))
        contents = {name: found.get(one) for name, one in keys.items()}
        missing, kept = self._taken(running, contents, indices.start, len(shares))
        if not kept or (missing and len(shares) < len(indices)):
            return None
        self._write([], [about, *(keys[name] for name in kept)])
        return KeptNeighbours(range(indices.start, indices.start + len(shares)), shares, kept, frozenset(missing))

    def keep_neighbours(self, indices: range, folded: FoldedNeighbours) -> None:
        """Store the sums of neighbouring sub-jobs. ``folded`` covers all sub-jobs in ``indices``, or the first few of
        them.
        """
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
        rows = self._rows_of_wagons(folded.result.wagons, ran, key, label, kept.start)
        if rows:
            self._write([*rows, LedgerRow(about, SHARES_NAME, label, pickle.dumps(folded.shares))], [])

    def _about_neighbours(self, indices: range, first: Share) -> bytes | None:
        """Return the key of the row that has a KeptShare for each of several neighbouring sub-jobs."""
        key = self.key_of(indices.start, first)
        return None if key is None else other_key("neighbours", len(indices), key)

    def _neighbours_key(self, indices: range, first: Share) -> str | None:
        """Return the key of the combined sums of neighbouring sub-jobs."""
        keys = [self.key_of(index, self._plan.shares[index]) for index in indices[1:]]
        keys.insert(0, self.key_of(indices.start, first))
        known = [key for key in keys if key is not None]
        return None if len(known) < len(keys) else " ".join([f"{len(keys)} of", *known])

    def keep(self, index: int, share: Share, result: ShareResult) -> None:
        """Store the sums of the wagons that ran in a sub-job, if the sub-job was complete."""
        if self._ledger is not None:
            rows = self.rows_of(index, share, result)
            self._write(rows.new, rows.used)
            self.notes += [one for one in rows.notes if one not in self.notes]

    def rows_of(self, index: int, share: Share, result: ShareResult) -> LedgerRows:
        """Return the rows with the sums of the wagons that ran in a sub-job. Empty if the sub-job was not complete."""
        key = self.key_of(index, share)
        self._key_texts.pop(index, None)
        if key is None:
            return LedgerRows()
        is_usual = result.memory_retry is None or not result.memory_retry.inexact
        is_sound = (
            is_usual and result.is_whole and not result.skipped and not result.interrupted and result.error is None
        )
        ran = [
            name for name, one in result.wagons.items() if is_sound and one.error is None and name not in result.not_run
        ]
        reused = list(self._result_keys([name for name in ran if result.wagons[name].reused_count], key).values())
        new = [name for name in ran if not result.wagons[name].reused_count]
        new, notes = self._described_by_keys(new, index, result)
        rows = self._rows_of_wagons(result.wagons, new, key, share.label, index)
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
        """Return the wagons whose keys match the inputs that the worker actually used, and notes about the other
        wagons.
        """
        changed = self._changed(index, result.inputs) if names else ""
        if changed:
            return [], (f"results are not cached for {changed}",)
        notes, good = [], []
        for name in names:
            key, code = self.keys[name], result.code
            packages = [one for one in code.packages if one in key.packages]
            files = [one for one in code.files if one in key.files or one in key.modules]
            notes += [
                f"results of {name} from {code.host} are not cached: {one} is {code.packages[one]} there, but "
                f"{key.packages[one]} where the train was planned"
                for one in packages
            ]
            notes += [f"results of {name} are not cached: {one} changed since the train was planned" for one in files]
            good += [] if packages or files else [name]
        return good, tuple(notes)

    def _changed(self, index: int, used: Mapping[str, str]) -> str:
        """Describe the first file that changed after the sub-job's key was computed and before the file was read. Empty
        if no file changed.
        """
        planned = self._identities.pop(index, {})
        for one in self._plan.shares[index].files:
            if one.path in used and one.path not in planned:
                # A remote file. Workers report remote files only if their version differs from the planned one.
                planned[one.path] = f"{one.size_bytes} bytes, {one.version}"
        for path in {**planned, **used}:
            if planned.get(path, "") != used.get(path, ""):
                was, read = planned.get(path, "unknown"), used.get(path, "unknown")
                if path not in planned:
                    return f"sub-jobs that read files outside the dataset, such as {path}, {read}"
                changed = f"it was {was} when its result was looked up, and {read} when it was read"
                return f"changed files, such as {path}: {changed}"
        return ""

    def _taken(
        self, running: Sequence[str], contents: Mapping[str, TrustedBytes | None], first: int, count: int
    ) -> tuple[set[str], dict[str, WagonShare]]:
        """Return the wagons that have to run, and the cached results of the others. The results are for ``count``
        sub-jobs, starting with the index ``first``.
        """
        rows = {name: self._usable(content) for name, content in contents.items()}
        unusable: set[str] = set()
        while True:
            lacking = [name for name in running if rows.get(name) is None or name in unusable]
            missing = {one for name in lacking for one in self._required_by(name)}
            taken: dict[str, WagonShare] = {}
            for name, row in rows.items():
                if row is None or name in missing:
                    continue
                share = row if isinstance(row, WagonShare) else self._restored(row, first)
                if share is None:
                    break
                taken[name] = replace(share, reused_count=count)
            else:
                return missing, taken
            unusable.add(name)

    def _usable(self, content: TrustedBytes | None) -> WagonShare | KeptTables | None:
        """Return the result of a wagon in a row; None if it cannot be used."""
        row = _loaded(content, object)
        if isinstance(row, KeptTables):
            return None if self._tables is None else row
        return row if isinstance(row, WagonShare) else None

    def _restored(self, kept: KeptTables, first: int) -> WagonShare | None:
        with suppress(OSError, KeyError):
            return None if self._tables is None else kept.restored(self._tables, first)
        return None

    def _rows_of_wagons(
        self, wagons: Mapping[str, WagonShare], names: Iterable[str], share_key: str, label: str, first: int
    ) -> list[LedgerRow]:
        """Return the rows with the sums of wagons for one or more sub-jobs, starting with the index ``first``.

        Adds notes for results that cannot be cached.
        """
        rows = []
        for name, key in self._result_keys(names, share_key).items():
            unmeasured = replace(wagons[name], seconds=0.0, cpu_s=0.0, core_wait_s=0.0, python_lines=0, python_events=0)
            kept: WagonShare | KeptTables | None = unmeasured
            if found(unmeasured.total, TablePieces):
                kept = self._with_tables(unmeasured, first)
            if kept is not None:
                rows.append(LedgerRow(key, name, label, cloudpickle.dumps(kept)))
        large = [one.name for one in rows if len(one.content) > LEDGER_ROW_MAX_BYTES]
        if large:
            self.notes.append(f"results of {', '.join(large)} in {label} are too large to be cached")
        return [one for one in rows if one.name not in large]

    def _with_tables(self, share: WagonShare, first: int) -> KeptTables | None:
        """Return a result with the rows of its tables; None if they are too large or cannot be read."""
        size_bytes = tables_bytes(share)
        if size_bytes > min(ROWS_KEPT_MAX_BYTES, self._tables_left_bytes):
            self._tables_left_out += 1
            return None
        with suppress(OSError):
            kept = KeptTables.of(share, first)
            self._tables_left_bytes -= size_bytes
            return kept
        return None

    def learned_before(self) -> LearnedBefore:
        """Look up the branches that wagons used for the first events when an earlier run processed the first sub-job of
        this dataset.
        """
        self._learned_under = keys = self._learned_keys()
        if not self._takes or not keys:
            return LearnedBefore()
        found = self._contents(list(keys.values()))
        self._touched = touched = {name: tuple(json.loads(found[key])) for name, key in keys.items() if key in found}
        if touched.keys() != self._wagons.keys() - self._plan.faults.keys():
            # The size of companions per event depends on all wagons, so branches of only some wagons are not
            # sufficient.
            first = self._first[0].files[0]
            return LearnedBefore({} if first.companions or first.joins else touched)
        key = self._sizes_key({*self._plan.named_branches, *(one for names in touched.values() for one in names)})
        sizes = self._contents([key]).get(key)
        return LearnedBefore(touched, None if sizes is None else ChunkSizes(*json.loads(sizes)))

    def keep_learned(self, learning: Learning) -> None:
        """Store the branches that the wagons used for the first events, and the chunk sizes computed from them."""
        keys, sizes = self._learned_keys(), learning.sizes
        if keys != self._learned_under or sizes is None or learning.shares_count != 1:
            return  # The file used for learning has changed, or is not in the first sub-job.
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
        """Return the branches to read if only the wagons in ``names`` run; all branches of the share if they are
        unknown.
        """
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
        """Record branches that wagons used although they were not planned."""
        for name, one in wagons.items():
            if one.misses and not one.reused_count:
                self._missed.setdefault(name, set()).update(one.misses)

    def close(self, *, is_whole: bool) -> None:
        """Close the ledger at the end of the run. After a complete run, results that recent runs did not use are
        removed.
        """
        if self._unknown_shares:
            first = next(iter(self._unknown_shares.values()))
            self.notes.append(f"{len(self._unknown_shares)} sub-jobs cannot be reused, the first because {first}")
        if self._tables_left_out:
            what = counted(self._tables_left_out, "result")
            self.notes.append(f"{what} with tables were too large to be cached (limit: {size(TABLES_KEPT_MAX_BYTES)})")
        if self._ledger is None:
            return
        try:
            if is_whole:
                self._ledger.remove_old()
            self._ledger.close()
        except LedgerError as error:
            self._give_up(error)

    def key_of(self, index: int, share: Share) -> str | None:
        """Return the key of a sub-job with its current files; None if it has no key."""
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
        """Return the names of a wagon and of the wagons that it requires."""
        return [one.name for one in with_required(self._wagons[name], self._wagons)]

    def _learned_keys(self) -> dict[str, bytes]:
        try:
            share = ShareKeys(None).key_of(replace(self._first[0], learn=True), None)
        except (UnknownValueError, IndexError):
            return {}
        keys = {name: self.keys[name].key for name in sorted(self._wagons.keys() - self._plan.faults.keys())}
        return {name: other_key("learned", key, share) for name, key in keys.items() if key is not None}

    def _sizes_key(self, branches: set[str]) -> bytes:
        settings, first = self._plan.settings, self._first[0]
        share = ShareKeys(None).key_of(first, None)
        has_others = first.files[0].companions or first.files[0].joins
        wagons = [self.keys[name].key for name in self._wagons] if has_others else []
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
        """Continue without the ledger, because a run must not fail if its results cannot be cached."""
        self.notes.append(f"results are no longer cached: {error}")
        if self._ledger is not None:
            with suppress(LedgerError):
                self._ledger.close()
        self._ledger = None


def _loaded(content: TrustedBytes | None, kind: type[Kept]) -> Kept | None:
    """Return the object pickled in a row; None if it can no longer be read, for example because its class has
    changed.
    """
    if content is None:
        return None
    try:
        value = unpickle(content, object)
    except Exception:  # noqa: BLE001 - unpickling an object of any class may raise anything
        return None
    if isinstance(value, WagonShare) and value.error is not None:
        return None
    return value if isinstance(value, kind) else None
