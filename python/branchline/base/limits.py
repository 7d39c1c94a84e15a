"""Limits of trains, jobs and the control room: sizes, counts and timeouts, each with its reason."""

from __future__ import annotations

from branchline.base.quantities import GB, GIB, KIB, MB, MIB, parse_bytes
from branchline.errors import MemoryLimitError

# Target number of sub-jobs per job. 256 keep tens of workers evenly loaded until the end, and the cost of distributing
# them and merging their results stays negligible.
SUBJOBS_WANTED = 256
# Average number of sub-jobs between fixed boundaries, which depend only on the names of a file and its folder. An added
# file changes only about four sub-jobs, up to the next fixed boundary. Fixed boundaries add one eighth more sub-jobs.
SUBJOBS_BETWEEN_FIXED_CUTS = 4
# Files on several storage elements are grouped by element if keeping their order would multiply the number of sub-jobs
# by more than this.
SHARES_BY_ELEMENT_MAX = 2
# Minimum compressed size of a sub-job. Below it, fixed costs (threads, a message, a merge) are noticeable. Until the
# branches are known, the minimum size of a part of a file is the product of both numbers.
SUBJOB_MIN_BYTES, PARTS_OF_MIN = 4 * MB, 2
# Minimum size of a part, counting only the branches that are read, as a multiple of SUBJOB_MIN_BYTES. Awkward Array
# takes 20 to 60 ms for each systematic variation of a chunk, even if the chunk has few events: coffea needs 1.4 times
# the CPU time for the AGC analysis with chunks of 100 000 events instead of 200 000.
READ_PARTS_OF_MIN = 8
# Upper bound of the minimum size of a part, in entries. A wagon with 0.1 ms per event needs 25 s for this many.
SUBJOB_MIN_ENTRIES_MAX = 250_000
# Maximum size of a sub-job. Larger ones would take many seconds, and a job may have to wait for its last sub-job.
SUBJOB_MAX_BYTES = 256 * MB
# Maximum number of sub-jobs that a worker reads in one stream if their files are remote: enough small files (tens of
# MB) to saturate an intercontinental link, and few enough that no worker idles at the end.
SUBJOBS_PER_STREAM_MAX = 16
# Maximum number of files per sub-job, which limits the number of file records if files are tiny.
SUBJOB_MAX_FILES = 256
# Sub-jobs get several remote files of unknown size only if at least this many such sub-jobs remain: files may be large.
SUBJOBS_OF_UNKNOWN_SIZE_WANTED = 64
# Maximum number of files of unknown size per sub-job. A sub-job opens its next file while it reads the current one.
SUBJOB_MAX_FILES_OF_UNKNOWN_SIZE = 16
# Number of neighbouring results that are folded into one. Four stages suffice for 160 000 sub-jobs, a worker holds at
# most twenty results, and on a farm, each stage reads every result once more. Changing this
# number changes the last bits of floating-point sums.
FOLD_FAN_IN = 20

# A result is removed from a directory's ledger if this many consecutive runs into the directory did not use it. Users
# who switch a selection back and forth still find their results, and the size of the ledger is limited.
LEDGER_RUNS_KEPT = 5
# Maximum size of a result in the ledger, below the 10^9 bytes to which SQLite limits a row.
LEDGER_ROW_MAX_BYTES = 900 * MB

# Step size for copying the values of a tree to another file: a few clusters, so that all cores can compress.
STREAMED_STEP = "32 MiB"
# Maximum number of names that the braces in a path may expand to. More are probably a mistake.
BRACE_NAMES_MAX = 100_000
# Maximum number of remote folders that a pattern may list. More indicate a mistake or a cyclic link.
FOLDERS_LISTED_MAX = 10_000
# Number of remote folders that are listed concurrently, since latency dominates.
FOLDERS_LISTED_TOGETHER = 16

# Interval at which a worker checks whether its job was killed.
JOB_WATCH_PAUSE_S = 0.5

# A merge syncs its output to disk and records its progress in the journal after this many bytes. After a kill, at most
# this many bytes and one input are merged again. A sync takes about a second.
MERGE_JOURNAL_BYTES = 256 * MIB
# Compressed size of the clusters of a table that a wagon returns. A worker holds one cluster of each table in memory,
# and readers prefer several MB of each column at a time.
TABLE_CLUSTER_BYTES = 16 * MIB
# One merge of table pieces replaces this number of fold stages, so that table merges align with folds of results. With
# 400 pieces per merge, most trains need one merge stage, and 160 000 sub-jobs need two. With fewer pieces per merge,
# all bytes would be copied more often; with more, a merge would need more memory for the metadata of its inputs.
TABLE_FOLD_STAGES = 2
TABLE_FAN_IN = FOLD_FAN_IN**TABLE_FOLD_STAGES  # Number of table pieces per merge.
# Maximum number of attempts to write or merge a table piece if the worker dies.
TABLE_MERGE_ATTEMPTS_MAX = 3

