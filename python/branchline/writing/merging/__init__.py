"""Merge, skim, slim and convert files, and verify the result against the inputs."""
