"""Every size, count and wait of trains and jobs that somebody had to choose, each with its reason."""

from __future__ import annotations

from branchline.base.quantities import SIZE_BYTES_END as SIZE_BYTES_END
from branchline.base.quantities import parse_bytes as parse_bytes
from branchline.errors import MemoryLimitError

MB = 10**6

# A job is cut so that 256 sub-jobs share its bytes: enough for an even load on some tens of workers to the very end,
# few enough that handing them out and adding up their results costs nothing.
SUBJOBS_WANTED = 256
# After this many sub-jobs, on the average, one begins at a file that is chosen by its name: an added file then moves
# the cuts of about four sub-jobs, and there are an eighth more sub-jobs than full ones.
SUBJOBS_BETWEEN_FIXED_CUTS = 4
# Where files of several storage elements are mixed in a dataset, its order is kept up to this many times as many
# sub-jobs as there would be with the files of each element together.
SHARES_BY_ELEMENT_MAX = 2
# Below 4 MB of compressed data the fixed costs of a sub-job (threads, a message, an addition) begin to show. Parts of
# a file have so many times that: awkward takes 20 ms for each chunk and variation of a wagon, few events or many.
SUBJOB_MIN_BYTES, PARTS_OF_MIN = 4 * MB, 2
# A part of a file need not have more entries: a wagon that takes 0.1 ms for an event needs 25 s for them.
SUBJOB_MIN_ENTRIES_MAX = 250_000
# Above 256 MB a sub-job takes many seconds, and so does what is lost when the last one is still running.
SUBJOB_MAX_BYTES = 256 * MB
# This many a worker reads as one where files are far away: small files of some tens of MB, which fill a link between
# continents, and few enough that no worker waits for another one at the end.
SUBJOBS_PER_STREAM_MAX = 16
# Files so small that thousands make a sub-job would leave it with thousands of records to carry.
SUBJOB_MAX_FILES = 256
# Files at servers, whose size is not known before they are opened, come several to a sub-job, which opens the next
# while one is read. They may be large, so that many workers have something to do comes first: this many there are
# before any has two of them,
SUBJOBS_OF_UNKNOWN_SIZE_WANTED = 64
# and none has more than this many.
SUBJOB_MAX_FILES_OF_UNKNOWN_SIZE = 16
# This many neighbouring results are folded into one: four stages do for 160 000 sub-jobs, a worker holds twenty results
# at most, and a stage on a farm reads each result once more than adding in place would. Another number gives sums of
# floating-point numbers that differ in their last bits.
FOLD_FAN_IN = 20

# Results that this many runs into a directory did not use are removed from its ledger: one changes a cut back and forth
# a few times, and the file must not grow for ever.
LEDGER_RUNS_KEPT = 5
# SQLite takes 10^9 bytes in a row; what is larger takes longer to write and read than most sub-jobs to run.
LEDGER_ROW_MAX_BYTES = 900 * MB

# Values of a tree that is written into another file, a step at a time: a few clusters for all cores to compress.
STREAMED_STEP = "32 MiB"
# Names that braces in one path stand for: each pair multiplies them, and more are a mistake.
BRACE_NAMES_MAX = 100_000
# Folders at servers that a pattern looks into: more means a mistake, or a link that leads back.
FOLDERS_LISTED_MAX = 10_000
# At a time: most of a listing is waiting.
FOLDERS_LISTED_TOGETHER = 16
# Files at servers whose size is in no listing are queried one by one, up to this many: over 30 ms it takes 15 s.
SIZES_QUERIED_MAX = 10_000
# At a time: as many as there are connections of a process to one server.
SIZES_QUERIED_TOGETHER = 64

# How soon a worker notices that its job was killed.
JOB_WATCH_PAUSE_S = 0.5

# After this many bytes a merge brings what it has written to the disk, and records in its journal how far it is: what a
# kill can cost, beside an input. The disk takes a second for it.
MERGE_JOURNAL_BYTES = 256 * 2**20
# The clusters of a table that a wagon returns, compressed: a worker holds one of each table, and readers want some MB
# of each column at a time.
TABLE_CLUSTER_BYTES = 16 * 2**20
# This many pieces of a table are merged at a time. The last merge writes all bytes through one process anyway, and each
# stage before it copies them once more: 400 makes one stage of the sub-jobs of most trains, and two of 160 000, where a
# merge holds the metadata of what it merges. It is a power of FOLD_FAN_IN, so that the stages are those of folding.
TABLE_FOLD_STAGES = 2
TABLE_FAN_IN = FOLD_FAN_IN**TABLE_FOLD_STAGES
# How often a piece of a table or a merge of pieces is tried again whose worker ended.
TABLE_MERGE_ATTEMPTS_MAX = 3