# Timeout for commands of a batch system. Busy controllers take about ten seconds.
BATCH_CALL_TIMEOUT_S = 120.0
BATCH_STATUS_TIMEOUT_S = 1.5  # For a status, which answers within two seconds even if the system is down.
# Maximum number of tasks of a train by default. More tasks slow down the controller, and each would read little.
BATCH_TASKS_WANTED_MAX = 1000
# Maximum number of tasks that can be requested: the default of Slurm's MaxJobCount.
BATCH_TASKS_MAX = 10_000
# Array indices must be less than this: the default of Slurm's MaxArraySize.
SLURM_ARRAY_TASKS = 1001
# Number of bytes that a task should read by default. Reading them takes about ten seconds, starting a task two or
# three.
BATCH_TASK_BYTES = 1000 * MB
# Maximum number of parts that the last job of a train folds by itself. If a train has more, earlier jobs fold
# neighbouring parts.
BATCH_FINAL_PARTS_MAX = FOLD_FAN_IN**2
# Interval at which a task renews its leases.
LEASE_INTERVAL_S = 15.0
LEASE_STALE_S = 120.0  # Age above which a lease is stale. Shared file systems may show changes a minute late.
# Maximum number of retries if a lease is released while another task acquires it.
LEASE_TRIES_MAX = 5
# Polling interval while waiting for submitted jobs.
BATCH_LOOK_INTERVAL_S = 1.0
# Number of times that the last job of a submitted train resubmits work that is missing after failures.
BATCH_RETRIES = 2
# Factor by which a task's memory request grows each time the task runs out of memory.
BATCH_MEMORY_GROWTH = 2
BATCH_MEMORY_GROWTH_MAX = 4  # Maximum total growth of a memory request, unless the site sets another maximum.
# If this many sub-jobs of a unit fail before any succeeds, the task abandons the unit.
UNIT_FIRST_FAILURES_MAX = 3
# Interval at which a run writes its state for `branchline status`. Writing it costs next to nothing.
STATUS_INTERVAL_S = 1.0
# Interval at which a run writes its state for `branchline status` if nothing has changed.
STATUS_HEARTBEAT_S = 15.0
# If the state of a run is older than this, the process of the run is assumed to hang or to have died.
STATUS_OLD_S = 60.0
# Interval at which a job reports to a control room if anything changed. 1000 jobs make 200 requests per second.
REPORT_INTERVAL_S = 5.0
# Interval at which a job reports if nothing has changed, and saves its state while the server is unreachable.
REPORT_HEARTBEAT_S = 60.0
# Compression level for reports: zlib's fastest. It compresses the records of 5000 files to a tenth in about 10 ms.
REPORT_ZLIB_LEVEL = 1
# Timeout for a control room's response to a report: normally milliseconds, longer if many reports are queued.
REPORT_ANSWER_S = 30.0
# Maximum size of a control room's response to a report, which is one line of JSON.
REPORT_ANSWER_BYTES = 64 * KIB
# Time that a finished job waits for the control room to accept its last reports. Remaining reports are sent later.
REPORT_END_S = 5.0
REPORT_END_AWAY_S = 1.0  # Replaces REPORT_END_S if the server was already unreachable.
# Maximum pause between attempts to send a report. The pause grows exponentially, starting with the reporting interval.
# When a server becomes reachable again, 1000 jobs send 17 requests per second.
REPORT_PAUSE_MAX_S = 60.0
# Maximum pause accepted from a server's Retry-After header.
REPORT_RETRY_AFTER_MAX_S = 300.0
# After this many consecutive reports with status 500, the cause is assumed to be the server instead of the reports.
REPORT_FAILURES_IN_A_ROW = 3
# Maximum size of the unsent reports in the user's spool or in a train's directory: about 1000 hours of jobs, and small
# enough for home directories.
SPOOL_MAX_BYTES = 256 * MIB
# Part of the spool that is reserved for each job's last report, which says how the job ended.
SPOOL_LAST_BYTES = 16 * MIB
# Interval at which a job measures the size of a growing spool, to which other jobs write too.
SPOOL_LOOK_INTERVAL_S = 60.0
# Maximum total size of reports held in memory if they cannot be written to disk.
SPOOL_MEMORY_BYTES = 16 * MIB
# Maximum number of rejected reports that are kept for debugging; the oldest are removed.
SPOOL_REFUSED_MAX = 100
# On file systems without locks, a spool with no writes for this long is assumed to belong to a dead job.
SPOOL_QUIET_S = 3600.0
# Maximum size of an access token in reports. Most tokens have a hundred characters, grid tokens a few thousand.
REPORT_TOKEN_MAX_BYTES = 16 * KIB
# Maximum number of bytes from the log of a failed sub-job in a report: enough for tracebacks.
FAILED_LOG_BYTES = 16_384
# Time for which a task of a batch system retries to use an output directory that is full, read-only or unreachable.
OUT_REFUSES_WAIT_S = 600.0
# Number of bytes read from the end of a task's log to find out why it died.
LOG_TAIL_BYTES = 8192

