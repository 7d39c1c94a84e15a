"""What trains are put together from: wagons, datasets, which wagon runs on which dataset, and who changed what."""