# A command of a batch system that does not answer for this long is stuck: busy controllers take some ten seconds.
BATCH_CALL_TIMEOUT_S = 120.0
# As many tasks as a train has by itself: more make a controller slow, and what each reads is short.
BATCH_TASKS_WANTED_MAX = 1000
# And as many as somebody may ask for: Slurm's MaxJobCount is 10 000 unless a site sets another one.
BATCH_TASKS_MAX = 10_000
# Slurm's MaxArraySize unless a site sets another one.
SLURM_ARRAY_TASKS = 1001
# A task has so much to read, some ten seconds, beside the two or three that its start takes.
BATCH_TASK_BYTES = 1000 * MB
# Parts that the last job of a train folds by itself; where there are more, jobs before it fold neighbours.
BATCH_FINAL_PARTS_MAX = FOLD_FAN_IN**2
# A task marks what it works on so often, and is taken for dead by others after the second time: file systems that are
# shared show a change of another node up to a minute late.
LEASE_INTERVAL_S = 15.0
LEASE_STALE_S = 120.0
# A lease that its holder releases while another task takes it is tried again so often.
LEASE_TRIES_MAX = 5
# How often somebody who waits for submitted jobs looks.
BATCH_LOOK_INTERVAL_S = 1.0
# How often the last job of a submitted train sends again what is missing: for a node that died, and for less memory.
BATCH_RETRIES = 2
# A task that died of memory requests so much more when it is sent again, and in all so much more than at first unless
# the site says another bound: both retries may double it.
BATCH_MEMORY_GROWTH = 2
BATCH_MEMORY_GROWTH_MAX = 4
# A task that gets no result of the first of a unit's sub-jobs gives up the unit: it is not for some of its files.
UNIT_FIRST_FAILURES_MAX = 3
# How often a run writes its state for `branchline status`: a look at it is of now, and writing costs nothing.
STATUS_INTERVAL_S = 1.0
# How often it does where nothing has changed.
STATUS_HEARTBEAT_S = 15.0
# The process of a state that is so old stands still, or is gone: it writes much more often.
STATUS_OLD_S = 60.0
# A job reports to a control room so often, if anything changed: 1000 jobs make 200 requests a second.
REPORT_INTERVAL_S = 5.0
# How often it does where nothing has changed, and keeps its state on disk while the server is away.
REPORT_HEARTBEAT_S = 60.0
# The fastest level of zlib: a report of 5000 files is a tenth of its size after some ten ms.
REPORT_ZLIB_LEVEL = 1
# A server answers after some ms, or when a report had its turn among many. One that takes longer is away.
REPORT_ANSWER_S = 30.0
# What is read of an answer, which is a line of JSON.
REPORT_ANSWER_BYTES = 64 * 1024
# At its end a job waits so long for the server; what is not sent by then is sent later. Where the server was away
# before, it waits only to see whether it is back.
REPORT_END_S = 5.0
REPORT_END_AWAY_S = 1.0
# Pauses after a failure are twice as long each time, from the interval up to this: 1000 jobs then ask a server that
# comes back 17 times a second.
REPORT_PAUSE_MAX_S = 60.0
# A server may ask for a longer pause, but not to be left alone for hours.
REPORT_RETRY_AFTER_MAX_S = 300.0
# So many reports in a row that the server fails at (status 500) are of the server; one or two may be of the reports.
REPORT_FAILURES_IN_A_ROW = 3
# Reports that wait on the disk of a user, or in a train's directory: those of some 1000 hours of jobs, and less than
# what home directories have left.
SPOOL_MAX_BYTES = 256 * 2**20
# Room in it for the last reports of jobs, which say how they ended.
SPOOL_LAST_BYTES = 16 * 2**20
# How often the size of the spool is looked up while it grows: other jobs write there, too.
SPOOL_LOOK_INTERVAL_S = 60.0
# Reports that the disk does not take are held in memory up to this.
SPOOL_MEMORY_BYTES = 16 * 2**20
# Reports that a server refused are kept for those who look for the reason, the latest ones.
SPOOL_REFUSED_MAX = 100
# Where a file system has no locks, a spool that nobody wrote to for so long is that of a job that is gone.
SPOOL_QUIET_S = 3600.0
# A token has some hundred characters, those of the grid some thousand.
REPORT_TOKEN_MAX_BYTES = 16 * 1024
# What a report shows of the log of a sub-job that failed: enough for tracebacks, and a page stays small.
FAILED_LOG_BYTES = 16_384
# A task waits this long for a directory of results that is gone, as while a file system is mounted again.
OUT_GONE_WAIT_S = 120.0
OUT_GONE_INTERVAL_S = 1.0
# What is read of the end of a task's log to find out why it died.
LOG_TAIL_BYTES = 8192