# Number of entries from which a train learns which branches it reads: enough to touch every column used, and few enough
# that the other workers, which wait for the result, are not delayed noticeably.
LEARN_ENTRIES = 1000
# Time limit for verifying advice: six pairs of jobs of several seconds each, before and after the change.
PROOF_S = 180.0
# If bad files are skipped, a branch that is missing in this many files is reported as an error.
LOOK_FILES = 5
STEP_BYTES = 100 * MB  # Default size of a train's chunk after decompression.
# Maximum number of entries per chunk, for entries that have no bytes or whose size was estimated wrongly.
STEP_MAX_ENTRIES = 50_000_000
# Minimum memory limit for reading: a chunk consists of at least a few baskets of several MB each.
MEMORY_LIMIT_MIN_BYTES = 16 * MIB
# Maximum freed memory that a process with wagons keeps instead of returning it to the system, and the size above which
# freed blocks are returned immediately. Both are the maximum values to which glibc would adapt them.
FREED_MEMORY_KEPT_BYTES, LARGE_BLOCK_BYTES = 64 * MIB, 32 * MIB
# Age at which compiled code of ended jobs is deleted. Few jobs run this long.
COMPILED_CODE_KEPT_S = 7 * 86_400.0
# A chunk may take 1/16 of the memory limit: two streams exist concurrently, each prepares several chunks, and a chunk
# takes about twice its uncompressed size.
CHUNK_MEMORY_DIVISOR = 16
# For Parquet: additional divisor of a chunk's memory, since pages are decoded twice; bytes per read; minimum and
# maximum number of entries per batch of dictionary-encoded strings, which may all refer to the same long string.
PARQUET_CHUNK_PART, PARQUET_PIECE_BYTES, PARQUET_TEXTS_MIN, PARQUET_TEXTS_MAX = 4, MIB, 1024, 65_536
# Interval at which a worker reports progress and the terminal is redrawn. Shorter intervals would cost CPU time.
PROGRESS_INTERVAL_S = 0.2
# Maximum number of points in the timeline of job.json: one per second for a job of an hour.
TIMELINE_MAX_POINTS = 3600
# After Ctrl-C, workers have this long to finish the current chunk and return their results.
STOP_GRACE_S = 10.0
# Interval at which a job checks whether STOP_GRACE_S has passed.
STOP_CHECK_INTERVAL_S = 0.5
# Time that a worker has to exit before it is killed.
KILL_GRACE_S = 2.0

# Timeout for locating a file. A redirector queries its servers for an unknown file, which takes several seconds.
LOCATE_WAIT_S = 60.0
# Ports of Hadoop 3 NameNodes for HTTP and HTTPS.
HDFS_WEB_PORT, HDFS_WEB_TLS_PORT = 9870, 9871
# Maximum size of a file's block list: half a kilobyte per block, for a file of 4 TB.
HDFS_BLOCKS_MAX_BYTES = 16 * MIB
# Maximum number of hosts kept from a file's block list. Blocks have three replicas; hosts with few blocks do not help.
HOSTS_OF_FILE_MAX = 3
# Timeout for connecting. A running server accepts a connection faster, even over a lossy link.
CONNECT_WAIT_S = 15.0
# Assumed round-trip time to a server on the worker's host, if none was measured.
HOST_ROUND_TRIP_S = 0.0001
SITE_ROUND_TRIP_S = 0.001  # Assumed round-trip time to a server at the worker's site.
WAN_ROUND_TRIP_S = 0.05  # Assumed round-trip time to other servers.
# Storage elements count as near up to this round-trip time. It is typical within a site, and prefetching hides it.
NEAR_ROUND_TRIP_S = 0.003
# Time that a worker without nearby work waits before it takes work near other workers. It is about the duration of one
# group of sub-jobs.
FAR_WORK_WAIT_S = 3.0
# Maximum number of round-trip times, and of silent storage elements, that are sent to a worker with each sub-job.
ROUND_TRIPS_SENT_MAX = 64

