"""Benchmarks of Branchline, uproot and ROOT in interleaved rounds. See `python -m benches --help`."""