# What a train learns its branches on: large enough that every column that is used is touched, small enough that the
# other workers, which wait for the outcome, do not notice.
LEARN_ENTRIES = 1000
# Seconds in which a proof of advice reads before and after in pairs: six pairs of jobs of some seconds.
PROOF_S = 180.0
# With bad files skipped, a branch is taken for a mistake if none of this many files has it: few enough to open at once.
LOOK_FILES = 5
STEP_BYTES = 100 * MB  # Default size of a chunk of a train after decompression.
# A branch of no bytes, or an estimate gone wrong, must not ask for a chunk of any number of entries.
STEP_MAX_ENTRIES = 50_000_000
# Less than this does not hold the few baskets that a chunk is made of at the least, each of which may have some MB.
MEMORY_LIMIT_MIN_BYTES = 16 * 2**20
# What a process with wagons keeps of freed memory, and the blocks below this size that it takes from there: the largest
# that the C library of GNU comes to by itself.
FREED_MEMORY_KEPT_BYTES, LARGE_BLOCK_BYTES = 64 * 2**20, 32 * 2**20
# Compiled code that a job did not remove is deleted after this time, which few jobs take.
COMPILED_CODE_KEPT_S = 7 * 86_400.0
# A chunk of a train may take this part of the memory limit: two streams live side by side, each with some chunks in the
# making, and a chunk takes about twice its plain bytes.
CHUNK_MEMORY_SHARE = 16
# The same of Parquet, decoded twice; bytes fetched at a time; entries at a time of texts that may all be one long one.
PARQUET_CHUNK_PART, PARQUET_PIECE_BYTES, PARQUET_TEXTS_MIN, PARQUET_TEXTS_MAX = 4, 2**20, 1024, 65_536
# A worker reports its progress so often: the terminal is redrawn at this pace, and more would cost CPU time.
PROGRESS_INTERVAL_S = 0.2
# Points of the timeline in job.json: one a second for a job of an hour, and never more than this.
TIMELINE_MAX_POINTS = 3600
# After Ctrl-C workers have this long to leave the chunk they are in and hand over what they have.
STOP_GRACE_S = 10.0
# How often the job looks whether that time is over.
STOP_CHECK_INTERVAL_S = 0.5
# A worker that does not end when it should is killed after this.
KILL_GRACE_S = 2.0

# A redirector that does not know a file yet asks its servers for some seconds.
LOCATE_WAIT_S = 60.0
# Where NameNodes of Hadoop 3 answer by HTTP, without and with TLS.
HDFS_WEB_PORT, HDFS_WEB_TLS_PORT = 9870, 9871
# A list of blocks: half a kilobyte for each, as of a file of 4 TB.
HDFS_BLOCKS_MAX_BYTES = 16 * 2**20
# Machines that a list names for a file: blocks have three copies, and machines with little of it are no help.
HOSTS_OF_FILE_MAX = 3
# A server that is there accepts a connection sooner, also over a link that loses packets.
CONNECT_WAIT_S = 15.0
# Round trips that are expected where none was measured: to a server on the worker's machine, at its site, elsewhere.
HOST_ROUND_TRIP_S = 0.0001
SITE_ROUND_TRIP_S = 0.001
WAN_ROUND_TRIP_S = 0.05
# Up to this a storage element is near: sites are that large, and reading hides it.
NEAR_ROUND_TRIP_S = 0.003
# Workers without near work wait this long, about a group of sub-jobs, before they take what is near to others.
FAR_WORK_WAIT_S = 3.0
# Round trips that a sub-job carries to its worker, the shortest ones.
ROUND_TRIPS_SENT_MAX = 64