# Target duration of a group of sub-jobs on a remote worker. Sending a group costs a few milliseconds, and little time
# is lost if a worker dies or the job waits for its last group.
GROUP_S = 2.0
# Maximum number of sub-jobs in a group: enough to hand out 2000 very short ones per second.
GROUP_SUBJOBS_MAX = 100
# Results larger than this are folded with their neighbours on a remote worker before they are sent. This saves network
# traffic and CPU time of a job that receives a hundred results per second, and keeps its ledger small.
FOLD_AFAR_MIN_BYTES = 1 * MB
# Maximum growth factor from one group to the next, since the first sub-jobs may be short by chance.
GROUP_GROWTH = 4
# Number of running or queued groups per worker of a pool. With two groups, all workers stay busy, and clusters that
# scale with the length of the queue start more workers.
GROUPS_PER_SLOT = 2
GROUPS_MIN = 8  # Minimum number of groups that are running or queued in a pool.
# A group is split after the workers running it died this many times; a single sub-job is then tried wagon by wagon.
GROUP_DEATHS_MAX = 2
# Number of workers assumed for an executor that does not report its size.
EXECUTOR_SLOTS = 8
# Maximum size of wagons that are sent to a worker without first asking whether the worker already has them.
PROGRAM_INLINE_BYTES = 256 * KIB
# Maximum size of the source files that are sent to workers. More is probably data.
SHIPPED_MAX_BYTES = 16 * MB
# Fraction of a pool worker's memory that its job process may use; Dask workers have the same default.
POOL_MEMORY_PART = 0.95
# Interval at which a job checks its pool.
POOL_LOOK_INTERVAL_S = 0.25
AGENT_LOOK_INTERVAL_S = 0.25  # Interval at which an agent checks its process.
# Idle time after which a worker process is stopped. A job stops its own processes earlier if it can.
AGENT_IDLE_S = 30.0
# Maximum number of runs whose stop requests an agent process remembers. A worker serves fewer runs concurrently.
AGENT_RUNS_MAX = 1000
# Idle time after which a fork server exits. The fork server of workers uses about 90 MB.
FORK_SERVER_IDLE_S = 900.0
# Timeout for responses of the fork server of workers. They take milliseconds, but loading libraries from a cold network
# disk may take this long.
FORK_SERVER_ANSWER_S = 60.0
# Interval at which a job checks for Ctrl-C while it waits for a fork server.
FORK_SERVER_LOOK_S = 0.2
# Maximum time that a job waits while its pool has no workers, for example because they are queued in a batch system.
NO_WORKERS_S = 24 * 3600.0
# A scheduler that is silent for this long is considered dead. With a thousand workers it may be busy for seconds.
SCHEDULER_SILENT_S = 60.0
SCHEDULER_CONNECT_S = 30.0
SCHEDULER_LOOK_INTERVAL_S = 0.5
# Timeout for fetching a group's result from its worker, which may have to recompute the result.
RESULT_WAIT_S = 600.0
# Timeout for releasing workers, which exit by themselves after AGENT_IDLE_S.
RELEASE_WAIT_S = 5.0
# Maximum number of workers that are asked for their versions before a run. The other workers report their versions with
# their first group.
VERSIONS_ASKED_MAX = 64
VERSIONS_WAIT_S = 10.0  # Timeout for the versions of workers.

# Factor by which the number of entries per chunk is reduced each time a retried sub-job runs out of memory again.
CHUNK_SHRINK = 4
CHUNK_DIVISOR_MAX = 64  # Maximum product of these factors, reached after a few attempts.
# A sub-job that runs out of memory is first retried with unchanged chunks and with the memory limit divided by this.
LEAN_MEMORY_PART = 4
# After this many consecutive failed sub-jobs the job fails, since the cause is probably not the sub-jobs.
SET_ASIDE_IN_A_ROW_MAX = 10
# After this many worker processes died before their first sub-job, the job fails.
WORKER_STARTS_FAILED_MAX = 5

# A host gets no more work after this many different sub-jobs failed on it without a success in between.
NODE_FAILURES_MAX = 3

# Speculative execution: once all sub-jobs are handed out and this fraction is done, a sub-job is started a second time
# if it has taken longer than TAIL_FACTOR times the median, and longer than a process start and a slow open.
TAIL_DONE_PART = 0.75
TAIL_FACTOR = 1.5
TAIL_MIN_S = 10.0
# Before TAIL_DONE_PART of the sub-jobs are done, the median is less certain, so TAIL_FACTOR is multiplied by this. Slow
# sub-jobs are still started a second time, so that a worker that hangs early cannot stall the job.
TAIL_PATIENCE = 6

# A worker that makes no progress and uses no CPU for this long is considered stuck. Reads have shorter timeouts.
# `--worker-timeout` is for the rare wagon that waits longer for something else.
WORKER_TIMEOUT_S = 600
# Read size for which storage timeouts are computed. Chunks rarely read more at a time.
LARGE_READ_BYTES = 256 * MB
# Factor by which WORKER_TIMEOUT_S is multiplied for a worker that uses CPU, which may be in a long step.
WORKER_BUSY_TIMES = 6
# A worker is computing if it uses more than this fraction of a core; threads that only poll use less.
WORKER_BUSY_SHARE = 0.02
# Maximum time counted between two checks of a worker. After a longer gap, the job itself must have been suspended.
WORKER_TICK_MAX_S = 2.0

