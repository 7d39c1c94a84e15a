"""Limits of studies. Those of everything else are in `branchline.limits`."""

# The file of a study: more is not written by hand.
STUDY_FILE_MAX_BYTES = 10**6
# Arms of one study: more take days even with short jobs.
STUDY_ARMS_MAX = 200
# Jobs at once on one machine: each is a process with its own Python.
STUDY_JOBS_MAX = 256
# Samples in a row that fail before an arm is given up.
STUDY_LOST_MAX = 3
# Rounds in which the limits of storages are measured, too.
STUDY_LIMIT_ROUNDS = 3
# Starting a client with its imports; ROOT's take seconds, and many start at once.
STUDY_START_S = 300.0
# One line that a job prints.
STUDY_ANSWER_MAX_BYTES = 10**6
