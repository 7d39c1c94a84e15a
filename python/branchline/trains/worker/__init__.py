"""The worker of a train: it opens trees, reads chunks and runs the wagons on them."""