# Number of files on which `branchline test` runs every wagon: spread over the dataset, to show how the files differ.
FORECAST_FILES = 3
# Maximum number of entries per file in `branchline test`: about a second for most wagons, and enough to see output
# grow.
FORECAST_ENTRIES = 10_000
FORECAST_CHUNKS = 5  # Maximum number of chunks per file in `branchline test`.
# Maximum number of events without a companion entry that are listed individually; their total is always shown.
MISSING_NAMED = 5
# Number of decoded chunks that a worker holds: one in the wagons, one ready, and one being decoded.
CHUNKS_HELD = 3

# Estimated time to draw a histogram; most histograms have one axis.
PICTURE_S = 0.02
RECORDS_S = 0.5  # Estimated time to write the records and the page of a job.

# Maximum number of cells (several hundred MB) of a dense histogram. Larger ones need filled cells or projections.
DENSE_CELLS_MAX = 30_000_000

# Maximum number of trees that an open file caches, so that `file["tree"]` in a loop does not parse a tree again: more
# than an analysis reads from one file. A tree with 1500 branches takes about 10 MB.
TREES_KEPT = 16

# Page size of the kernel's page cache on most machines.
DISK_PAGE_BYTES = 4096

# Time that a process of the control room waits for a locked database, for example during a backup.
DATABASE_WAIT_S = 10.0
# The write-ahead log grows during a long read, such as a backup, and is truncated to this size afterwards.
DATABASE_JOURNAL_MAX_BYTES = 64 * MB
# Maximum number of points of a job's profile, as many as a plot shows. Longer profiles are thinned out.
JOB_POINTS_MAX = 600
# A running job is shown as silent after this time without a report. Jobs report at least every minute.
JOB_SILENT_S = 180.0
# Maximum length of the names of users, sites, storage elements and wagons, which become labels and links.
NAME_LENGTH_MAX = 200
# Maximum length of paths, URLs and commands.
LOCATION_LENGTH_MAX = 4096
# Maximum number of file records in a batch: several MB of JSON. A job splits longer lists into several batches.
BATCH_FILES_MAX = 5000
# Maximum number of remarks, and of failed replicas, per file.
FILE_REMARKS_MAX = 10
# Maximum number of batches per transaction. They share its wait for the disk, so that the database serves 1000 jobs.
BATCHES_TOGETHER_MAX = 50
# Maximum number of pairs of site and storage element in a batch: more than any job reads from in five seconds.
BATCH_SITES_MAX = 5000
# Maximum number of jobs on a page of the job list.
JOBS_PAGE_MAX = 500
FILES_PAGE_MAX = 500  # Maximum number of files on a page of a job's files.
# Maximum number of sources of a job: processes that report, such as batch system tasks. More indicate abuse.
JOB_SOURCES_MAX = 100_000
# Maximum number of rows about files that the database collects before they are written to Parquet. One Parquet file per
# batch would make thousands a day, but reading the database is slower than reading Parquet.
PENDING_ROWS_MAX = 50_000
PENDING_AGE_S = 300.0  # Maximum age of rows about files before they are written to Parquet.
# Number of rows of the history that are compressed, read and sorted together: about 20 MB in memory.
HISTORY_GROUP_ROWS = 65_536
# Number of neighbouring files of a day that are merged into one, in stages: each row is written at most three times.
HISTORY_FILES_JOINED = 10
# Files of a past day that would fit into one file are merged only if there are more than this number. Otherwise the
# day's large file would be rewritten whenever late rows arrive.
HISTORY_FILES_LATE = 4
# Maximum number of rows per file of the history: several hundred MB.
HISTORY_FILE_ROWS_MAX = 4_000_000
# Maximum number of threads that read the history for one page; the threads wait for the disk and decompress.
HISTORY_THREADS_MAX = 4
# Days for which rows about files are kept. Aggregates are kept forever.
HISTORY_DAYS = 90
JOBS_DAYS = 400  # Days for which jobs are kept.
HISTORY_MAX_BYTES = 50 * 1000 * MB  # Maximum size of the history.
# Maximum retention. More than a century is probably a mistake in the settings.
RETENTION_DAYS_MAX = 36_500
# Interval of background maintenance.
UPKEEP_PAUSE_S = 10.0
FORGETTING_PAUSE_S = 3600.0  # Interval at which expired data is deleted.
# Maximum number of jobs deleted in one transaction, during which other writers wait.
JOBS_FORGOTTEN_TOGETHER = 200
# Shutdown timeout for background work, which stops after the current group of rows.
UPKEEP_END_S = 30.0
# Maximum length of a wagon parameter's value as JSON.
PARAMETER_LENGTH_MAX = 10_000
# Maximum size of a wagon file. Parsing blocks the server, for half a second at this size.
WAGON_SOURCE_MAX_BYTES = 400_000
WAGON_CLASSES_MAX = 200  # Maximum number of wagons in a file.
# Maximum number of classes in a wagon file, and of statements and parameters of a wagon. A wagon may have 20 times as
# many branches.
SOURCE_PARTS_MAX = 1000
# Maximum number of wagon files whose list of wagons is cached.
SOURCES_REMEMBERED_MAX = 500
# Maximum number of wagons that a wagon requires directly.
REQUIRED_WAGONS_MAX = 50
# Maximum number of lines of a registered dataset. Longer lists belong in a file.
DATASET_LINES_MAX = 10_000
DESCRIPTION_LENGTH_MAX = 4000
# Maximum number of lines of source code that are compared, and of the diff that is shown.
DIFFERENCE_LINES_MAX = 2000

