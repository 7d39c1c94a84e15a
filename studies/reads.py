"""Reads of one job of ROOT on each set of files, traced once and kept: `python -m studies.reads`, in two minutes.

The record of a study has the number of calls of a job, but not their offsets. Forecasts of jobs on disks need the
offsets, which determine the requests of the kernel. The traces use the files of the studies, for a single job.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from branchline.lab.sampling.clients import reader_of
from branchline.lab.sampling.job import JobRequest
from branchline.lab.simulation.job_plan import BlockPlan, plans_of
from branchline.lab.study import JobSettings
from branchline.tracing.strace import follow
from branchline.tracing.trace import FILE, REQUEST, SCHEMA, Trace, TracedJob, read_trace
from studies.making.sets import FULL, Sets
from studies.records import RECORDS

#: Below the folder of the records.
FOLDER = "reads"
#: Where it is kept that a request is of this machine: the name of the machine does not matter.
_STORE = "local:studies"
_COLUMNS = ("kind", "request", "process", "thread", "what", "file", "offset", "size_bytes", "got_bytes", "sent_ns")


@dataclass(frozen=True)
class JobFiles:
    """The input of a job: a set of files, the files chosen from it, and their tree."""

    files_of: str
    pattern: str
    tree: str
    count: int


JOBS = {
    "small ESD": JobFiles("small", "*/AliESDs.root", "esdTree", 4),
    "large ESD": JobFiles("large", "*.root", "esdTree", 1),
    "small Pythia": JobFiles("generated", "*.root", "events", 4),
    "large Pythia": JobFiles("large-generated", "*.root", "events", 1),
}


def plan_of(name: str, kept: Path = RECORDS) -> BlockPlan:
    """Return the plan of a job of JOBS from its trace, with the times of the traced program. Raises the errors of
    ``read_trace``.
    """
    (plan,) = plans_of(read_trace(_path(name, kept)))
    return plan


def _path(name: str, kept: Path) -> Path:
    return kept / FOLDER / f"{name.lower().replace(' ', '-')}.parquet"


def take(data: Path, kept: Path) -> None:
    """Traces all jobs, and keeps where they read."""
    scale = dataclasses.replace(FULL, name="one-job", files=FULL.merged)
    sets = Sets(data.resolve(), scale, lambda text: print(text, file=sys.stderr, flush=True))
    for name, job in JOBS.items():
        folder = sets.made(job.files_of)
        files = [str(one) for one in sorted(folder.glob(job.pattern))[: job.count]]
        trace = follow([sys.executable, "-m", "studies.reads", "--read", json.dumps([job.tree, *files])])
        _path(name, kept).parent.mkdir(parents=True, exist_ok=True)
        _lean(trace, folder).write(_path(name, kept))


def _lean(trace: Trace, folder: Path) -> Trace:
    """Return the trace without file maps and host names; only the positions of the reads are needed."""
    rows = trace.rows.to_pylist()
    empty = dict.fromkeys(SCHEMA.names)
    made = []
    for row in rows:
        if row["kind"] not in (REQUEST, FILE):
            continue
        lean = {**empty, **{one: row[one] for one in _COLUMNS}}
        lean["file"] = str(Path(row["file"]).relative_to(folder))
        if row["kind"] == REQUEST:
            lean |= {"store": _STORE, "outcome": row["outcome"], "last_byte_ns": row["last_byte_ns"]}
            lean |= {"process": 1, "thread": 1}
        made.append(lean)
    return Trace(SCHEMA.empty_table().from_pylist(made, SCHEMA), TracedJob(program="strace"))


def _read(words: Sequence[str]) -> None:
    """As a job of the studies on disks: ROOT without a cache."""
    tree, *files = words
    settings = JobSettings(where=("",), tree=tree, client="root", options={"cache": 0})
    with tempfile.TemporaryDirectory() as folder:
        reader_of(JobRequest.of(0, settings, files, Path(folder)))(files)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.reads", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("target/studies/files"), help="folder of the files")
    parser.add_argument("--kept", type=Path, default=RECORDS, help="folder of the records")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        _read(json.loads(given.read))
    else:
        take(given.data, given.kept)


if __name__ == "__main__":
    main()
