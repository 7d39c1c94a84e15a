"""Trials: each new or changed wagon runs on a sample of its dataset, in a separate process with limits."""
