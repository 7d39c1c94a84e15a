"""Simulations of many jobs that share the disks, links and nodes of a platform."""
