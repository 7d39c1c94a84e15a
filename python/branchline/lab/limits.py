"""Limits of studies, simulations and forecasts. Limits that other packages use are in `branchline.base.limits`."""

from __future__ import annotations

from branchline.base.quantities import KIB, MB, MIB

# --- studies ----------------------------------------------------------------------------------------------------------

#: Maximum size of a study file, which is written by hand.
STUDY_FILE_MAX_BYTES = MB
#: Maximum number of arms of a study. More arms take days, even with short jobs.
STUDY_ARMS_MAX = 200
#: Maximum number of concurrent jobs on a farm. Each job is a separate sample and a task of the batch system.
STUDY_JOBS_MAX = 1000
#: Maximum number of concurrent jobs on one machine. Each job is a process with its own Python interpreter.
STUDY_JOBS_HERE_MAX = 256
#: Interval in seconds at which the batch system is polled for job states.
FARM_LOOK_S = 5.0
#: Interval in seconds at which the folder with the answers of jobs is polled between polls of the batch system.
FARM_ANSWER_LOOK_S = 0.2
#: Maximum delay in seconds until the answer of a task that left the queue appears on a shared file system.
FARM_ANSWER_GRACE_S = 60.0
#: Maximum queue time in seconds of the jobs of a sample on a farm.
FARM_QUEUE_S = 48 * 3600.0
#: Number of consecutive failed samples after which an arm is abandoned.
STUDY_LOST_MAX = 3
#: Number of rounds that also measure the limits of the storage elements.
STUDY_LIMIT_ROUNDS = 3
#: Number of rounds in which the reads of a trace are replayed.
STUDY_BLOCK_ROUNDS = 2
#: Maximum time for recording and replaying traces after the rounds, as a fraction of the budget and in addition to it.
STUDY_TRACES_PART = 0.2
#: Timeout in seconds for starting a client. Importing ROOT takes seconds, and many clients start at once.
STUDY_START_S = 300.0
#: Timeout in seconds for a killed process to exit, which takes no time unless the process waits for a disk.
STUDY_ENDING_S = 60.0
#: Maximum length of a line that a job prints.
STUDY_ANSWER_MAX_BYTES = MB

# --- simulations ------------------------------------------------------------------------------------------------------

#: Maximum size of a platform file. Thousands of disks and links take less.
PLATFORM_FILE_MAX_BYTES = MB
#: Maximum number of jobs of a simulation: ten times the largest simulation that was measured, which took seconds.
SIMULATED_JOBS_MAX = 100_000
#: Number of bytes that a stream prefetches beyond the current chunk: two chunks (the engine's ``CHUNKS_AHEAD``) of 100
#: MB after decompression, which take about a third of that in a file.
AHEAD_BYTES = 64 * MIB
#: Maximum number of blocks of a plan. A job that reads 10 MB/s in blocks of 1 MB for a day has about as many.
PLAN_BLOCKS_MAX = 1_000_000
#: Default gap in bytes for coalescing reads over a network, see ``crates/storage/src/limits.rs``.
REMOTE_GAP_BYTES = 128 * KIB
#: Relative spread of the computing times of equal jobs. Without a spread, simulated jobs stay in lockstep and compete
#: for the same disk at the same moments; forecast times are then up to 14 % too long.
CPU_SPREAD = 0.01
#: A job counts as slowed down by other jobs if its rate is below this fraction of its rate when it runs alone.
FREE_PART = 0.9
#: Relative precision of the number of jobs at which jobs start to slow each other down.
SATURATION_PART = 0.01

# --- forecasts --------------------------------------------------------------------------------------------------------

#: Maximum size of the files with calibrations and checked forecasts. Hundreds of storage elements, or the maximum
#: number of forecasts, take less.
CALIBRATION_FILE_MAX_BYTES = CHECKED_FILE_MAX_BYTES = MB
#: Maximum number of checked forecasts that are kept. Older forecasts say little about the present state of the machine.
CHECKED_KEPT = 500
#: Timeout in seconds for acquiring the lock of checked forecasts, and the polling interval. Adding a forecast takes
#: milliseconds, so a process that holds the lock longer hangs.
CHECKED_LOCK_S, CHECKED_LOCK_TURN_S = 20.0, 0.005
