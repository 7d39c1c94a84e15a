"""Registry: wagons, datasets, which wagon runs on which dataset, and every change to them."""
