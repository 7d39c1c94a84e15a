"""Every limit of simulations, with its reason."""

from __future__ import annotations

#: A platform of thousands of disks and links takes less.
PLATFORM_FILE_MAX_BYTES = 1_000_000
#: Jobs of one simulation: ten times the largest that was timed, which took seconds.
SIMULATED_JOBS_MAX = 100_000
#: What a stream reads ahead of the chunk in use: two chunks (``CHUNKS_AHEAD`` of the engine) of 100 MB of values, which
#: take about a third of that in a file.
AHEAD_BYTES = 64 * 2**20
#: Blocks of a plan: a job of a day that reads 10 MB/s in blocks of 1 MB has as many.
PLAN_BLOCKS_MAX = 1_000_000
#: The gap that a store of a server has, for what reading chooses over a link; see ``crates/storage/src/limits.rs``.
REMOTE_GAP_BYTES = 128 * 1024
#: What equal jobs differ by in the time that they compute. Jobs that keep step to the last digit would ask a disk for
#: the same place at the same moment again and again, and be forecast up to 14 % slower than any that do not.
CPU_SPREAD = 0.01
#: A job is held up by others where it gets less than this part of what it gets alone.
FREE_PART = 0.9
#: The number of jobs from which on they are is found so well, as a part of itself.
SATURATION_PART = 0.01
#: A calibration of hundreds of storages, and the forecasts that are kept, take less.
CALIBRATION_FILE_MAX_BYTES = CHECKED_FILE_MAX_BYTES = 1_000_000
#: Forecasts that were checked and are kept: older ones say little of the machine of today.
CHECKED_KEPT = 500
#: Adding to them takes milliseconds: who holds the lock for so long hangs. It is asked for so often meanwhile.
CHECKED_LOCK_S, CHECKED_LOCK_TURN_S = 20.0, 0.005
