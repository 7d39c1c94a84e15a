"""The output directory of a run: its lock, settings and state, and reports while the train runs."""
