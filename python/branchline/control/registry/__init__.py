"""The registry: wagons, datasets, which wagons run on which datasets, and the change history."""
