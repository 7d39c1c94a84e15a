"""Reported jobs and reads, with sums by site and storage element."""
