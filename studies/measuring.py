"""Run one study with the lab in a separate process: `python -m studies.measuring REQUEST.json`.

The process runs in the control group and the network namespace of the places.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from branchline.lab.sampling.sampler import HereAtOnce
from branchline.lab.studies.study_file import load_study
from branchline.lab.studies.study_page import write_report
from branchline.lab.studies.study_run import StudyRun
from branchline.lab.study import Factor, Level, Study
from studies.yard.disks import PROGRAM

#: Limits of the quick form, which only checks that a study runs.
QUICK_JOBS_MAX, QUICK_BUDGET_S, QUICK_WAIT_S = 2, 60.0, 120.0


@dataclass(frozen=True)
class MeasuringRequest:
    """A study's file, its variables, and the folder for its samples. ``budget_s`` replaces the study's budget, except
    in the quick form or if it is 0.
    """

    asked: str
    folder: str
    variables: dict[str, str]
    seed: int
    is_quick: bool
    budget_s: float = 0.0
    request_version: int = 1


def quick(study: Study) -> Study:
    """Return the study with at most two jobs, two files per job, and one round."""
    factors = tuple(_few(one) for one in study.factors)
    job = dataclasses.replace(study.job, files_per_job=min(study.job.files_per_job, 2))
    limits = {"budget_s": QUICK_BUDGET_S, "rounds_max": 1, "wait_s": QUICK_WAIT_S, "limits": False}
    return dataclasses.replace(study, factors=factors, job=job, **limits)  # type: ignore[arg-type]


def _few(factor: Factor) -> Factor:
    levels = [one for one in factor.levels if int(str(one.changes.get("jobs", 1))) <= QUICK_JOBS_MAX]
    levels = levels or list(factor.levels[:1])
    small = []
    for one in levels:
        changes = dict(one.changes)
        if "files_per_job" in changes:
            changes["files_per_job"] = min(int(str(changes["files_per_job"])), 2)
        if "jobs" in changes:
            changes["jobs"] = min(int(str(changes["jobs"])), QUICK_JOBS_MAX)
        small.append(dataclasses.replace(one, changes=changes))
    return dataclasses.replace(factor, levels=tuple(small))


def with_disks_as_servers(study: Study) -> Study:
    """Return the study with the emulation of disks among its local servers, whose CPU time does not count as that of
    other programs.
    """

    def level(one: Level) -> Level:
        if "servers" not in one.changes:
            return one
        own = one.changes["servers"]
        names = [own] if isinstance(own, str) else list(own)  # type: ignore[call-overload]  # a list by the format
        return dataclasses.replace(one, changes={**one.changes, "servers": (*names, PROGRAM)})

    factors = tuple(dataclasses.replace(one, levels=tuple(map(level, one.levels))) for one in study.factors)
    job = dataclasses.replace(study.job, servers=(*study.job.servers, PROGRAM))
    return dataclasses.replace(study, job=job, factors=factors)


def main() -> None:
    request = MeasuringRequest(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    study = with_disks_as_servers(load_study(Path(request.asked), request.variables))
    if request.is_quick:
        study = quick(study)
    elif request.budget_s:
        study = dataclasses.replace(study, budget_s=request.budget_s)
    folder = Path(request.folder)
    StudyRun(study, folder, request.seed, HereAtOnce(folder), lambda text: print(text, flush=True)).run()
    write_report(folder)


if __name__ == "__main__":
    main()
