"""Accounts of a shared control room: passwords, sessions, tokens and Unix users."""
