"""Encodes histograms, graphs, efficiencies and sparse histograms in ROOT's binary format."""
