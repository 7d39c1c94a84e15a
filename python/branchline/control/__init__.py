"""The control room: what jobs reported, and what follows from it. State and rules; pages are in `web`."""
