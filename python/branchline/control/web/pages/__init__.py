"""Pages. Each page function takes a request and returns a template with values, which scripts get as JSON."""
