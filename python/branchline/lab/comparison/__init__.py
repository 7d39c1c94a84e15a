"""Comparisons of two commands or of two ways of reading, from alternating runs."""
