"""Plans: trains that are put together at due times, or when they are full."""