# Maximum size of a request. The largest are batches of jobs and wagon files.
REQUEST_MAX_BYTES = 8 * MIB
REPORT_PLAIN_MAX_BYTES = 64 * MIB  # Maximum size of a batch after decompression.
# Timeout for the head of a request, which is one packet.
REQUEST_HEAD_S = 10.0
REQUEST_BODY_S = 60.0  # Timeout for the body of a request, which takes seconds over a slow line.
# Maximum total size of the request bodies in flight: 200 jobs that report at once and a few wagon files.
REQUESTS_MAX_BYTES = 256 * MIB
# Maximum number of batches that are parsed concurrently. The database accepts one at a time, and a decompressed batch
# takes up to 64 MiB.
REPORTS_AT_ONCE = 4
# Time for which a batch is queued before its job is asked to retry.
REPORT_WAIT_S = 20.0
RETRY_AFTER_S = 10  # Value of the Retry-After header.
# Minimum interval between updates of live pages.
LIVE_INTERVAL_S = 1.0
# Maximum age of a live page, even without new reports. Some content depends on the time and changes by the minute.
LIVE_AGE_MAX_S = 60.0
LIVE_HEARTBEAT_S = 15.0  # Interval of comments that keep the connection of a live page alive.
LIVE_KNOWN_S = 5.0  # Interval at which viewers of live pages are authorized again.
# Maximum number of pages that are rendered concurrently.
PAGES_AT_ONCE = 4
PAGES_KEPT_MAX = 200  # Maximum number of pages that are cached; enough for dozens of viewers.
# Maximum number of open live pages. Each costs a few kB and a wake-up per second.
LIVE_VIEWERS_MAX = 1000
LIVE_VIEWERS_OF_PERSON_MAX = 200  # Maximum number of open live pages per person.
# Maximum number of log lines about invalid requests and server errors, per interval; and the interval.
LOG_LINES_MAX, LOG_SPAN_S = 20, 60.0
# Maximum number of distinct background errors that are printed, and the maximum length of each traceback.
FAULTS_PRINTED_MAX, FAULT_TEXT_MAX = 100, 20_000
# Shutdown timeout for requests in progress.
SERVER_END_S = 2.0
# Maximum number of bars or lines in a plot of storage elements over time.
ELEMENTS_DRAWN_MAX = 8
# Maximum number of steps of a line in a plot of storage elements over time: a week by the hour.
PICTURE_BINS_MAX = 170

# Maximum number of wagons of a train in the control room.
TRAIN_WAGONS_MAX = 200
TRAIN_LOOK_S = 1.0  # Polling interval for local trains.
TRAIN_SUBMITTED_LOOK_S = 10.0  # Polling interval for submitted trains.
TRAIN_SECONDS_APPROVED = 86_400.0  # Time above which an operator has to approve a train.
TRAIN_MEMORY_APPROVED_BYTES = 64 * GB  # Memory above which an operator has to approve a train.

# Maximum number of plans of trains.
PLANS_MAX = 200
PLAN_LOOK_S = 10.0  # Polling interval for due plans.
PLAN_LATE_MAX_S = 4 * 3600.0  # Maximum delay of a train that was due while the server was down.
PLAN_HOURS_MAX = 24 * 366  # Maximum time limit in a plan.
# Maximum number of cached trial forecasts, more than there are pairs of wagon and dataset.
PLAN_NEEDS_KEPT_MAX = 50_000
PLAN_MEMORY_MAX_BYTES = 2**50  # Maximum memory limit in a plan.

# Maximum duration of a measure, a corrective action that jobs obey.
MEASURE_HOURS_MAX = 168
MEASURE_HOURS = 8  # Default duration of a measure: one shift.
MEASURE_SECONDS_MAX = MEASURE_HOURS_MAX * 3600.0
# Maximum number of active measures. Every response to a report contains all of them, and its size is limited.
MEASURES_IN_FORCE_MAX = 30
# Maximum number of measures in a job's record: enough for weeks, and a bound against faulty servers.
MEASURES_RECORDED_MAX = 1000
# Maximum lengths in a measure of the control room: of the site and the storage element, and of the reason.
MEASURE_TEXT_MAX, MEASURE_WHY_MAX = 200, 1000
# Reads during a measure are compared with the reads in this many hours before the measure.
MEASURE_BEFORE_HOURS = 24

