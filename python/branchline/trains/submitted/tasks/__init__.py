"""The task of a batch job: it takes units, runs their sub-jobs, and writes the results."""
