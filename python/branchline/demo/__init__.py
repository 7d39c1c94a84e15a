"""The demo: simulated collisions to read, and a train of three wagons to run over them."""
