"""The task of a batch job: acquires units, runs their sub-jobs, and writes the results."""
