"""The sandbox for users' code: its rules and limits, and calls to processes of the owner."""
