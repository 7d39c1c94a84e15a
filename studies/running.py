"""Run studies: create their places, measure with the lab, and write records."""

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

#: Time in seconds for the last round after the budget, and for starting the programs of the jobs.
GRACE_S = 900.0
#: Beginning of the summary of a study that this machine cannot measure.
LEFT_OUT = "left out"


class Runner:
    """Runs studies, with samples below ``work`` and records in ``kept``."""

    def __init__(self, sets: Sets, work: Path, kept: Path, is_quick: bool, say: Callable[[str], None]) -> None:
        self._sets, self._work, self._kept, self._is_quick, self._say = sets, work, kept, is_quick, say

    def run(self, pair: StudyPair, budget_s: float) -> records.Record:
        """Measure a study, and write its record; if this machine lacks a place, the record contains the reason."""
        machine = records.Machine.now()
        begin_s = time.monotonic()
        try:
            record = self._measured(pair, machine, budget_s)
        except LackingError as reason:
            record = records.Record(pair.name, self._is_quick, machine, skipped=str(reason))
        records.write(record, self._kept)
        self._say(f"{pair.name}: {summary(record)}; {time.monotonic() - begin_s:.0f} s including its places")
        return record

    def _measured(self, pair: StudyPair, machine: records.Machine, budget_s: float) -> records.Record:
        published = pair.published
        folder = self._work / pair.name
        # Samples of an interrupted run come from other places, since each run creates its own.
        shutil.rmtree(folder, ignore_errors=True)
        with yard_of(self._sets, published) as yard:
            variables = {name: str(self._sets.folder.resolve()) for name in ("DATA",)} | yard.variables
            variables["STUDIES"] = str(STUDIES)
            seed = random.SystemRandom().randrange(10**6)
            request = MeasuringRequest(str(pair.asked), str(folder), variables, seed, self._is_quick, budget_s)
            before = yard.disk_rates()
            self._measure(request, yard.link.prefix if yard.link else [])
            rates = zip(before, yard.disk_rates(), strict=True)
            disks = [records.DiskRates(kind, first, last) for (kind, first), (_, last) in rates]
        return records.Record(
            pair.name,
            self._is_quick,
            machine,
            "",
            kept_result(folder),
            findings.ratios_of(published, findings.Samples.of(folder)),
            disks,
        )

    def _measure(self, request: MeasuringRequest, prefix: list[str]) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(request), file)
            file.flush()
            words = [*prefix, sys.executable, "-m", "studies.measuring", file.name]
            # Trains import the modules of their wagons from the repository.
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
    """Return a line about a record for the log. It contains no verdicts, which are on the pages."""
    result = record.result
    if result is None:
        return f"{LEFT_OUT}: {record.skipped}"
    # Arms without a baseline have no pairs.
    pairs = [one.time.pairs for one in result.arms if one.time and not one.is_baseline]
    fewest = min(pairs, default=result.rounds)
    parts = [f"{counted(result.rounds, 'round')} in {result.spent_s:.0f} s"]
    parts.append(f"at least {counted(fewest, 'pair')} per arm")
    if fewest < PAIRS_MIN:
        parts[-1] += f" (an interval needs {PAIRS_MIN})"
    lost = sum(one.lost for one in result.arms)
    parts += [f"{counted(lost, 'sample')} lost"] if lost else []
    parts += ["other programs kept the machine busy in most samples"] if record.is_disturbed else []
    return ", ".join(parts)