# A group of sub-jobs is about this long on a far worker: handing it out costs some milliseconds, and what is lost with
# a worker, or waited for at the end, stays small.
GROUP_S = 2.0
# Of sub-jobs that take no time a group has this many, so that 2000 of them a second are handed out.
GROUP_SUBJOBS_MAX = 100
# Results larger than this a far worker folds with those of their neighbours before they travel: a job that takes in a
# hundred a second has a network and a processor left, and its ledger stays small.
FOLD_AFAR_MIN_BYTES = 1 * MB
# A group has at most this many times as many sub-jobs as those before it: the first sub-jobs may be short by chance.
GROUP_GROWTH = 4
# Groups that are at work or wait at a pool: two for each worker, so that none has nothing to do, and enough for a
# cluster that starts workers when work waits.
GROUPS_PER_SLOT = 2
GROUPS_MIN = 8
# A group whose workers ended so often is split; a sub-job alone of which this is so is tried wagon by wagon.
GROUP_DEATHS_MAX = 2
# An executor that does not say how many workers it has is taken to have this many.
EXECUTOR_SLOTS = 8
# Wagons larger than this go to a worker when it says that it does not have them.
PROGRAM_INLINE_BYTES = 256 * 1024
# Files of wagons that travel to workers; more is data, which is not for this.
SHIPPED_MAX_BYTES = 16 * MB
# Of the memory of a worker of a pool the process that works for it may take this part, as Dask's own workers may.
POOL_MEMORY_PART = 0.95
# How often a job looks at its pool, and an agent at its process.
POOL_LOOK_INTERVAL_S = 0.25
AGENT_LOOK_INTERVAL_S = 0.25
# A worker process that has nothing to do for this long is ended; a job ends those of its own earlier, where it can.
AGENT_IDLE_S = 30.0
# Runs of which an agent's process remembers that they were stopped or have ended: more than a worker serves at once.
AGENT_RUNS_MAX = 1000
# The process from which workers are forked ends when no train has asked for one for this long. It holds some 90 MB.
STARTER_IDLE_S = 900.0
# It answers in milliseconds once the libraries are loaded, which a cold network disk may take this long for.
STARTER_ANSWER_S = 60.0
# How soon a job that waits for it notices Ctrl-C.
STARTER_LOOK_S = 0.2
# The queue of a batch system may be this long; after that nobody waits for the job any more.
NO_WORKERS_S = 24 * 3600.0
# A scheduler that does not answer for this long is gone; one with a thousand workers may be busy for some seconds.
SCHEDULER_SILENT_S = 60.0
SCHEDULER_CONNECT_S = 30.0
SCHEDULER_LOOK_INTERVAL_S = 0.5
# The result of a group comes over the network from the worker that has it; it may have to be computed again.
RESULT_WAIT_S = 600.0
# Letting go of workers may take this long; they end by themselves after AGENT_IDLE_S.
RELEASE_WAIT_S = 5.0
# This many workers are asked for their versions before a run, for this long; all others say it with their first group.
VERSIONS_ASKED_MAX = 64
VERSIONS_WAIT_S = 10.0

# A sub-job that ran out of memory has chunks of a quarter of the entries then, and so on to this part: four more
# attempts reach from some GB to what single events take.
CHUNK_SHRINK = 4
CHUNK_DIVISOR_MAX = 64
# One that ran out of memory reads with this part of the limit at first, which takes chunks as they are.
LEAN_MEMORY_PART = 4
# This many sub-jobs set aside with none finished in between: it is not they that are bad, and the job ends.
SET_ASIDE_IN_A_ROW_MAX = 10
# This many worker processes that died before they began a sub-job: those to come will, too.
WORKER_STARTS_FAILED_MAX = 5

# A machine on which this many different sub-jobs failed, with none finished in between, gets no more.
NODE_FAILURES_MAX = 3

# When nothing is left to hand out, and this many are done, a sub-job that takes longer than this many times the median,
# and than it takes to start a process and to open a file anew, is run a second time.
TAIL_DONE_PART = 0.75
TAIL_FACTOR = 1.5
TAIL_MIN_S = 10.0
# Where fewer are done the median says less: a sub-job has this many times as long. Without any such limit a small job
# waits for one worker that stands still.
TAIL_PATIENCE = 6

# A worker that comes no step further and does not compute for this long is taken for stuck. Reading ends earlier by its
# own deadlines, and a wagon that waits for something else for ten minutes is rare; `--worker-timeout` is for it.
WORKER_TIMEOUT_S = 600
# What a chunk reads at a time has seldom more bytes; its storage's deadlines are for this many.
LARGE_READ_BYTES = 256 * MB
# One that computes may be at a long step: it has this many times as long.
WORKER_BUSY_TIMES = 6
# It computes if it takes more of a core than this; threads that only look at a clock take less.
WORKER_BUSY_SHARE = 0.02
# Between two looks at a worker no more than this counts: the job itself did not run if it was longer.
WORKER_TICK_MAX_S = 2.0

