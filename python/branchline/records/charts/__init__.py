"""Charts as SVG: what jobs, storages and networks did over time, distributions, and tables as coloured cells."""
