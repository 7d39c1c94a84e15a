"""The reference job: a frozen analysis of a frozen file. Its values are known, and its times are comparable."""
