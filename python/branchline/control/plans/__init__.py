"""Plans: trains that start at set times, or when enough work is waiting."""