# Comparison of two trains' results: maximum number of bytes read from differing files, in total and per file, such that
# a page takes about a second and a bounded amount of memory.
COMPARED_BYTES_MAX, COMPARED_FILE_MAX_BYTES = 256 * MIB, 32 * MIB
# Maximum number of differing values shown per file, of plots per page, and of steps per line in a plot.
COMPARED_VALUES_SHOWN_MAX, COMPARED_PICTURES_MAX, COMPARED_BINS_DRAWN_MAX = 50, 20, 250
# Comparison of two trains' tables: number of rows read at a time, their maximum memory, and a page's time limit.
COMPARED_TABLE_ROWS, COMPARED_TABLE_MEMORY_BYTES, COMPARED_TABLE_S = 50_000, 256 * MIB, 10.0
# Maximum number of cutflows that `branchline run` prints. There is one for each sample and variation.
CUTFLOWS_PRINTED_MAX = 6
# Maximum size of job records and state files, since users' code could replace them by files of any size.
JOB_FILE_MAX_BYTES = 256 * MIB
# Comparison of two commands: maximum number of rounds, and of failed rounds.
COMPARED_ROUNDS_MAX, COMPARED_LOST_MAX = 500, 3

# Maximum wall time of a trial. Trials take seconds; code that runs for minutes on a sample is faulty.
TRIAL_WALL_S = 600.0
# Maximum number of wagons in one trial. Each wagon starts a process, which takes a second or more.
TRAIN_TRIAL_WAGONS_MAX = 40
TRIAL_CPU_S = 1200  # Maximum CPU time of a process of a trial.
# Maximum address space of each process of a trial, several times what typical wagons need.
TRIAL_MEMORY_MAX_BYTES = 16 * GIB
# Maximum number of processes and threads of the user that runs trials.
TRIAL_TASKS_MAX = 2000
# Maximum size of each file that a trial writes.
TRIAL_FILE_MAX_BYTES = GIB
# Wagon sources in git: timeout per step, and maximum number of concurrent fetches.
GIT_WAIT_S, GIT_AT_ONCE = 60.0, 2
GIT_FILE_MAX_BYTES, GIT_DISK_BYTES = MIB, 256 * MIB  # Maximum size of a wagon file, and of a fetch.
FILES_PARSED_KEPT = 256  # Maximum number of cached imports of source files, for the next train of this process.
PATHS_KEPT = 4096  # Maximum number of cached module paths, with whether they belong to installed packages.
PROVENANCE_GIT_S = 5.0  # Timeout for git when the code of a train is recorded.
# Maximum total size of temporary files in a trial's sandbox, which are in memory.
TRIAL_SPACE_BYTES = GIB
TRIAL_WATCH_S = 0.5  # Interval at which the processes of a trial are checked.
# Number of bytes that are kept from the end of the output of a trial's process.
TRIAL_LOG_MAX_BYTES = 20_000
# Maximum size of a trial's outcome, mostly tracebacks and branch names.
TRIAL_OUTCOME_MAX_BYTES = 5_000_000
# Maximum length of a finding about a wagon on the pages of its trains.
TRIAL_NOTE_MAX = 1000
# Pause before the next trial after a disk error.
TRIAL_PAUSE_S = 5.0
SANDBOX_PROBE_S = 10.0
# Thresholds above which a trial warns. A worker of a batch system has 2 GB.
TRIAL_MEMORY_LARGE_BYTES = GB
TRIAL_OUTPUT_LARGE_BYTES = 200 * MB
TRIAL_FIRST_CHUNK_LONG_S = 30.0
TRIAL_SLOW_OF_READING = 20.0
# Warnings about a wagon's speed require this wall time in the trial. Shorter times depend mainly on other load.
TRIAL_TIME_TELLING_S = 1.0
# Minimum CPU time of a wagon in a trial for its CPU time per event to be used. Other load hardly affects CPU times.
TRIAL_CPU_TELLING_S = 0.05
TRIAL_WAITING_SHARE = 0.5
TRIAL_BRANCHES_MANY = 300


def memory_limit_bytes(limit: str | int) -> int:
    """Return the memory limit of a train in bytes. Raises MemoryLimitError if it is too small."""
    size_bytes = parse_bytes(limit)
    if size_bytes < MEMORY_LIMIT_MIN_BYTES:
        raise MemoryLimitError(
            f"nothing can be read within a memory limit of {limit}",
            hint=f"give {MEMORY_LIMIT_MIN_BYTES // MIB} MiB or more, better 1 GiB",
        )
    return size_bytes


