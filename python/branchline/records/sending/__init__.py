"""A job's reports to a control room: collected, spooled to disk, and stored exactly once by the server."""
