"""A single run of a train: progress, recovery, missing sub-jobs, and the job record."""
