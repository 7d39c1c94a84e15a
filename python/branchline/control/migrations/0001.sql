-- The schema of the first version. Times are ISO 8601 in UTC; an hour is its first moment, a day is YYYY-MM-DD.

-- Jobs and what they reported

-- `next` of a source is the number of the first batch that was not accepted; `later` lists accepted batches above it, as
-- JSON. `cells` are the reads of a job by hour, site, storage element and nearness; `sums` are those of all jobs by hour,
-- day and month, so that pages need no rows of jobs. `place_jobs` counts jobs; `site_hours` and `wagon_hours` sum over
-- the jobs that ended in the hour. States and records are large and have a table of their own, so that lists of jobs are
-- read fast.
-- `pending` are rows of files that are not in the history yet; `history_files` lists the files of the history, and
-- `history_jobs` how many rows of each job they have.
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, name TEXT NOT NULL,
    command TEXT NOT NULL, user TEXT NOT NULL, host TEXT NOT NULL, site TEXT NOT NULL, place TEXT NOT NULL,
    out TEXT NOT NULL, started TEXT NOT NULL, branchline TEXT NOT NULL, wagons TEXT NOT NULL, datasets TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'running', phase TEXT NOT NULL DEFAULT 'run', made TEXT NOT NULL DEFAULT '',
    seen TEXT NOT NULL, ended TEXT NOT NULL DEFAULT '', seconds REAL NOT NULL DEFAULT 0, fraction_done REAL,
    subjobs INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0,
    events INTEGER NOT NULL DEFAULT 0, bytes_read INTEGER NOT NULL DEFAULT 0, cpu_s REAL, efficiency REAL,
    has_ended INTEGER NOT NULL DEFAULT 0);
CREATE INDEX jobs_by_start ON jobs (started);
CREATE INDEX jobs_by_user ON jobs (user, started, events, bytes_read, cpu_s, seconds);
CREATE INDEX jobs_by_status ON jobs (status, seen);
CREATE INDEX jobs_by_seen ON jobs (seen);
CREATE TABLE job_blobs (job_id INTEGER PRIMARY KEY, state BLOB, record BLOB);
CREATE TABLE job_wagons (
    wagon TEXT NOT NULL, job_id INTEGER NOT NULL, PRIMARY KEY (wagon, job_id)) WITHOUT ROWID;
CREATE INDEX job_wagons_by_job ON job_wagons (job_id);
CREATE TABLE job_places (
    job_id INTEGER NOT NULL, site TEXT NOT NULL, element TEXT NOT NULL, is_local INTEGER NOT NULL,
    first TEXT NOT NULL, last TEXT NOT NULL, PRIMARY KEY (job_id, site, element, is_local)) WITHOUT ROWID;