# `branchline test` tries every wagon on files spread over the dataset: enough to see that they differ.
FORECAST_FILES = 3
# Of each file, this many entries in this many chunks: a second or so for most wagons, and growth of the output shows.
FORECAST_ENTRIES = 10_000
FORECAST_CHUNKS = 5
# Of the events that have nothing in a companion this many are named; their number is always given.
MISSING_NAMED = 5
# Decoded chunks that a worker holds at a time: the one with the wagons, one ready, one being decoded.
CHUNKS_HELD = 3

# Drawing takes about this long for each histogram, most of which have one axis, and so does writing records and page.
PICTURE_S = 0.02
RECORDS_S = 0.5

# A histogram of many dimensions is made whole up to this many cells, some hundred MB; above it only its filled cells,
# or some of its axes, are good for anything.
DENSE_CELLS_MAX = 30_000_000

# Trees that an open file keeps, so that `file["tree"]` in a loop parses nothing again: more than an analysis reads of
# one file, and with 1500 branches each some 10 MB.
TREES_KEPT = 16

# What the kernel reads of a disk and keeps of it at a time, on most machines.
DISK_PAGE_BYTES = 4096

# The control room.
# A process waits so long for the database that another one writes: a backup, or a person with a shell.
DATABASE_WAIT_S = 10.0
# The write-ahead log of the database is cut to this when it was longer: a long read, as of a backup, makes it grow.
DATABASE_JOURNAL_MAX_BYTES = 64 * MB
# Points of the profile of a job that are kept: as many as a picture shows; a longer one has every second one.
JOB_POINTS_MAX = 600
# A running job that has sent nothing for so long is shown as silent: it sends at least every minute.
JOB_SILENT_S = 180.0
# Names of users, sites, storage elements, wagons: longer ones are cut, as they become labels and links.
NAME_LENGTH_MAX = 200
# Paths, URLs, commands.
LOCATION_LENGTH_MAX = 4096
# File records in a batch: some MB of JSON. A job sends more of them in several batches.
BATCH_FILES_MAX = 5000
# Remarks, and failed replicas, of a file.
FILE_REMARKS_MAX = 10
# Batches that are on the disk together: where a thousand jobs report, each is to wait for the disk once.
BATCHES_TOGETHER_MAX = 50
# Sites by storage elements in a batch: more than any job reads from in five seconds.
BATCH_SITES_MAX = 5000
# Jobs on a page of the list, and files on one of a job.
JOBS_PAGE_MAX = 500
FILES_PAGE_MAX = 500
# Sources (processes that send) of a job, as tasks of a batch system: above it somebody plays games.
JOB_SOURCES_MAX = 100_000
# Rows of files wait in the database until there are so many, or the first of them is so old: a file for each batch
# would make thousands a day, and what waits is read slower than Parquet.
PENDING_ROWS_MAX = 50_000
PENDING_AGE_S = 300.0
# Rows of the history that are compressed, read and sorted together: some 20 MB in memory.
HISTORY_GROUP_ROWS = 65_536
# This many neighbouring files of a day are joined into one, in stages, so that a row is written three times at most.
HISTORY_FILES_JOINED = 10
# A day that is over has up to so many files that could be one: rows that come late must not rewrite it each time.
HISTORY_FILES_LATE = 4
# Rows of a file: some hundred MB.
HISTORY_FILE_ROWS_MAX = 4_000_000
# Threads that read the history for one page: they wait for the disk, and decompress.
HISTORY_THREADS_MAX = 4
# How long rows of files, and jobs, are kept, and how large the history may grow. Sums stay.
HISTORY_DAYS = 90
JOBS_DAYS = 400
HISTORY_MAX_BYTES = 50 * 1000 * MB
# No policy keeps anything longer than a century: more is a mistake in a setting.
RETENTION_DAYS_MAX = 36_500
# How often the control room looks for something to do, and how often it forgets what is too old.
UPKEEP_PAUSE_S = 10.0
FORGETTING_PAUSE_S = 3600.0
# Jobs that are forgotten in one transaction: other writers wait for it.
JOBS_FORGOTTEN_TOGETHER = 200
# At the end the control room waits so long for what it does in the background, which stops within one group of rows.
UPKEEP_END_S = 30.0
# Values of a wagon's parameters, as JSON.
PARAMETER_LENGTH_MAX = 10_000
# A file of wagons, and the wagons in it. The server stands still while it parses one: half a second for so much.
WAGON_SOURCE_MAX_BYTES = 400_000
WAGON_CLASSES_MAX = 200
# Classes of such a file, and statements and parameters of a wagon; its names of branches are up to 20 times as many.
SOURCE_PARTS_MAX = 1000
# Files of which it is remembered what wagons they have.
SOURCES_REMEMBERED_MAX = 500
# Wagons that one requires directly.
REQUIRED_WAGONS_MAX = 50
# Lines of a registered dataset; a longer one is a list in a file.
DATASET_LINES_MAX = 10_000
DESCRIPTION_LENGTH_MAX = 4000
# Lines of a difference of two sources that a page shows, and in which it is looked for what stayed.
DIFFERENCE_LINES_MAX = 2000

