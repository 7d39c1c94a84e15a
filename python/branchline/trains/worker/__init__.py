"""A train's worker: opens trees, reads chunks and runs the wagons on each chunk."""
