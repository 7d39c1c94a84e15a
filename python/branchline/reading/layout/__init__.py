"""The layout of trees on disk: baskets, clusters, compression, and differences within a dataset."""
