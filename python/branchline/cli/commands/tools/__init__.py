"""Small commands: `completion`, `demo-data`, `proxy` and `version`."""
