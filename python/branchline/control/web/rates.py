"""How often somebody may ask, and try passwords."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from branchline.base.limits import LOGIN_PLACES_MAX


@dataclass
class Rates:
    """At most ``count_max`` times in ``span_s`` for each name."""

    count_max: int
    span_s: float
    now_s: Callable[[], float] = time.monotonic
    _counts: dict[str, int] = field(default_factory=dict)
    _began_s: float = 0.0

    def add(self, name: str) -> bool:
        """Counts one; False if it is too much."""
        self._renew()
        key = self._key(name)
        self._counts[key] = self._counts.get(key, 0) + 1
        return self._counts[key] <= self.count_max

    def is_over(self, name: str) -> bool:
        """Whether the next one is too much."""
        self._renew()
        return self._counts.get(self._key(name), 0) >= self.count_max

    def forget(self, name: str) -> None:
        """Begins anew for a name."""
        self._counts.pop(name, None)

    def _key(self, name: str) -> str:
        """Names may come from outside: when there are too many, those that are not known yet share one count."""
        return name if name in self._counts or len(self._counts) < LOGIN_PLACES_MAX else ""

    def _renew(self) -> None:
        if self.now_s() - self._began_s > self.span_s:
            self._began_s = self.now_s()
            self._counts.clear()
