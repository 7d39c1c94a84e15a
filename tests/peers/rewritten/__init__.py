"""Every file of a collection merged, laid down anew and made smaller in every way, and what ROOT, uproot and we read of it."""
