"""Worker processes: fork server, launcher, messages, heartbeat and memory limits."""
