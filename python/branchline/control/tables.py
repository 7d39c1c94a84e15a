"""The tables of what jobs reported. Times are ISO 8601, UTC; an hour is its first moment."""

from __future__ import annotations

# Of each source ``next`` is the number of the first batch that is not taken; ``later`` are taken ones above it (JSON).
# ``cells`` are reads of a job by hour, site, storage element and nearness, ``sums`` the same of all jobs: what a page
# shows of a month has so many rows, however many jobs there were.
JOB_TABLES = """
CREATE TABLE IF NOT EXISTS jobs (
    id INTEGER PRIMARY KEY, job TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, name TEXT NOT NULL, command TEXT NOT NULL,
    user TEXT NOT NULL, host TEXT NOT NULL, site TEXT NOT NULL, place TEXT NOT NULL, out TEXT NOT NULL,
    started TEXT NOT NULL, branchline TEXT NOT NULL, wagons TEXT NOT NULL, datasets TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'running', phase TEXT NOT NULL DEFAULT 'run', made TEXT NOT NULL DEFAULT '',
    seen TEXT NOT NULL, ended TEXT NOT NULL DEFAULT '', seconds REAL NOT NULL DEFAULT 0, fraction_done REAL,
    subjobs INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0,
    events INTEGER NOT NULL DEFAULT 0, bytes_read INTEGER NOT NULL DEFAULT 0, cpu_s REAL, efficiency REAL,
    state BLOB, record BLOB);
CREATE INDEX IF NOT EXISTS jobs_by_start ON jobs (started);
CREATE INDEX IF NOT EXISTS jobs_by_user ON jobs (user, started);
CREATE INDEX IF NOT EXISTS jobs_by_status ON jobs (status, seen);
CREATE TABLE IF NOT EXISTS sources (
    job_id INTEGER NOT NULL, source TEXT NOT NULL, next INTEGER NOT NULL, later TEXT NOT NULL,
    PRIMARY KEY (job_id, source)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS points (
    job_id INTEGER NOT NULL, t_s REAL NOT NULL, events INTEGER NOT NULL, bytes_read INTEGER NOT NULL,
    plain_bytes INTEGER NOT NULL, PRIMARY KEY (job_id, t_s)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cells (
    job_id INTEGER NOT NULL, hour TEXT NOT NULL, site TEXT NOT NULL, element TEXT NOT NULL, nearness TEXT NOT NULL,
    files INTEGER NOT NULL, bytes_read INTEGER NOT NULL, failures INTEGER NOT NULL, wall_s REAL NOT NULL,
    fetch_s REAL NOT NULL, PRIMARY KEY (job_id, hour, site, element, nearness)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS cells_by_place ON cells (site, element, hour, job_id);
CREATE TABLE IF NOT EXISTS sums (
    hour TEXT NOT NULL, site TEXT NOT NULL, element TEXT NOT NULL, nearness TEXT NOT NULL, files INTEGER NOT NULL,
    bytes_read INTEGER NOT NULL, failures INTEGER NOT NULL, wall_s REAL NOT NULL, fetch_s REAL NOT NULL,
    PRIMARY KEY (hour, site, element, nearness)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS site_times (
    job_id INTEGER NOT NULL, site TEXT NOT NULL, hour TEXT NOT NULL, wall_s REAL NOT NULL, waiting_s REAL NOT NULL,
    PRIMARY KEY (job_id, site)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS site_times_by_hour ON site_times (hour, site);
CREATE TABLE IF NOT EXISTS wagon_costs (
    job_id INTEGER NOT NULL, wagon TEXT NOT NULL, hour TEXT NOT NULL, events INTEGER NOT NULL, seconds REAL NOT NULL,
    cpu_s REAL NOT NULL, output_bytes INTEGER NOT NULL, PRIMARY KEY (job_id, wagon)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS wagon_costs_by_wagon ON wagon_costs (wagon, hour);
CREATE TABLE IF NOT EXISTS pending (
    id INTEGER PRIMARY KEY, job_id INTEGER NOT NULL, day TEXT NOT NULL, rows INTEGER NOT NULL, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS history_files (
    name TEXT PRIMARY KEY, day TEXT NOT NULL, rows INTEGER NOT NULL, bytes INTEGER NOT NULL) WITHOUT ROWID;
"""
