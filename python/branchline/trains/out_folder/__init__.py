"""The output directory of a run: lock, settings, state, and reports while the train runs."""
