"""The pages: each is a function of a request that gives a template and the values for it, which scripts get as JSON."""
