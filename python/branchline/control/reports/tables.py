"""The database tables of reported jobs. Times are ISO 8601 in UTC; an hour is its first moment, a day is YYYY-MM-DD.

States and records are stored as compressed JSON. Names from outside are sanitized for pages.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from typing import Literal

from branchline.base.limits import NAME_LENGTH_MAX
from branchline.base.texts import printable

# Of each source ``next`` is the number of the first batch that is not taken; ``later`` are taken ones above it (JSON).
# ``cells`` are reads of a job by hour, site, storage element and nearness, ``sums`` the same of all jobs, by hour, day
# and month (see periods.py): a page reads no row of any job. ``place_jobs`` counts jobs (see periods.py), and
# ``site_hours`` and ``wagon_hours`` are sums over jobs that ended in the hour. States and records are large, and in a
# table of their own, so that the list of jobs is read fast.
# ``pending`` are rows of files that are in no file of the history yet; ``history_files`` lists those files that count,
# and ``history_jobs`` how many rows of which job each has.
JOB_TABLES = """
CREATE TABLE IF NOT EXISTS jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, name TEXT NOT NULL,
    command TEXT NOT NULL, user TEXT NOT NULL, host TEXT NOT NULL, site TEXT NOT NULL, place TEXT NOT NULL,
    out TEXT NOT NULL, started TEXT NOT NULL, branchline TEXT NOT NULL, wagons TEXT NOT NULL, datasets TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'running', phase TEXT NOT NULL DEFAULT 'run', made TEXT NOT NULL DEFAULT '',
    seen TEXT NOT NULL, ended TEXT NOT NULL DEFAULT '', seconds REAL NOT NULL DEFAULT 0, fraction_done REAL,
    subjobs INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0,
    events INTEGER NOT NULL DEFAULT 0, bytes_read INTEGER NOT NULL DEFAULT 0, cpu_s REAL, efficiency REAL,
    has_ended INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS jobs_by_start ON jobs (started);
CREATE INDEX IF NOT EXISTS jobs_by_user ON jobs (user, started, events, bytes_read, cpu_s, seconds);
CREATE INDEX IF NOT EXISTS jobs_by_status ON jobs (status, seen);
CREATE INDEX IF NOT EXISTS jobs_by_seen ON jobs (seen);
CREATE TABLE IF NOT EXISTS job_blobs (job_id INTEGER PRIMARY KEY, state BLOB, record BLOB);
CREATE TABLE IF NOT EXISTS job_wagons (
    wagon TEXT NOT NULL, job_id INTEGER NOT NULL, PRIMARY KEY (wagon, job_id)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS job_wagons_by_job ON job_wagons (job_id);
CREATE TABLE IF NOT EXISTS job_places (
    job_id INTEGER NOT NULL, site TEXT NOT NULL, element TEXT NOT NULL, is_local INTEGER NOT NULL,
    first TEXT NOT NULL, last TEXT NOT NULL, PRIMARY KEY (job_id, site, element, is_local)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS job_places_by_site ON job_places (site, element);
CREATE INDEX IF NOT EXISTS job_places_by_element ON job_places (element);
CREATE TABLE IF NOT EXISTS job_reporters (job_id INTEGER PRIMARY KEY, person TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS forgotten_jobs (job TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS forgotten_costs (
    user TEXT NOT NULL, started TEXT NOT NULL, jobs INTEGER NOT NULL, events INTEGER NOT NULL,
    bytes_read INTEGER NOT NULL, cpu_s REAL NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (user, started)) WITHOUT ROWID;
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
CREATE TABLE IF NOT EXISTS sums (
    size TEXT NOT NULL, begin TEXT NOT NULL, site TEXT NOT NULL, element TEXT NOT NULL, nearness TEXT NOT NULL,
    files INTEGER NOT NULL, bytes_read INTEGER NOT NULL, failures INTEGER NOT NULL, wall_s REAL NOT NULL,
    fetch_s REAL NOT NULL, PRIMARY KEY (size, begin, site, element, nearness)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS element_hours (
    hour TEXT NOT NULL, element TEXT NOT NULL, files INTEGER NOT NULL, bytes_read INTEGER NOT NULL,
    failures INTEGER NOT NULL, wall_s REAL NOT NULL, fetch_s REAL NOT NULL,
    PRIMARY KEY (hour, element)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS place_jobs (
    size TEXT NOT NULL, begin TEXT NOT NULL, site TEXT NOT NULL, element TEXT NOT NULL, distance TEXT NOT NULL,
    began INTEGER NOT NULL, ended INTEGER NOT NULL, PRIMARY KEY (size, begin, site, element, distance)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ended_jobs (status TEXT PRIMARY KEY, jobs INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS site_hours (
    hour TEXT NOT NULL, site TEXT NOT NULL, wall_s REAL NOT NULL, waiting_s REAL NOT NULL,
    PRIMARY KEY (hour, site)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS wagon_hours (
    hour TEXT NOT NULL, wagon TEXT NOT NULL, jobs INTEGER NOT NULL, events INTEGER NOT NULL, seconds REAL NOT NULL,
    cpu_s REAL NOT NULL, output_bytes INTEGER NOT NULL, PRIMARY KEY (hour, wagon)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pending (
    id INTEGER PRIMARY KEY AUTOINCREMENT, job_id INTEGER NOT NULL, day TEXT NOT NULL, made TEXT NOT NULL,
    taken TEXT NOT NULL, rows INTEGER NOT NULL, content BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS pending_by_job ON pending (job_id);
CREATE INDEX IF NOT EXISTS pending_by_day ON pending (day);
CREATE TABLE IF NOT EXISTS history_files (
    name TEXT PRIMARY KEY, day TEXT NOT NULL, level INTEGER NOT NULL, first_batch INTEGER NOT NULL,
    rows INTEGER NOT NULL, bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS history_jobs (
    job_id INTEGER NOT NULL, name TEXT NOT NULL, rows INTEGER NOT NULL, PRIMARY KEY (job_id, name)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS history_jobs_by_file ON history_jobs (name);
"""


def keep_blob(connection: sqlite3.Connection, job_id: int, column: Literal["state", "record"], content: bytes) -> None:
    """Keeps the state or the record of a job in the place of what was there."""
    connection.execute(
        f"INSERT INTO job_blobs (job_id, {column}) VALUES (?, ?) ON CONFLICT (job_id)"  # noqa: S608 - ours
        f" DO UPDATE SET {column} = excluded.{column}",
        (job_id, content),
    )


def packed(plain: object) -> bytes:
    """Plain data as compressed JSON."""
    return zlib.compress(json.dumps(plain, separators=(",", ":")).encode(errors="surrogatepass"), 6)


def unpacked(content: bytes) -> dict[str, object]:
    """What ``packed`` was given."""
    found: dict[str, object] = json.loads(zlib.decompress(content))
    return found


def shown_name(text: str) -> str:
    """A name without control characters, cut where it is too long."""
    return printable(text)[:NAME_LENGTH_MAX]