# Findings of the control room: maximum number of latest jobs considered, and of sites or storage elements in the
# two-way table.
FINDINGS_JOBS_MAX, FINDINGS_PLACES_MAX = 50_000, 50
# Minimum number of jobs in a cell of the two-way table, and of similar cells to compare a cell with.
FINDINGS_CELL_JOBS_MIN, FINDINGS_PEERS_MIN = 3, 3
# Number of random variations of the two-way table for computing confidence intervals.
FINDINGS_DRAWS = 100
# Accepted false discovery rate, for each kind of finding separately.
FINDINGS_FALSE_RATE = 0.02
# Slowdowns below this factor are not reported.
FINDINGS_SLOW_TIMES = 1.5
# Minimum share of the workers' time that reading from other sites must cost to be reported.
FINDINGS_LOST_SHARE = 0.1
# Failures at one site or storage element compared with others: minimum number to be reported.
FINDINGS_FAILED_MIN = 3
FINDINGS_FAILED_TIMES = 3.0  # Minimum ratio to be reported.
FINDINGS_USUAL_FAILURES = 0.002  # Normal failure rate.
# A finding is reported if the bytes read exceed the bytes needed by at least this factor and this difference. Coalesced
# ranges always include some unneeded bytes.
LARGE_READS_TIMES, LARGE_READS_WASTE_BYTES = 1.5, GB
# Thresholds of the finding about round trips: reads that are small, slow, and take most of the time.
ROUND_TRIPS_SMALL_BYTES = 256 * KIB
ROUND_TRIP_SLOW_S = 0.005
ROUND_TRIPS_TIME_SHARE = 0.5
# Finding about long tails (times at the end of a job when few of its processes still work): minimum number of processes
# of the job, minimum duration of the tail, minimum share of the job's time, and maximum number of tails reported.
TAIL_PROCESSES_MIN, TAIL_LONG_S, TAIL_LONG_SHARE, TAILS_TOLD_MAX = 4, 60.0, 0.2, 5
# Minimum ratio of a wagon's CPU time in runs to its CPU time in the trial, for a finding to be reported.
FORECAST_MISSED_TIMES = 1.5
WAGON_EVENTS_TELLING = 10_000  # Minimum number of events in a run for a finding about CPU time.
FINDINGS_RUNS_MAX = 100_000
# Minimum interval between searches for findings if anything changed.
FINDINGS_PAUSE_S = 20.0
FINDINGS_TIME_SHARE = 0.05  # Maximum share of time spent on searches for findings.
# Maximum number of cells (site, storage element, distance) with time series at /metrics. Each cell has five series.
METRICS_CELLS_MAX = 1000

# Minimum and maximum length of a password in a shared control room.
PASSWORD_CHARACTERS_MIN, PASSWORD_CHARACTERS_MAX = 10, 200
GROUPS_OF_PERSON_MAX = 50
# Lifetime of a browser session.
SESSION_DAYS = 7
SESSIONS_OF_PERSON_MAX = 20  # Maximum number of sessions per person. The oldest ones end.
TOKENS_OF_PERSON_MAX = 50
TOKEN_DAYS_MAX = 400
# Resolution of the recorded time of a token's last use.
USED_NOTED_S = 300.0
# Limits of logins: wrong passwords per name and per address, and the time within which they are counted.
LOGIN_TRIES_MAX, LOGIN_TRIES_S = 10, 900.0
LOGINS_AT_ONCE, LOGIN_MAX_BYTES = 2, 64 * KIB  # Concurrent password checks (32 MB each), size of a login.
LOGIN_PLACES_MAX = 10_000  # Maximum number of names or addresses that are counted separately.
# Maximum number of requests per minute and person. A job reports 12 times a minute.
REQUESTS_PER_MINUTE_MAX = 30_000
# Lifetime of a session authenticated by an OpenID Connect provider: shorter, since roles are updated at login.
OUTSIDER_SESSION_HOURS = 24
# Timeouts for a login at an OpenID Connect provider and for the provider's responses.
OPENID_LOGIN_S, OPENID_WAIT_S = 600.0, 10.0
OPENID_ANSWER_MAX_BYTES, OPENID_FILE_MAX_BYTES = MIB, 2**16  # Maximum size of a response, and of a file of settings.
# Cache lifetime of an OpenID Connect provider's metadata, and the minimum interval between fetches of its keys.
OPENID_DISCOVERY_S, OPENID_KEYS_AGAIN_S = 3600.0, 60.0
OPENID_KEYS_MAX, OPENID_GROUPS_MAX = 100, 10_000
# Tolerated clock skew between the control room and the OpenID Connect provider.
OPENID_CLOCKS_S = 60.0
# Maximum number of failed logins within LOGIN_TRIES_S from an address, which many people may share; and of logins in
# progress.
OPENID_TRIES_MAX, OPENID_AT_ONCE = 100, 8
# Time within which a new secret can be shown, once.
SECRET_SHOWN_S = 120.0

# Sampling interval of wagon profiles.
PROFILE_INTERVAL_S = 0.005
PROFILE_DEPTH_MAX, PROFILE_STACKS_MAX = 60, 300  # Maximum number of frames per stack, and of stacks.
# Maximum number of lines of a profile on the page of a trial.
PROFILE_LINES_SHOWN = 12