# Requests to the server: the largest are batches of jobs and files of wagons.
REQUEST_MAX_BYTES = 8 * 2**20
REPORT_PLAIN_MAX_BYTES = 64 * 2**20
# The head of a request is one packet, and its body takes seconds over the slowest line.
REQUEST_HEAD_S = 10.0
REQUEST_BODY_S = 60.0
# All bodies under way together: those of 200 jobs that report at once, with a file of wagons or two.
REQUESTS_MAX_BYTES = 256 * 2**20
# Batches that are read at a time: the database takes one after the other, and a plain batch may take 64 MiB.
REPORTS_AT_ONCE = 4
# A batch waits so long for its turn; then its job is told to come again after some time.
REPORT_WAIT_S = 20.0
RETRY_AFTER_S = 10
# Live pages are told of changes so often, and kept open with a comment when nothing changes.
LIVE_INTERVAL_S = 1.0
# A page is no older than this, also if nothing was reported: what depends on the time alone changes by the minute.
LIVE_AGE_MAX_S = 60.0
LIVE_HEARTBEAT_S = 15.0
LIVE_KNOWN_S = 5.0  # how often it is asked whether their viewer may still see them
# Pages that are drawn at the same time, and kept until something changes: what some dozens of people look at.
PAGES_AT_ONCE = 4
PAGES_KEPT_MAX = 200
# Open pages: each costs a few kB and a wake-up a second.
LIVE_VIEWERS_MAX = 1000
LIVE_VIEWERS_OF_PERSON_MAX = 200
# What the server says of requests that are none, and of its faults, in a minute.
LOG_LINES_MAX, LOG_SPAN_S = 20, 60.0
# What it prints of faults of its own in the background: each once, with a traceback of up to so many characters.
FAULTS_PRINTED_MAX, FAULT_TEXT_MAX = 100, 20_000
# The server waits so long for answers that are under way when it ends.
SERVER_END_S = 2.0
# Bars and lines of a picture of storage elements over time.
ELEMENTS_DRAWN_MAX = 8
# Steps of a line of such a picture: a week by the hour.
PICTURE_BINS_MAX = 170

# Trains of the control room: wagons, how often those that run are looked at, and what needs no operator.
TRAIN_WAGONS_MAX = 200
TRAIN_LOOK_S = 1.0
TRAIN_SUBMITTED_LOOK_S = 10.0
TRAIN_SECONDS_APPROVED = 86_400.0
TRAIN_MEMORY_APPROVED_BYTES = 64 * 10**9

# Plans of trains: how many, how often they are looked at, how late a train may be that was due while the server was
# away (half a working day, after which people have made other arrangements), and the largest limits that they name.
PLANS_MAX = 200
PLAN_LOOK_S = 10.0
PLAN_LATE_MAX_S = 4 * 3600.0
PLAN_HOURS_MAX = 24 * 366
# Trials whose forecasts are remembered: more than there are wagons on datasets.
PLAN_NEEDS_KEPT_MAX = 50_000
PLAN_MEMORY_MAX_BYTES = 2**50

# Measures that jobs obey: how long one may last, and lasts if nobody says it (a shift).
MEASURE_HOURS_MAX = 168
MEASURE_HOURS = 8
MEASURE_SECONDS_MAX = MEASURE_HOURS_MAX * 3600.0
# Measures in force at a time: every answer to a report has all of them, and fits with them into what a job reads of it.
MEASURES_IN_FORCE_MAX = 30
# Measures that the record of a job names: those of weeks, and no number that a server invents.
MEASURES_RECORDED_MAX = 1000
# The names of a site and of a storage element, and the reasons that people give.
MEASURE_TEXT_MAX, MEASURE_WHY_MAX = 200, 1000
# What a page compares with: the reads of a day before a measure.
MEASURE_BEFORE_HOURS = 24

