"""Limits of studies. Those of everything else are in `branchline.base.limits`."""

# The file of a study: more is not written by hand.
STUDY_FILE_MAX_BYTES = 10**6
# Arms of one study: more take days even with short jobs.
STUDY_ARMS_MAX = 200
# Jobs at once on a farm: each is a sample of its own, and a task of the batch system.
STUDY_JOBS_MAX = 1000
# Jobs at once on one machine: each is a process with its own Python.
STUDY_JOBS_HERE_MAX = 256
# How often a batch system is asked for the states of jobs.
FARM_LOOK_S = 5.0
# How often the folder of answers is looked at meanwhile.
FARM_ANSWER_LOOK_S = 0.2
# Tasks that are gone from the queue: so long their answers may take through a shared file system.
FARM_ANSWER_GRACE_S = 60.0
# Jobs of a sample may wait in the queue of a farm for as long as this.
FARM_QUEUE_S = 48 * 3600.0
# Samples in a row that fail before an arm is given up.
STUDY_LOST_MAX = 3
# Rounds in which the limits of storages are measured, too.
STUDY_LIMIT_ROUNDS = 3
# How often the reads of a trace are repeated.
STUDY_BLOCK_ROUNDS = 2
# Traces and their repetition may take this part of the budget more, behind the rounds.
STUDY_TRACES_PART = 0.2
# Starting a client with its imports; ROOT's take seconds, and many start at once.
STUDY_START_S = 300.0
# A process that was killed is gone at once, but for one that waits for a disk.
STUDY_ENDING_S = 60.0
# One line that a job prints.
STUDY_ANSWER_MAX_BYTES = 10**6