CREATE INDEX job_places_by_site ON job_places (site, element);
CREATE INDEX job_places_by_element ON job_places (element);
CREATE TABLE job_reporters (job_id INTEGER PRIMARY KEY, person TEXT NOT NULL);
CREATE TABLE forgotten_jobs (job TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE forgotten_costs (
    user TEXT NOT NULL, started TEXT NOT NULL, jobs INTEGER NOT NULL, events INTEGER NOT NULL,
    bytes_read INTEGER NOT NULL, cpu_s REAL NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (user, started)) WITHOUT ROWID;
CREATE TABLE sources (
    job_id INTEGER NOT NULL, source TEXT NOT NULL, next INTEGER NOT NULL, later TEXT NOT NULL,
    PRIMARY KEY (job_id, source)) WITHOUT ROWID;
CREATE TABLE points (
    job_id INTEGER NOT NULL, t_s REAL NOT NULL, events INTEGER NOT NULL, bytes_read INTEGER NOT NULL,
    plain_bytes INTEGER NOT NULL, PRIMARY KEY (job_id, t_s)) WITHOUT ROWID;
CREATE TABLE cells (
    job_id INTEGER NOT NULL, hour TEXT NOT NULL, site TEXT NOT NULL, element TEXT NOT NULL, nearness TEXT NOT NULL,
    files INTEGER NOT NULL, bytes_read INTEGER NOT NULL, failures INTEGER NOT NULL, wall_s REAL NOT NULL,
    fetch_s REAL NOT NULL, PRIMARY KEY (job_id, hour, site, element, nearness)) WITHOUT ROWID;
CREATE TABLE sums (
    size TEXT NOT NULL, begin TEXT NOT NULL, site TEXT NOT NULL, element TEXT NOT NULL, nearness TEXT NOT NULL,
    files INTEGER NOT NULL, bytes_read INTEGER NOT NULL, failures INTEGER NOT NULL, wall_s REAL NOT NULL,
    fetch_s REAL NOT NULL, PRIMARY KEY (size, begin, site, element, nearness)) WITHOUT ROWID;
CREATE TABLE element_hours (
    hour TEXT NOT NULL, element TEXT NOT NULL, files INTEGER NOT NULL, bytes_read INTEGER NOT NULL,
    failures INTEGER NOT NULL, wall_s REAL NOT NULL, fetch_s REAL NOT NULL,
    PRIMARY KEY (hour, element)) WITHOUT ROWID;
CREATE TABLE place_jobs (
    size TEXT NOT NULL, begin TEXT NOT NULL, site TEXT NOT NULL, element TEXT NOT NULL, distance TEXT NOT NULL,
    began INTEGER NOT NULL, ended INTEGER NOT NULL, PRIMARY KEY (size, begin, site, element, distance)) WITHOUT ROWID;
CREATE TABLE ended_jobs (status TEXT PRIMARY KEY, jobs INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE site_hours (
    hour TEXT NOT NULL, site TEXT NOT NULL, wall_s REAL NOT NULL, waiting_s REAL NOT NULL,
    PRIMARY KEY (hour, site)) WITHOUT ROWID;
CREATE TABLE wagon_hours (
    hour TEXT NOT NULL, wagon TEXT NOT NULL, jobs INTEGER NOT NULL, events INTEGER NOT NULL, seconds REAL NOT NULL,
    cpu_s REAL NOT NULL, output_bytes INTEGER NOT NULL, PRIMARY KEY (hour, wagon)) WITHOUT ROWID;
CREATE TABLE pending (
    id INTEGER PRIMARY KEY AUTOINCREMENT, job_id INTEGER NOT NULL, day TEXT NOT NULL, made TEXT NOT NULL,
    taken TEXT NOT NULL, rows INTEGER NOT NULL, content BLOB NOT NULL);
CREATE INDEX pending_by_job ON pending (job_id);
CREATE INDEX pending_by_day ON pending (day);
CREATE TABLE history_files (
    name TEXT PRIMARY KEY, day TEXT NOT NULL, level INTEGER NOT NULL, first_batch INTEGER NOT NULL,
    rows INTEGER NOT NULL, bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE history_jobs (
    job_id INTEGER NOT NULL, name TEXT NOT NULL, rows INTEGER NOT NULL, PRIMARY KEY (job_id, name)) WITHOUT ROWID;
CREATE INDEX history_jobs_by_file ON history_jobs (name);

-- Hosts, ends and wagons of jobs, for findings

CREATE TABLE job_hosts (
    job_id INTEGER NOT NULL, hour TEXT NOT NULL, host TEXT NOT NULL, workers INTEGER NOT NULL, lost INTEGER NOT NULL,
    PRIMARY KEY (job_id, host)) WITHOUT ROWID;
CREATE INDEX job_hosts_by_hour ON job_hosts (hour);
CREATE INDEX job_hosts_by_host ON job_hosts (host);
CREATE TABLE job_tails (
    job_id INTEGER PRIMARY KEY, hour TEXT NOT NULL, processes INTEGER NOT NULL, seconds REAL NOT NULL,
    tail_s REAL NOT NULL, lost_s REAL NOT NULL);
CREATE INDEX job_tails_by_hour ON job_tails (hour);
CREATE TABLE wagon_runs (
    job_id INTEGER NOT NULL, hour TEXT NOT NULL, wagon TEXT NOT NULL, events INTEGER NOT NULL, cpu_s REAL NOT NULL,
    PRIMARY KEY (job_id, wagon)) WITHOUT ROWID;

-- People

CREATE TABLE outsiders (
    issuer TEXT NOT NULL, subject TEXT NOT NULL, person TEXT NOT NULL UNIQUE,
    PRIMARY KEY (issuer, subject)) WITHOUT ROWID;
CREATE TABLE unix_users (person TEXT PRIMARY KEY, unix_user TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE people (
    name TEXT PRIMARY KEY, role TEXT NOT NULL, groups TEXT NOT NULL, password TEXT NOT NULL,
    is_disabled INTEGER NOT NULL DEFAULT 0, made TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sessions (
    secret TEXT PRIMARY KEY, person TEXT NOT NULL, began TEXT NOT NULL, ends TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX sessions_of ON sessions (person);
CREATE TABLE tokens (
    number INTEGER PRIMARY KEY, secret TEXT NOT NULL UNIQUE, person TEXT NOT NULL, name TEXT NOT NULL,
    scope TEXT NOT NULL, made TEXT NOT NULL, ends TEXT NOT NULL, used TEXT NOT NULL DEFAULT '');
CREATE INDEX tokens_of ON tokens (person);

-- Wagons, datasets and other entries

CREATE TABLE entries (
    subject TEXT NOT NULL, address TEXT NOT NULL, revision INTEGER NOT NULL, content TEXT NOT NULL,
    PRIMARY KEY (subject, address)) WITHOUT ROWID;
-- `changes` has all states of every entry; `entries` has the current ones.
CREATE TABLE changes (
    number INTEGER PRIMARY KEY, at TEXT NOT NULL, who TEXT NOT NULL, subject TEXT NOT NULL, address TEXT NOT NULL,
    action TEXT NOT NULL, before TEXT, after TEXT);
CREATE INDEX changes_of ON changes (subject, address, number);

-- Trials

CREATE TABLE trials (
    number INTEGER PRIMARY KEY, wagon TEXT NOT NULL, dataset TEXT NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL,
    queued TEXT NOT NULL, began TEXT NOT NULL DEFAULT '', ended TEXT NOT NULL DEFAULT '', outcome TEXT);
CREATE INDEX trials_of ON trials (wagon, dataset, number);
CREATE TABLE changers (
    wagon TEXT NOT NULL, dataset TEXT NOT NULL, key TEXT NOT NULL, why TEXT NOT NULL,
    PRIMARY KEY (wagon, dataset, key));
CREATE INDEX trials_by_state ON trials (state, number);

-- Trains

CREATE TABLE trains (
    number INTEGER PRIMARY KEY, content TEXT NOT NULL, state TEXT NOT NULL, process INTEGER NOT NULL DEFAULT 0,
    began TEXT NOT NULL DEFAULT '', ended TEXT NOT NULL DEFAULT '', why TEXT NOT NULL DEFAULT '');
CREATE INDEX trains_by_state ON trains (state, number);

-- `key` is that of the trial that admitted the wagon: it changes with code, values and dataset.
CREATE TABLE train_riders (
    train INTEGER NOT NULL, wagon TEXT NOT NULL, dataset TEXT NOT NULL, key TEXT NOT NULL,
    PRIMARY KEY (train, wagon)) WITHOUT ROWID;
CREATE INDEX train_riders_of ON train_riders (wagon, dataset, key);

-- The job of each start of a train. `ends` counts its ends and how often it was resumed; `told` has all reads that were
-- reported with its ends.
CREATE TABLE train_jobs (
    train INTEGER PRIMARY KEY, identity TEXT NOT NULL, ends INTEGER NOT NULL DEFAULT 0,
    is_over INTEGER NOT NULL DEFAULT 0, told BLOB);
CREATE INDEX train_jobs_at_work ON train_jobs (is_over, train);

-- Plans

CREATE TABLE plans (
    address TEXT PRIMARY KEY, revision INTEGER NOT NULL, content TEXT NOT NULL, due TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE plan_runs (
    number INTEGER PRIMARY KEY, plan TEXT NOT NULL, due TEXT NOT NULL, at TEXT NOT NULL, train INTEGER NOT NULL,
    why TEXT NOT NULL);
-- A due time has at most one row, and so at most one train.
CREATE UNIQUE INDEX plan_runs_once ON plan_runs (plan, due) WHERE due != '';
CREATE INDEX plan_runs_of ON plan_runs (plan, number);

-- Measures

CREATE TABLE measures (number INTEGER PRIMARY KEY AUTOINCREMENT, ends TEXT NOT NULL, content TEXT);
CREATE INDEX measures_by_end ON measures (ends);
