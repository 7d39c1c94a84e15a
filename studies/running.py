"""Running studies: the yard is made, the lab measures in it, and a record is left."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from branchline.base.quantities import counted
from branchline.lab.statistics import PAIRS_MIN
from branchline.lab.studies.study_page import kept_result
from studies import findings, records
from studies.making.sets import Sets
from studies.measuring import MeasuringRequest
from studies.published import STUDIES, StudyPair
from studies.yard.places import yard_of
from studies.yard.skipping import LackingError

#: Beyond its budget a study takes its last round, and starts the programs of its jobs.
GRACE_S = 900.0


class Runner:
    """Runs studies one after another, with samples below ``work`` and records in ``kept``."""

    def __init__(self, sets: Sets, work: Path, kept: Path, is_quick: bool, say: Callable[[str], None]) -> None:
        self._sets, self._work, self._kept, self._is_quick, self._say = sets, work, kept, is_quick, say

    def run(self, pair: StudyPair, budget_s: float) -> records.Record:
        """Measures a study, or finds out why it cannot be; either way its record is written."""
        machine = records.Machine.now()
        begin_s = time.monotonic()
        try:
            record = self._measured(pair, machine, budget_s)
        except LackingError as reason:
            record = records.Record(pair.name, self._is_quick, machine, skipped=str(reason))
        records.write(record, self._kept)
        self._say(f"{pair.name}: {summary(record)}; it took {time.monotonic() - begin_s:.0f} s with its places")
        return record

    def _measured(self, pair: StudyPair, machine: records.Machine, budget_s: float) -> records.Record:
        published = pair.published
        if published.cannot:
            raise LackingError(published.cannot)
        folder = self._work / pair.name
        # What an interrupted run left was measured at other places: those are made anew for each study.
        shutil.rmtree(folder, ignore_errors=True)
        with yard_of(self._sets, published.sets, published.places) as yard:
            variables = {name: str(self._sets.folder.resolve()) for name in ("DATA",)} | yard.variables
            variables["STUDIES"] = str(STUDIES)
            seed = random.SystemRandom().randrange(10**6)
            request = MeasuringRequest(str(pair.asked), str(folder), variables, seed, self._is_quick, budget_s)
            yard.check_disks()
            self._measure(request, yard.link.prefix if yard.link else [])
            yard.check_disks()
        samples = findings.Samples.of(folder)
        return records.Record(
            pair.name,
            self._is_quick,
            machine,
            "",
            kept_result(folder),
            findings.numbers_here(published, samples),
            findings.findings_here(published, samples, is_quick=self._is_quick),
        )

    def _measure(self, request: MeasuringRequest, prefix: list[str]) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(request), file)
            file.flush()
            words = [*prefix, sys.executable, "-m", "studies.measuring", file.name]
            # Trains import their wagons' modules from here.
            search = os.pathsep.join(filter(None, [str(STUDIES.parent), os.environ.get("PYTHONPATH", "")]))
            done = subprocess.run(
                words,
                env=os.environ | {"PYTHONPATH": search},
                stdin=subprocess.DEVNULL,
                timeout=request.budget_s + GRACE_S,
                check=False,
            )
        if done.returncode != 0:
            raise RuntimeError(f"the study {request.asked} ended with code {done.returncode}")


def summary(record: records.Record) -> str:
    """A study's record in a line, for a log."""
    result = record.result
    if result is None:
        return f"left out: {record.skipped}"
    # An arm without a baseline of its own has no pairs; findings compare it with others.
    pairs = [one.time.pairs for one in result.arms if one.time and not one.is_baseline]
    fewest = min(pairs, default=result.rounds)
    said = (
        f"{counted(result.rounds, 'round')} in {result.spent_s:.0f} s, {counted(fewest, 'pair')} of each arm at least"
    )
    if fewest < PAIRS_MIN:
        said += f" (an interval needs {PAIRS_MIN})"
    lost = sum(one.lost for one in result.arms)
    found = sum(one.verdict == findings.FOUND for one in record.findings)
    said += f", {counted(lost, 'sample')} lost" if lost else ""
    said += f"; {found} of {counted(len(record.findings), 'finding')} found again" if record.findings else ""
    return said + ("; other programs were at work in most samples" if record.is_disturbed else "")