# Comparing the results of two trains: what is read of those that differ, together and of one file, so that a page takes
# a second and no more memory than the server has.
COMPARED_BYTES_MAX, COMPARED_FILE_MAX_BYTES = 256 * 2**20, 32 * 2**20
# Differing values of one file, pictures of one page, and steps of a line in them.
COMPARED_VALUES_SHOWN_MAX, COMPARED_PICTURES_MAX, COMPARED_BINS_DRAWN_MAX = 50, 20, 250
# Tables of two trains: rows that are read at a time, the memory of that, and the time of a page.
COMPARED_TABLE_ROWS, COMPARED_TABLE_MEMORY_BYTES, COMPARED_TABLE_S = 50_000, 256 * 2**20, 10.0
# Cutflows that `branchline run` prints: samples times variations have many.
CUTFLOWS_PRINTED_MAX = 6
# The record of a job, and its state: code of users could write what has no end in their place.
JOB_FILE_MAX_BYTES = 256 * 2**20
# Comparing two commands: rounds in all, and those that may fail.
COMPARED_ROUNDS_MAX, COMPARED_LOST_MAX = 500, 3

# Trials of wagons: a sample takes seconds, and code that runs for minutes on it is wrong.
TRIAL_WALL_S = 600.0
# Wagons that are tried together: each takes a process for a second or more.
TRAIN_TRIAL_WAGONS_MAX = 40
TRIAL_CPU_S = 1200
# Address space of each of its processes: what wagons of the field take, several times over.
TRIAL_MEMORY_MAX_BYTES = 16 * 2**30
# Processes and threads of its user.
TRIAL_TASKS_MAX = 2000
# A file that it writes.
TRIAL_FILE_MAX_BYTES = 2**30
# Sources from git: how long is waited for each step, how large a file of wagons and all that is fetched for it may be.
GIT_WAIT_S, GIT_AT_ONCE = 60.0, 2
GIT_FILE_MAX_BYTES, GIT_DISK_BYTES = 2**20, 2**28
FILES_PARSED_KEPT = 256  # what they import is known without parsing them in the next train of this process
PATHS_KEPT = 4096  # of modules: whether they belong to installed packages
PROVENANCE_GIT_S = 5.0  # for what git says of the code of a train
# Temporary files in the sandbox of a trial, which are in memory; and how often all its processes are looked at.
TRIAL_SPACE_BYTES = 2**30
TRIAL_WATCH_S = 0.5
# What a process of a trial writes to its terminal, of which the end is kept.
TRIAL_LOG_MAX_BYTES = 20_000
# An outcome: its largest parts are tracebacks and names of branches.
TRIAL_OUTCOME_MAX_BYTES = 5_000_000
# Of a finding about a wagon in the pages of its trains: some sentences.
TRIAL_NOTE_MAX = 1000
# After an error of the disk trials pause for so long.
TRIAL_PAUSE_S = 5.0
SANDBOX_PROBE_S = 10.0
# What a trial warns of. A worker of a batch system has 2 GB.
TRIAL_MEMORY_LARGE_BYTES = 10**9
TRIAL_OUTPUT_LARGE_BYTES = 200 * 10**6
TRIAL_FIRST_CHUNK_LONG_S = 30.0
TRIAL_SLOW_OF_READING = 20.0
# Below this a time of a wagon on the sample tells of the machine (of what else it does), not of the wagon.
TRIAL_TIME_TELLING_S = 1.0
# CPU time does not depend on what else the machine does.
TRIAL_CPU_TELLING_S = 0.05
TRIAL_WAITING_SHARE = 0.5
TRIAL_BRANCHES_MANY = 300


def memory_limit_bytes(limit: str | int) -> int:
    """The bytes of a memory limit of a train. Raises MemoryLimitError for one that is too small to work with."""
    size_bytes = parse_bytes(limit)
    if size_bytes < MEMORY_LIMIT_MIN_BYTES:
        raise MemoryLimitError(
            f"nothing can be read within a memory limit of {limit}",
            hint=f"give {MEMORY_LIMIT_MIN_BYTES // 2**20} MiB or more, better 1 GiB",
        )
    return size_bytes


