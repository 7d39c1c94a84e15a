"""What several tests of the lab need."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def busy() -> Iterator[None]:
    """A program that computes on every core."""
    words = [sys.executable, "-c", "while True: pass"]
    programs = [subprocess.Popen(words) for _ in range(os.cpu_count() or 1)]
    yield
    for one in programs:
        one.kill()
        one.wait()
