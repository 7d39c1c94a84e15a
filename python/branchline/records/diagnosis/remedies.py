"""What is to be done about what is found at sites, at storage, in jobs and in trials of wagons: one sentence for each.

Rooms that find what is wrong show these; what they propose with a gain is in `corrections`.
"""

from __future__ import annotations

# --- sites, storage and the ways between ------------------------------------------------------------------------------

SLOW_SITE = "look at its machines and its network inside; other sites read from the same storage as usual"
SLOW_SITE_OR_ITS_WAY = (
    "its machines and its way to elsewhere cannot be told apart: read some files there that are local"
)
SLOW_WAY_OF_SITE = "place data there, stage them, or look at the site's connection to the outside"
SLOW_STORAGE = "look at its servers and its connection; avoid it for files that have replicas elsewhere"
SLOW_WAY_BETWEEN = "avoid it there for files with other replicas, or look at the network between"
NOT_TOLD_APART = "there is too little else that was read by the one or from the other to tell which it is"
SLOWER_THAN_BEFORE = "ask what changed there: servers, load, or network"
FAILING_REPLICAS = "look at its servers; avoid it for files that have replicas elsewhere"
LOST_WORKERS = "take this machine out of the batch system until it was looked at"
READ_FROM_ELSEWHERE = (
    "list replicas with `branchline locate`, so that sub-jobs run where files are; or have files staged"
)

# --- how files are read -----------------------------------------------------------------------------------------------

READS_TOO_LARGE = (
    "read with smaller gaps between joined ranges (--gap), or copy the branches that are wanted: `branchline slim`"
)
READS_TOO_SMALL = (
    "have reads planned (--access planned, a TTreeCache in ROOT), so that each brings more; or stage files"
)

# --- jobs and wagons --------------------------------------------------------------------------------------------------

LONG_TAIL = "its report names the last sub-jobs: slow files, a slow machine, or sub-jobs that are too large"
SLOWER_THAN_TRIED = "try it again: the sample of the dataset may be too short, or its first events too simple"
MISSING_SUBJOBS = "its page has the causes; when they are mended, send what is missing again"

# --- wagons in their trial --------------------------------------------------------------------------------------------

NO_EVENTS = "give the dataset a short sample that has some"
MUCH_MEMORY = "fill histograms of fewer dimensions or bins, and keep no events between chunks"
MANY_BINS = "use fewer bins"
MANY_ROWS = "return rows as branchline.Table, which is streamed to disk"
LONG_FIRST_CHUNK = "compile or load less: cache what numba compiles, load files once"
MANY_BRANCHES = "name only those that it needs, in its attribute branches"
SLOWER_THAN_READING = "look for loops over events in Python; work on whole arrays instead"
WAITING_WAGON = "read no files and wait for no servers in process()"
