"""Pages: each is a function from a request to a template and its values, which scripts get as JSON."""
