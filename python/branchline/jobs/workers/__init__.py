"""Worker processes: fork server, messages, heartbeat and memory limits."""
