"""Sub-jobs of a train: the dataset is split into shares, workers draw the shares, and their results are combined."""
