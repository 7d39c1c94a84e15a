"""Studies of earlier years, done again: their questions, their published numbers, and what is found here."""
