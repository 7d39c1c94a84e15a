"""Sub-jobs of a train: splits the dataset into shares, queues the shares for workers, and combines the results."""
