"""The heavier stores and mounted file systems do what every store does."""

from __future__ import annotations

from tests.stores.conformance import *  # noqa: F403
