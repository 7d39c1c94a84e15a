"""The sandbox for user code, with its rules and limits, and calls to processes that run as a train's owner."""
