"""The layout of trees on disk: baskets, clusters, compression, and the differences within a dataset."""
