"""One run of a train: progress, recovery, missing parts, and the record of the job."""
