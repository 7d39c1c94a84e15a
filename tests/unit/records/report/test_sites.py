"""The table of sites says what was read near and far, as the records have it."""

from __future__ import annotations

from branchline.records.report.activity import ReadCell, site_table
from branchline.records.sensors.record import JobRecord, SiteReading, WorkerPhases

CERN, GSI = "root://eos.cern.ch", "root://se.gsi.de"
MB = 10**6


def test_the_table_has_local_and_remote_files_by_site_and_element() -> None:
    job = JobRecord(
        sites=[
            SiteReading("CERN", CERN, "site", files=30, bytes_read=90 * MB, wall_s=30.0),
            SiteReading("GSI", CERN, "elsewhere", files=1, bytes_read=2 * MB, wall_s=4.0),
            SiteReading("GSI", GSI, "site", files=3, bytes_read=12 * MB, wall_s=4.0),
        ],
        worker_phases=[
            WorkerPhases(0, site="CERN", wall_s=10.0, wait=2.0),
            WorkerPhases(1, site="GSI", wall_s=10.0, wait=5.0, idle=1.0),
            WorkerPhases(2, site="GSI", wall_s=10.0, wait=3.0),
        ],
    )
    table = site_table(job)
    assert table.elements == [CERN, GSI]
    cern, gsi = table.rows
    assert (cern.name, cern.workers, gsi.workers) == ("CERN", "1 worker", "2 workers")
    assert cern.local == cern.every == cern.by_element[0]
    assert cern.remote == cern.by_element[1] == ReadCell()
    assert [one.files for one in (gsi.every, gsi.local, gsi.remote)] == ["4 files", "3 files", "1 file"]
    assert [one.speed for one in (gsi.every, gsi.local, gsi.remote)] == ["1.75 MB/s", "3.00 MB/s", "500 kB/s"]
    assert gsi.by_element == [gsi.remote, gsi.local]
    assert [one.rstrip("\u202f%\u00a0 ") for one in (cern.efficiency, gsi.efficiency)] == ["80", "55"]


def test_a_train_on_the_files_of_one_machine_has_no_such_table() -> None:
    job = JobRecord(sites=[SiteReading("", "/data (ext4)", "host", files=3, bytes_read=9)])
    assert site_table(job).rows == []
