"""Timeout for events that normally occur within seconds. It is long enough for a busy machine."""

from __future__ import annotations

#: Only an event that never occurs reaches this timeout. The timeout of a whole test is 300 s.
HANG_S = 240.0
