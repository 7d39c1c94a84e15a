"""Every file of a collection merged with itself in every way: what ROOT, uproot and we read of that."""
