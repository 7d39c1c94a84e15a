"""How files lie on disk, and what writes them: inspect, merge, skim, slim, convert, verify."""
