"""A task of a batch job, which acquires units, runs their sub-jobs, and writes their results."""
