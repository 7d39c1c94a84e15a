"""Write a page with the figures of simulated jobs, drawn like those of measured jobs, and labelled as simulated."""

from __future__ import annotations

from pathlib import Path

from branchline.base.palette import BLUE
from branchline.base.quantities import MB, counted, duration
from branchline.base.whole_files import write_html
from branchline.errors import OptionError
from branchline.lab.sampling.job import JobOutcome
from branchline.lab.simulation.simulated_jobs import JobsAtOnce, SimulatedJob
from branchline.lab.studies.job_comparison import SINCE_FIRST, outcome_charts
from branchline.lab.studies.study_page import environment
from branchline.records.charts.chart import CellTable, Chart
from branchline.records.charts.job_charts import profile_chart
from branchline.records.charts.over_time import Spans, spans_chart
from branchline.records.charts.site_charts import SiteElementReads, site_chart
from branchline.records.sensors.record import ActivitySpan

PAGE = "simulated.html"


def write_simulated(found: JobsAtOnce, path: Path) -> None:
    """Write the page of the largest number of simulated jobs. Raises OptionError without jobs, StorageError."""
    if not found.jobs:
        raise OptionError("a simulation without jobs cannot be drawn", hint="add --what-if jobs=N")
    point = found.points[-1]
    title = f"{counted(point.jobs, 'simulated job')} in {duration(point.makespan_s)}"
    html = environment().get_template(PAGE).render(title=title, charts=simulated_charts(found.jobs), seed=found.seed)
    write_html(path, html)


def simulated_charts(jobs: tuple[SimulatedJob, ...]) -> list[Chart | CellTable]:
    """Return the figures of simulated jobs."""
    outcomes = [
        JobOutcome(
            number,
            one.begin_s,
            one.end_s - one.begin_s,
            one.cpu_s,
            bytes_read=round(one.read_bytes),
            processor=one.nodes,
            file_bytes=round(one.read_bytes),
        )
        for number, one in enumerate(jobs)
    ]
    activity = [ActivitySpan(one.nodes, 0, one.begin_s, one.end_s) for one in jobs]
    moved = [(one.read_bytes - one.cached_bytes) / MB for one in jobs]
    spans = Spans("all links", BLUE, [(one.begin_s, one.end_s) for one in jobs], moved)
    whole_s = max(one.end_s for one in jobs)
    efficiencies = {}
    for name in dict.fromkeys(one.nodes for one in jobs):
        own = [one for one in jobs if one.nodes == name]
        wall_s = sum((one.end_s - one.begin_s) * one.threads for one in own)
        efficiencies[name] = min(sum(one.cpu_s for one in own) / wall_s, 1.0) if wall_s > 0 else 0.0
    reads = [
        SiteElementReads(one.nodes, one.storage, 1, round(one.read_bytes), one.end_s - one.begin_s) for one in jobs
    ]
    note = "Bytes that caches did not have, spread evenly over the time of each job."
    return [
        *outcome_charts({"": outcomes}, {"": outcomes}, is_simulated=True),
        profile_chart(activity, whole_s, is_simulated=True),
        spans_chart("Network load", "MB/s", [spans], whole_s, axis=SINCE_FIRST, note=note, is_simulated=True),
        site_chart(reads, efficiencies, what="job", is_simulated=True),
    ]