# Findings of the control room: jobs that are looked at, the last ones; places of the two-way table; jobs that a cell
# needs, and others like it that a place is compared with.
FINDINGS_JOBS_MAX, FINDINGS_PLACES_MAX = 50_000, 50
FINDINGS_CELL_JOBS_MIN, FINDINGS_PEERS_MIN = 3, 3
# How often the two-way table is drawn anew within its errors, for intervals.
FINDINGS_DRAWS = 100
# Of the findings of each kind of place at most this share is false.
FINDINGS_FALSE_RATE = 0.02
# Less is not worth a finding.
FINDINGS_SLOW_TIMES = 1.5
# The share of the workers' time that reading from elsewhere must cost.
FINDINGS_LOST_SHARE = 0.1
# Failures at one place beside those at others: how many, and how many times as often; so many are usual anywhere.
FINDINGS_FAILED_MIN = 3
FINDINGS_FAILED_TIMES = 3.0
FINDINGS_USUAL_FAILURES = 0.002
# Bytes that are read beside those that are needed: joined ranges bring some that nobody wants.
LARGE_READS_TIMES, LARGE_READS_WASTE_BYTES = 1.5, 10**9
# Reads that are small, slow, and most of the time.
ROUND_TRIPS_SMALL_BYTES = 256 * 1024
ROUND_TRIP_SLOW_S = 0.005
ROUND_TRIPS_TIME_SHARE = 0.5
# Ends of jobs at which few processes work: of how many, for how long, which part of the job; and how many are told.
TAIL_PROCESSES_MIN, TAIL_LONG_S, TAIL_LONG_SHARE, TAILS_TOLD_MAX = 4, 60.0, 0.2, 5
# CPU time of a wagon beside its trial, in runs with enough events.
FORECAST_MISSED_TIMES = 1.5
WAGON_EVENTS_TELLING = 10_000
FINDINGS_RUNS_MAX = 100_000
# Findings are looked for again after so long where something changed, and never for more than a twentieth of the time.
FINDINGS_PAUSE_S = 20.0
FINDINGS_TIME_SHARE = 0.05
# Places with series of their own at /metrics: each is five series in the monitoring system.
METRICS_CELLS_MAX = 1000

# Accounts of a shared control room.
PASSWORD_CHARACTERS_MIN, PASSWORD_CHARACTERS_MAX = 10, 200
GROUPS_OF_PERSON_MAX = 50
# A session of a browser ends after so many days; of more open ones the oldest end.
SESSION_DAYS = 7
SESSIONS_OF_PERSON_MAX = 20
TOKENS_OF_PERSON_MAX = 50
TOKEN_DAYS_MAX = 400
# How exactly it is kept when a token was used last.
USED_NOTED_S = 300.0
# Wrong passwords for a name, and from an address, before both have to wait; passwords checked at once, of 32 MB each.
LOGIN_TRIES_MAX, LOGIN_TRIES_S = 10, 900.0
LOGINS_AT_ONCE, LOGIN_MAX_BYTES = 2, 64 * 1024
LOGIN_PLACES_MAX = 10_000
# Requests a minute by a person: a job reports 12 times a minute.
REQUESTS_PER_MINUTE_MAX = 30_000
# Sessions of people whom a provider of OpenID Connect lets in are shorter: their roles are renewed by logging in.
OUTSIDER_SESSION_HOURS = 24
# A log-in at a provider takes up to so long. A provider's answer is waited for so long, and has up to so many bytes.
OPENID_LOGIN_S, OPENID_WAIT_S = 600.0, 10.0
OPENID_ANSWER_MAX_BYTES, OPENID_FILE_MAX_BYTES = 2**20, 2**16
# What it says of itself is kept so long; its keys are fetched again for a new one, and not more often than this.
OPENID_DISCOVERY_S, OPENID_KEYS_AGAIN_S = 3600.0, 60.0
OPENID_KEYS_MAX, OPENID_GROUPS_MAX = 100, 10_000
# The clocks of the two servers differ by up to so much.
OPENID_CLOCKS_S = 60.0
# Log-ins that fail, from an address, before it has to wait, within LOGIN_TRIES_S: many people can share one; and those
# that are on their way to the provider at once.
OPENID_TRIES_MAX, OPENID_AT_ONCE = 100, 8
# A secret that was just made is shown once, within this time.
SECRET_SHOWN_S = 120.0

# Profiles of wagons: how often the stack is looked at, and how much of what was seen is kept.
PROFILE_INTERVAL_S = 0.005
PROFILE_DEPTH_MAX, PROFILE_STACKS_MAX = 60, 300
# Lines that the page of a trial shows.
PROFILE_LINES_SHOWN = 12
