"""Comparisons of two commands, or of two ways of reading, in alternating pairs."""
