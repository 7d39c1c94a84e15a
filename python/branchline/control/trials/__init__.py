"""Trials: each new or changed wagon runs on a sample, in a process that cannot do harm."""
