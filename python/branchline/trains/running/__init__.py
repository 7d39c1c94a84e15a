"""A single run of a train: its progress, its recovery from lost workers, its missing sub-jobs, and its job record."""
