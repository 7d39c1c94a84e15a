"""Sub-jobs of a train: the dataset is cut into shares, which workers draw and whose results are folded."""
