"""Reports of a job to a control room: collected, spooled to disk, and sent exactly once."""
