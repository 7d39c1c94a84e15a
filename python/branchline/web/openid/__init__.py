"""Logging in by a provider of OpenID Connect, that of an institute or an experiment."""
