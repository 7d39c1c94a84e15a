"""Studies: rounds in random order, verdicts, reports, and storages watched over weeks."""
