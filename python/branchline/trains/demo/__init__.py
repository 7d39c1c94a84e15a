"""The demo: simulated collisions, and a train of three wagons over them."""
