"""Limits of studies, simulations and forecasts. Those of everything else are in `branchline.base.limits`."""

from __future__ import annotations

# --- studies ----------------------------------------------------------------------------------------------------------

#: Size of a study's file: nobody writes more by hand.
STUDY_FILE_MAX_BYTES = 10**6
#: Arms of one study: more take days even with short jobs.
STUDY_ARMS_MAX = 200
#: Jobs at once on a farm: each is a sample of its own, and a task of the batch system.
STUDY_JOBS_MAX = 1000
#: Jobs at once on one machine: each is a process with its own Python.
STUDY_JOBS_HERE_MAX = 256
#: Interval at which a batch system is asked for the states of jobs.
FARM_LOOK_S = 5.0
#: Interval at which the folder of answers is looked at meanwhile.
FARM_ANSWER_LOOK_S = 0.2
#: Time that the answers of tasks gone from the queue may take through a shared file system.
FARM_ANSWER_GRACE_S = 60.0
#: Time that jobs of a sample may wait in the queue of a farm.
FARM_QUEUE_S = 48 * 3600.0
#: Failed samples in a row after which an arm is given up.
STUDY_LOST_MAX = 3
#: Rounds in which the limits of storages are measured, too.
STUDY_LIMIT_ROUNDS = 3
#: Number of times that the reads of a trace are repeated.
STUDY_BLOCK_ROUNDS = 2
#: Part of the budget that traces and their repetition may take on top of it, after the rounds.
STUDY_TRACES_PART = 0.2
#: Time to start a client with its imports; ROOT's take seconds, and many start at once.
STUDY_START_S = 300.0
#: Time for a killed process to end: it is gone at once, unless it waits for a disk.
STUDY_ENDING_S = 60.0
#: Size of one line that a job prints.
STUDY_ANSWER_MAX_BYTES = 10**6

# --- simulations ------------------------------------------------------------------------------------------------------

#: Size of a platform's file: a platform of thousands of disks and links takes less.
PLATFORM_FILE_MAX_BYTES = 1_000_000
#: Jobs of one simulation: ten times the largest that was timed, which took seconds.
SIMULATED_JOBS_MAX = 100_000
#: Bytes that a stream reads ahead of the chunk in use: two chunks (``CHUNKS_AHEAD`` of the engine) of 100 MB of values,
#: which take about a third of that in a file.
AHEAD_BYTES = 64 * 2**20
#: Blocks of a plan: a job of a day that reads 10 MB/s in blocks of 1 MB has as many.
PLAN_BLOCKS_MAX = 1_000_000
#: The gap that a store of a server has, for what reading chooses over a link; see ``crates/storage/src/limits.rs``.
REMOTE_GAP_BYTES = 128 * 1024
#: Relative spread of the computing time of equal jobs. Jobs that keep step to the last digit would ask a disk for the
#: same place at the same moment again and again, and be forecast up to 14 % slower than any that do not.
CPU_SPREAD = 0.01
#: A job is held up by others if it gets less than this part of what it gets alone.
FREE_PART = 0.9
#: Relative precision of the number of jobs from which on they hold each other up.
SATURATION_PART = 0.01

# --- forecasts --------------------------------------------------------------------------------------------------------

#: Sizes of the files of calibrations and of checked forecasts: hundreds of storages, or all forecasts that are kept,
#: take less.
CALIBRATION_FILE_MAX_BYTES = CHECKED_FILE_MAX_BYTES = 1_000_000
#: Checked forecasts that are kept: older ones say little about the machine as it is now.
CHECKED_KEPT = 500
#: Timeout of the lock of checked forecasts, and the interval at which it is asked for: adding to them takes
#: milliseconds, so a process that holds it longer hangs.
CHECKED_LOCK_S, CHECKED_LOCK_TURN_S = 20.0, 0.005
