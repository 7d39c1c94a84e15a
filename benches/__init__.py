"""Benchmarks: Branchline, uproot and ROOT in one run, interleaved. `python -m benches --help` says how."""
