"""ROOT's byte format of histograms, graphs, efficiencies and sparse histograms."""
