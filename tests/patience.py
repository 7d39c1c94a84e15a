"""How long tests wait for an event that comes soon: much longer than it takes, also on a busy machine."""

from __future__ import annotations

#: Only ends what hangs. A test has 300 s.
HANG_S = 240.0
