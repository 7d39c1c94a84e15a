"""The charts of a job, on its report and on the pages of the control room."""

from __future__ import annotations

from branchline.records.charts.chart import CellTable, Chart
from branchline.records.charts.job_charts import machine_charts, profile_chart, throughput_charts
from branchline.records.charts.site_charts import SiteElementReads, site_chart
from branchline.records.report.activity import merging_sentence, site_efficiencies
from branchline.records.sensors.record import JobRecord


def charts_over_time(job: JobRecord) -> list[Chart]:
    """Return the charts of a job over time: its throughput, its processes at work with the merging stages, and what
    its machine did.
    """
    cores = job.machine_cpu_count or job.cpu_count
    return [
        *throughput_charts(job.timeline, job.wall_s),
        profile_chart(job.activity, job.wall_s, merging_sentence(job)),
        *machine_charts(job.timeline, job.wall_s, job.host or "the machine", cores),
    ]


def job_site_chart(job: JobRecord) -> CellTable:
    """Return the table of the speeds at which the workers at each site read from each storage element."""
    reads = [
        SiteElementReads(one.site, one.storage_element, one.files, one.bytes_read, one.wall_s) for one in job.sites
    ]
    return site_chart(reads, site_efficiencies(job))
